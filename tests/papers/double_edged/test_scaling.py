"""The order of Theorem 4.2 at a small size."""

from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.experiment import fields_of
from featureprism.papers.double_edged.scaling import SCALING

SMALL = [replace(s, dim=s.dim // 5, points=60, test_points=200) for s in SCALING.settings("quick")]
TINY = {"double-edged/scaling": [replace(s, dim=s.dim // 4, points=30, test_points=20) for s in SMALL]}


def test_the_limit_of_the_flow_follows_the_law_of_orthogonal_means():
    """σ = 1/√d at small d and orthogonal means: it breaks at √(d/k), so the exponents are -1/2 and 1/2."""
    rows = Rows.gather(
        {"seed": 0, **fields_of(s), **row}
        for s in SMALL
        if s.case == "within"
        for row in SCALING.measure(s, 0, Context())
    )
    for family, name, power in (("clusters", "clusters", -0.5), ("dimension", "dim", 0.5)):
        slope = rows.of("norm", family=family).slope(name, "norm")[0]
        assert slope == pytest.approx(power, abs=0.04)
