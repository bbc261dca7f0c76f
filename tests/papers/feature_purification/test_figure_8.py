"""Lottery tickets at a small size."""

from featureprism.papers.feature_purification.figure_8 import FIGURE_8
from papers.feature_purification.sizes import BATTERY, small

TINY = small(
    FIGURE_8,
    BATTERY
    | {
        "steps": 200,
        "step_per_bias": 10.0,
        "batch": 300,
        "step_size": 1.5,
        "sparsity": 3,
        "noise": 0.3,
        "width": 100,
    },
)
