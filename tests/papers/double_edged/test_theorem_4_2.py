"""Theorem 4.2 at a small size."""

from dataclasses import replace

from featureprism.papers.double_edged.setting import TrainingSetting

TINY = {
    "double-edged/theorem-4-2": [
        replace(made(dim, 4), points=30, test_points=20, iterations=5, steps=100)
        for made, dim in ((TrainingSetting.usual, 50), (TrainingSetting.within, 150))
    ]
}
