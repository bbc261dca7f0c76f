"""Assumption 2.2 and the lemmas at a small size."""

from dataclasses import replace

from featureprism.papers.double_edged.assumption_2_2 import ASSUMPTION_2_2

TINY = {
    "double-edged/assumption-2-2": [
        replace(
            s, dim=s.dim // 20, clusters=4, points=24, test_points=20, patterns=1, starts=0, radius_points=1
        )
        for s in ASSUMPTION_2_2.settings("quick")
    ]
}
