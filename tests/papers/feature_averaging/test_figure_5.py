"""More data: Figure 5."""

from dataclasses import replace

from featureprism.papers.feature_averaging.figure_5 import FIGURE_5

TINY = {
    FIGURE_5.id: [
        replace(
            FIGURE_5.settings("quick")[0],
            dim=100,
            points=40,
            steps=10,
            step_size=0.03,
            test_points=1,
            values=(40, 150),
        )
    ]
}
