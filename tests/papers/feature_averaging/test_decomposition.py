"""Coefficients and activations: Lemmas 5.1, 5.2 and 5.5."""

from dataclasses import replace

from featureprism.papers.feature_averaging.decomposition import DECOMPOSITION

TINY = {
    DECOMPOSITION.id: [
        replace(
            DECOMPOSITION.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1
        )
    ]
}
