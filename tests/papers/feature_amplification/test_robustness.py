"""Radii of amplified features."""

from dataclasses import replace

from featureprism.papers.feature_amplification.robustness import ROBUSTNESS

SIZES = {
    "dim": 10,
    "points": 80,
    "width": 10,
    "steps": 20,
    "test_points": 10,
    "radius_points": 1,
    "max_branches": 1,
}
TINY = {ROBUSTNESS.id: [replace(s, **SIZES) for s in ROBUSTNESS.settings("quick")]}
