"""Adversaries of training, by what they add to purity."""

import numpy as np
import pytest

from featureprism.papers.feature_purification.attackers import ATTACKERS
from papers.feature_purification.sizes import BATTERY, small, values

TINY = small(ATTACKERS, BATTERY)


def test_the_least_gain_of_a_stronger_adversary():
    purity = {"FGM 1τ": (0.2, 0.9), "none": (0.0, 0.1), "FGM 0.5τ": (0.1, 0.7), "PGD τ": (0.2, 0.0)}
    rows = [
        {"kind": "adversary", "seed": 3, "name": name, "trained_radius": radius, "purity": value}
        for name, (radius, value) in purity.items()
    ]
    assert values(ATTACKERS, "stronger", rows) == pytest.approx([0.2])
    assert np.isnan(values(ATTACKERS, "stronger", [row | {"purity": None} for row in rows])).all()


def test_another_adversary_is_judged_by_what_it_adds():
    purity = {"none": 0.7, "PGD τ": 0.85, "SmoothAdv τ": 0.7}
    rows = [{"kind": "adversary", "seed": 0, "name": name, "purity": value} for name, value in purity.items()]
    assert values(ATTACKERS, "pgd", rows) == pytest.approx([0.15])
    assert values(ATTACKERS, "smooth", rows) == [0.0]
