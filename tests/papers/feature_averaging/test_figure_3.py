"""Radii of the classifiers: Figure 3."""

import math
from dataclasses import replace

from featureprism.lab import Rows
from featureprism.papers.feature_averaging.classifiers import over_critical
from featureprism.papers.feature_averaging.figure_3 import FIGURE_3

TINY = {
    FIGURE_3.id: [
        replace(FIGURE_3.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1)
    ]
}


def test_radii_are_in_units_of_the_critical_one_and_withheld_when_the_attack_is_blind():
    row = {"kind": "summary", "network": "two-class", "seed": 0, "dim": 90, "positive": 5, "negative": 5}
    seen = Rows.gather([{**row, "half_radius": 6.0, "self_test_passed": True}])
    assert over_critical(seen, "half_radius").tolist() == [2.0]
    claim = next(c for c in FIGURE_3.claims if c.name == "two-class")
    assert claim.value(seen).tolist() == [2.0]
    blind = Rows.gather([{**row, "half_radius": 6.0, "self_test_passed": False}])
    assert math.isnan(claim.value(blind)[0])
