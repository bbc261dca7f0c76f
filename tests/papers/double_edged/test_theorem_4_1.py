"""Theorem 4.1 at a small size."""

from dataclasses import replace

from featureprism.papers.double_edged.setting import RadiusSetting

TINY = {
    "double-edged/theorem-4-1": [
        replace(made(dim, 4, radius_points=1), points=30, test_points=20)
        for made, dim in ((RadiusSetting.usual, 50), (RadiusSetting.within, 150))
    ]
}
