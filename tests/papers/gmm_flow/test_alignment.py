import math
from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.papers.gmm_flow.alignment import ALIGNMENT, SCALED
from featureprism.papers.gmm_flow.alignment_flow import AlignmentPhase, three_kinds
from featureprism.papers.gmm_flow.setting import mixture
from featureprism.probes import cosines
from featureprism.probes.voronoi import VOID, nondegeneracy_gap

TINY = {
    "gmm-flow/alignment": [
        replace(setting, dim=30, per_cluster=20, alpha=setting.alpha / 2)
        for setting in ALIGNMENT.settings("quick")
        if setting.whole
        or (setting.series == "alpha" and setting.alpha in (0.2, 0.12, 0.07))
        or (setting.series == SCALED and setting.alpha >= 0.1)
    ]
}


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_a_logarithm_differs_from_a_power(scale):
    """t₁ at the α in use, by both laws: only the logarithm is O(ln 1/α)."""
    (claim,) = [c for c in ALIGNMENT.claims if c.name == "t1-order"]
    alphas = [s.alpha for s in ALIGNMENT.settings(scale) if s.series == "alpha"]
    for law, is_a_logarithm in ((lambda a: 1 - math.log(a) / 3, True), (lambda a: a**-0.25, False)):
        rows = Rows.gather(
            {"kind": "phase", "series": "alpha", "seed": 0, "log_inverse_alpha": -math.log(a), "t1": law(a)}
            for a in alphas
        )
        assert claim.bound.holds(float(claim.value(rows)[0])) == is_a_logarithm


def test_leaning_neurons_satisfy_assumption_2_but_not_the_bound_of_lemma_7():
    """|c_l|/c_k ≤ 1 - √(2Δ), (F.5), fails at the start for centres of the other class, and holds for those of the own class."""
    data = mixture(AlignmentPhase(series="alpha", dim=30, per_cluster=5, alpha=0.1), 0)
    start = three_kinds(data, -10.0, 0)
    learned = start.region != VOID
    region, labels = start.region[learned], data.clusters.labels
    c = cosines(start.weights.directions, data.clusters.mu)[learned]
    ratio = c.abs() / c.gather(1, region.unsqueeze(1))
    ratio.scatter_(1, region.unsqueeze(1), 0.0)
    same = labels[region].unsqueeze(1) == labels
    gap = float(nondegeneracy_gap(start.margin).min())
    bound = 1 - math.sqrt(2 * gap)
    assert gap > 0.02
    assert float(ratio[same].max()) < bound
    assert float(ratio[~same].max()) == pytest.approx(0.7 / 0.4)
    assert float(ratio[~same].max()) > 2 * bound
