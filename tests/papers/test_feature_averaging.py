"""Every item at a tiny size: the rows are complete, the claims judge them, the figure can be drawn."""

import pytest
import torch

from featureprism.data import orthogonal_clusters
from featureprism.papers import PAPERS
from featureprism.papers.feature_averaging.ablations import last_that_averages
from featureprism.papers.feature_averaging.scaling import slope
from featureprism.papers.feature_averaging.theorems import averaging_error
from featureprism.report.figures import DRAWINGS
from featureprism.seeds import generator_for
from featureprism.sweep import run

EXPERIMENTS = {e.id.split("/")[1]: e for e in PAPERS["feature-averaging"]}
TINY = {"dim": 200, "points": 60, "steps": 20, "step_size": 0.015, "test_points": 4}
OWN = {
    "figure-5": {"values": "40 300"},
    "theorem-4-6": {"sizes": "50 150"},
    "figure-6": {"values": "0.01 0.1"},
}
EXPECTED = {
    "figure-1": {"two-class", "ten-class"},
    "figure-2": {"same-class", "opposite", "diagonal", "off-diagonal"},
    "figure-3": {"two-class", "two-class-proven", "ten-class", "proven-gain", "universal-gap"},
    "figure-5": {"averages", "radius"},
    "figure-6": {"ten-times", "stops", "radius"},
    "figure-7": {"weakens", "radius", "no-gain"},
    "figure-8": {"averages", "radius"},
    "figure-9": {"averages", "radius"},
    "theorem-4-5": {"clean", "weights", "bias", "holds", "breaks"},
    "theorem-4-6": {"gap", "size"},
    "theorem-4-7": {"clean", "weights", "growth", "radius"},
    "proposition-4-8": {"clean", "loss", "radius", "averaging", "decoupled"},
    "decomposition": {"error", "solved", "corollary", "own", "opposite", "active", "ratios", "spread"},
    "dynamics": {"two-class", "k-class"},
    "scaling": {"two-class", "k-class", "two-class-unequal", "k-class-unequal"},
}


@pytest.mark.parametrize("item", EXPECTED)
def test_every_item_runs_is_judged_and_drawn(item, tmp_path):
    experiment = EXPERIMENTS[item]
    settings = [{**s, **TINY, **OWN.get(item, {})} for s in experiment.scales["quick"]]
    small = type(experiment)(**{**experiment.__dict__, "scales": {"quick": settings}})
    result = run(small, "quick", [0], tmp_path)
    assert {c.id.removeprefix(f"{item}.") for c in result.claims} == EXPECTED[item]
    assert DRAWINGS[experiment.id](result.rows)


@pytest.mark.slow
def test_the_claims_hold_at_the_quick_scale(tmp_path):
    for item in EXPECTED:
        result = run(EXPERIMENTS[item], "quick", [0, 1, 2], tmp_path)
        assert [c.id for c in result.claims if not c.holds] == [], item


def test_averaged_weights_have_no_error():
    clusters = orthogonal_clusters(100, 3, 2, 1.0, generator=generator_for("centres", 0))
    signs = torch.tensor([1.0, -1.0]).double()
    sums = torch.stack([clusters.mu[:3].sum(dim=0), clusters.mu[3:].sum(dim=0)])
    growth, error = averaging_error(0.07 * sums / 100, signs, clusters.mu, clusters.labels)
    assert growth == pytest.approx(0.07)
    assert error < 1e-9
    spoiled = 0.07 * sums / 100 + 0.01 * clusters.mu[0] / 100
    assert averaging_error(spoiled, signs, clusters.mu, clusters.labels)[1] > 0.05


def test_where_averaging_ends():
    rows = [
        {"kind": "summary", "seed": 0, "value": v, "same_class": c, "law": 1.0}
        for v, c in ((0.01, 0.99), (0.1, 0.95), (1.0, 0.5))
    ]
    assert last_that_averages(rows, rising=True) == [0.1]


def test_slopes_of_powers():
    rows = [
        {
            "kind": "radius",
            "seed": 0,
            "network": "two-class",
            "split": "equal",
            "clusters": k,
            "radius": k**-0.5,
        }
        for k in (4, 8, 16)
    ]
    assert slope(rows, "two-class", "equal", 0) == pytest.approx(-0.5)
