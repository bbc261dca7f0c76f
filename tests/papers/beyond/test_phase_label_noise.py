"""How much label noise so many points bear, on lines that are known."""

from dataclasses import replace

import pytest
from phase_cells import cells, values

from featureprism.lab import Rows
from featureprism.papers.beyond.phase_label_noise import PHASE_LABEL_NOISE, breakdown

TINY = {
    "beyond/phase-label-noise": [
        replace(setting, width=20, samples=4, test_points=100)
        for setting in PHASE_LABEL_NOISE.settings("quick")
        if setting.points in (32, 64) and setting.noise_rate in (0.0, 0.45)
    ]
}


def test_a_breakdown_is_interpolated():
    line = [{"noise_rate": r, "clean_error": e} for r, e in ((0.0, 0.0), (0.2, 0.02), (0.4, 0.08))]
    assert breakdown(cells(*line)) == pytest.approx(0.3)


def test_more_points_move_the_breakdown():
    table = cells(
        *(
            {"points": n, "noise_rate": rate, "clean_error": rate * scale, "predicted_error": rate / 2}
            for n, scale in ((32, 0.5), (128, 0.25))
            for rate in (0.0, 0.4)
        )
    )
    other = {"kind": "other constant", "seed": 0, "clean_error": 0.2, "predicted_error": 0.25}
    measured = values(PHASE_LABEL_NOISE, Rows.gather([*table, other]))
    assert measured == pytest.approx({"law": 0.1, "constants": 0.05, "points": 0.1})
