"""Growth of margins: Section 5."""

from dataclasses import replace

from featureprism.papers.feature_averaging.dynamics import DYNAMICS

TINY = {
    DYNAMICS.id: [
        replace(DYNAMICS.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1)
    ]
}
