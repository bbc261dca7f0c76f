"""Where feature averaging stops, on cells whose side is known."""

from dataclasses import replace

import pytest
from phase_cells import cells, values

from featureprism.papers.beyond.phase_learning_rate import PHASE_LEARNING_RATE

TINY = {
    "beyond/phase-learning-rate": [
        replace(PHASE_LEARNING_RATE.settings("quick")[0], dim=40, points=30, steps=5, test_points=1)
    ]
}


def test_cells_on_the_wrong_side_are_counted():
    table = cells(
        *({"share": x, "predicted_share": y, "in_domain": True} for x, y in ((1, 0.95), (0.8, 1), (0.5, 0.6)))
    )
    assert values(PHASE_LEARNING_RATE, table) == pytest.approx({"boundary": 2 / 3, "law": 0.2})
