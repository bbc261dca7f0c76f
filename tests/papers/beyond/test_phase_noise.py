"""The laws of distance over noise and points."""

from dataclasses import replace

import pytest
from phase_cells import cells, values

from featureprism.papers.beyond.phase_noise import LINE, PHASE_NOISE, _settings, points_for

TINY = {
    "beyond/phase-noise": [
        replace(setting, positive=1, negative=1, neurons_per_cluster=1)
        for setting in _settings(20, (0.4, 0.2), 2)
    ]
}
SLOW = ("beyond/phase-noise",)  # a flow


def test_the_line_of_the_alpha_square_law():
    assert [points_for(a) for a in (0.2, 0.1, 0.05, 0.126)] == [25, 100, 400, 63]
    line = [s for s in PHASE_NOISE.settings("quick") if s.series == LINE]
    assert [s.per_cluster * s.alpha**2 for s in line] == pytest.approx([1.0] * 3)


def test_the_law_of_noise_gives_its_exponents():
    table = cells(
        *(
            {"alpha": s.alpha, "per_cluster": s.per_cluster, "series": s.series}
            | {"distance": 2 * s.alpha / s.per_cluster**0.5, "over_predicted": 1.0}
            for s in PHASE_NOISE.settings("quick")
        )
    )
    measured = values(PHASE_NOISE, table)
    wanted = {"exponent-fixed-n": 1.0, "exponent-points": -0.5, "law": 1.0}
    assert measured == pytest.approx(wanted)
