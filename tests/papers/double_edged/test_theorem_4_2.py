"""Theorem 4.2 at a small size, and the KKT points that refute a law for all of them."""

from dataclasses import replace

import pytest

from featureprism.attacks import flipping_norm
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.explored import ExploredSetting, points_of
from featureprism.papers.double_edged.setting import critical_norm, direction, problem, separation

CASES = (
    (ExploredSetting.usual, 50),
    (ExploredSetting.within, 150),
    (ExploredSetting.obtuse, 500),
    (ExploredSetting.example_1a, 100_000),
)
TINY = {
    "double-edged/theorem-4-2": [
        replace(made(dim, 4), points=24, test_points=20, patterns=1, starts=1, steps=100)
        for made, dim in CASES
    ]
}


def test_two_kkt_points_of_one_data_set_break_at_different_norms():
    """d = 10⁴, k = 8, cosine -0.008: one neuron a class at ‖u‖/k, one neuron a cluster at 1.64 times as much; both exact."""
    s = replace(ExploredSetting.obtuse(patterns=0, starts=0), points=80, test_points=200)
    data = problem(s, 0)
    assert theory.holds(theory.assumption_2_2(separation(s, data)))
    points = {point.origin: point for point in points_of(s, data, 0)}
    for origin, group, law in (
        ("one neuron a class", 4, 1.0),
        ("groups of 2", 2, 1.354),
        ("one neuron a cluster", 1, 1.638),
    ):
        point = points[origin]
        assert point.audit.stationarity < 1e-12
        assert point.audit.slackness < 1e-12
        assert point.num_changes == 0
        norm = flipping_norm(point.net, data.test.x, data.test.y, direction(data)) / critical_norm(data)
        assert norm == pytest.approx(law, abs=0.001)
        assert norm == pytest.approx(theory.group_norm(s, s.cosine, group), rel=1e-3)


def test_means_at_acute_angles_leave_one_group():
    with pytest.raises(ValueError, match="only a part"):
        theory.group_norm(theory.MixtureSizes(dim=1000, clusters=8, sigma=0.1, points=10), 0.0, 2)
