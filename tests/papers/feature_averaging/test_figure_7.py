"""Larger starts: Figure 7."""

from dataclasses import replace

from featureprism.papers.feature_averaging.figure_7 import FIGURE_7

TINY = {
    FIGURE_7.id: [
        replace(
            FIGURE_7.settings("quick")[0],
            dim=100,
            points=40,
            steps=10,
            step_size=0.03,
            test_points=1,
            values=(1e-5, 1e-3),
        )
    ]
}
