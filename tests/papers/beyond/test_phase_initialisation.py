"""Radii over power and start, on curves that are known."""

import math
from dataclasses import replace

import pytest
from phase_cells import cells, values

from featureprism.papers.beyond.phase_initialisation import PHASE_INITIALISATION, fall

TINY = {
    "beyond/phase-initialisation": [
        replace(
            PHASE_INITIALISATION.settings("quick")[0],
            dim=20,
            positive=1,
            negative=1,
            width=8,
            test_points=1,
            p=p,
            std=std,
        )
        for p, std in ((2.0, 1e-3), (3.0, 1e-3), (3.0, 2.0))
    ]
}


def test_a_fall_is_interpolated_on_the_log_scale():
    best = 0.9 * 2**-0.5
    line = [
        {"std": std, "half_radius": radius}
        for std, radius in ((1.0, 0.0), (1e-3, best + 0.1), (1e-1, best - 0.1))
    ]
    assert fall(cells(*line)) == pytest.approx(1e-2)
    assert math.isnan(fall(cells(line[0])))


def test_only_starts_well_below_the_prediction_count_as_small():
    table = cells(
        {"p": 2.0, "std": 0.01, "half_radius": 0.3, "critical_std": 0.1},
        {"p": 2.0, "std": 1.0, "half_radius": 0.5, "critical_std": 0.1},
        {"p": 3.0, "std": 0.01, "half_radius": 0.7, "critical_std": 0.1},
        {"p": 3.0, "std": 1.0, "half_radius": 0.2, "critical_std": 0.1},
    )
    measured = values(PHASE_INITIALISATION, table)
    assert [measured[name] * 0.5**0.5 for name in ("small", "power")] == pytest.approx([0.7, 0.3])
    assert 0.1 < measured["place"] < 10
