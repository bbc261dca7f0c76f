"""Decision boundaries on a plane: Figure 1."""

from dataclasses import replace

from featureprism.papers.feature_averaging.figure_1 import FIGURE_1

TINY = {
    FIGURE_1.id: [
        replace(FIGURE_1.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1)
    ]
}
