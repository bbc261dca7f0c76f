"""Radii against the number of clusters."""

import math

import pytest

from featureprism.lab import Rows
from featureprism.papers.feature_averaging.scaling import SCALING, SplitClusters

SPLITS = (("equal", 2, 2), ("equal", 3, 3), ("unequal", 3, 1), ("unequal", 6, 2))
SIZES = {"dim": 100, "points": 40, "steps": 10, "step_size": 0.03, "test_points": 1}
TINY = {
    SCALING.id: [
        SplitClusters(split=split, positive=positive, negative=negative, **SIZES)
        for split, positive, negative in SPLITS
    ]
}
CLAIMS = {claim.name: claim for claim in SCALING.claims}
ROW = {"kind": "radius", "seed": 0, "network": "two-class", "split": "equal"}


def test_slopes_of_powers():
    rows = Rows.gather({**ROW, "clusters": k, "radius": k**-0.5} for k in (4, 8, 16))
    assert CLAIMS["two-class"].value(rows).exponent == pytest.approx(-0.5)
    assert math.isnan(CLAIMS["k-class"].value(rows).exponent)


@pytest.mark.parametrize(("power", "lost"), [(-0.5, 1.0), (-1.0, 0.5)])
def test_what_two_labels_lose_in_units_of_the_critical_radius(power, lost):
    rows = Rows.gather({**ROW, "clusters": k, "radius": k**power} for k in (4, 8, 16))
    assert CLAIMS["vanishes"].value(rows)[0] == pytest.approx(lost)
