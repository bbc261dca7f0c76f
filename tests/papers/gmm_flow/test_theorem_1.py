import math
from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.papers.gmm_flow.theorem_1 import THEOREM_1
from featureprism.papers.gmm_flow.window import Window, cluster_settings, measure_window, window_settings

_FLOWS = [s for s in THEOREM_1.settings("quick") if not isinstance(s, Window)]
TINY = {
    "gmm-flow/theorem-1": [
        *(
            replace(
                setting,
                dim=40,
                positive=2,
                negative=2,
                per_cluster=min(setting.per_cluster, 20),
                num_times=3,
                test_points=1,
                attacked_points=2 if setting.attacked_points else 0,
                max_cells=1,
            )
            for setting in _FLOWS
            if setting.series != "scaled N" or setting.alpha >= 0.1
        ),
        *(
            replace(setting, dim=20, per_cluster=10, alpha=3 * setting.alpha, num_times=3)
            for setting in window_settings(3)
            if setting.p == 3.0 and setting.series == "window"
        ),
        *(
            replace(setting, dim=20, per_cluster=10, num_times=3, draws=1)
            for setting in cluster_settings(3)
            if setting.positive <= 3
        ),
    ]
}


def test_two_draws_of_a_window_are_two_windows():
    """Suprema of both; the states along the way and the drawing are of the first."""
    one = Window(series="window", dim=20, per_cluster=10, alpha=0.2, num_times=3)
    apart = [measure_window(one, seed, Context()) for seed in (2, 3)]
    together = measure_window(replace(one, draws=2), 1, Context())
    assert _of_kind("sup", together) == [row for rows in apart for row in _of_kind("sup", rows)]
    assert _of_kind("window", together) == _of_kind("window", apart[0])
    assert len(together) == sum(map(len, apart)) - len(_of_kind("window", apart[1]))


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_the_time_t_star_by_a_logarithm_and_by_a_power(scale):
    (claim,) = [c for c in THEOREM_1.claims if c.name == "t-star"]
    alphas = [
        s.alpha
        for s in THEOREM_1.settings(scale)
        if isinstance(s, Window) and s.p == 3.0 and s.series != "clusters"
    ]
    for law, is_a_logarithm in ((lambda a: 3 - 20 * math.log(a), True), (lambda a: a**-0.25, False)):
        rows = Rows.gather(
            {"kind": "sup", "series": "window", "p": 3.0, "seed": 0, "alpha": a, "t_star": law(a)}
            for a in alphas
        )
        assert claim.bound.holds(float(claim.value(rows)[0])) == is_a_logarithm


def _of_kind(kind, rows):
    return [row for row in rows if row["kind"] == kind]
