"""Theorem 3.1 at a small size."""

from dataclasses import replace

import pytest

from featureprism.context import Context
from featureprism.papers.double_edged.setting import direction, error_of, problem
from featureprism.papers.double_edged.theorem_3_1 import THEOREM_3_1, WidthSetting
from featureprism.training import max_margin_network

TINY = {
    "double-edged/theorem-3-1": [
        replace(made(dim, 4, variants=((20, 0.1),)), points=30, test_points=20, iterations=5, steps=100)
        for made, dim in ((WidthSetting.usual, 50), (WidthSetting.within, 150))
    ]
}


def test_streamed_test_points_give_what_all_of_them_at_once_give():
    """The errors and the least linear margin, in two blocks and in memory; with so much noise that there are errors."""
    s = replace(WidthSetting.usual(40, 6, variants=(), test_points=3000), points=20, sigma=1.5)
    point, bound, *_ = THEOREM_3_1.measure(s, 0, Context())
    data = problem(s, 0)
    net = max_margin_network(data.train.x, data.train.y).net
    assert point["error"] == pytest.approx(error_of(net, data.test))
    assert point["error"] > 0
    least = float((data.test.y * (data.test.x @ direction(data))).min())
    assert bound["linear_least"] == pytest.approx(least)
