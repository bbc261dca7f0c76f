"""Both layers trained."""

from dataclasses import replace

from featureprism.papers.feature_averaging.second_layer import SECOND_LAYER

TINY = {
    SECOND_LAYER.id: [
        replace(
            SECOND_LAYER.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1
        )
    ]
}
