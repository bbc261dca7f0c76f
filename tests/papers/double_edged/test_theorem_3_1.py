"""Theorem 3.1 at a small size."""

from dataclasses import replace

from featureprism.papers.double_edged.theorem_3_1 import WidthSetting

CASES = (
    (WidthSetting.usual, 50),
    (WidthSetting.within, 150),
    (WidthSetting.obtuse, 500),
    (WidthSetting.example_1a, 100_000),
)
TINY = {
    "double-edged/theorem-3-1": [
        replace(made(dim, 4, variants=((20, 0.1),)), points=24, test_points=20, patterns=1, steps=100)
        for made, dim in CASES
    ]
}
