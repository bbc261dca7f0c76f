"""Cosine matrices: Figure 2 (a), (b)."""

from dataclasses import replace

from featureprism.papers.feature_averaging.figure_2 import FIGURE_2

TINY = {
    FIGURE_2.id: [
        replace(FIGURE_2.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1)
    ]
}
