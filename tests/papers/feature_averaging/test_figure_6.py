"""Larger steps: Figure 6."""

import math
from dataclasses import replace

from featureprism.lab import Rows
from featureprism.papers.feature_averaging.figure_6 import FIGURE_6, last_that_averages

TINY = {
    FIGURE_6.id: [
        replace(
            FIGURE_6.settings("quick")[0],
            dim=100,
            points=40,
            steps=10,
            step_size=0.03,
            test_points=1,
            values=(0.01, 0.1),
        )
    ]
}


def test_where_averaging_ends():
    def rows(*cosines: float | None) -> Rows:
        values = zip((0.01, 0.1, 1.0), cosines, strict=True)
        return Rows.gather(
            {"kind": "summary", "seed": 0, "value": value, "same_class": cosine, "law": 1.0}
            for value, cosine in values
        )

    assert last_that_averages(rows(0.99, 0.95, 0.5)).tolist() == [0.1]
    # what averages again beyond does not count
    assert last_that_averages(rows(0.99, 0.5, 0.95)).tolist() == [0.01]
    assert math.isnan(last_that_averages(rows(0.5, 0.95, None))[0])
