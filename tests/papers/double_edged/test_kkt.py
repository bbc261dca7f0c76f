"""Theorem 2.1 at a small size."""

from dataclasses import replace

import pytest

from featureprism.papers.double_edged.kkt import FlowSetting, margin_of
from featureprism.papers.double_edged.setting import problem, trained
from featureprism.training import max_margin_network

TINY = {
    "double-edged/kkt": [
        replace(made(dim, 4), points=16, test_points=20, iterations=5)
        for made, dim in ((FlowSetting.usual, 50), (FlowSetting.obtuse, 400))
    ]
}


def test_with_orthogonal_means_the_flow_ends_at_the_largest_margin():
    s = replace(FlowSetting.usual(200, 4), points=40, test_points=10)
    data = problem(s, 0).train
    best = margin_of(max_margin_network(data.x, data.y).net, data)
    assert margin_of(trained(s, data, 0), data) == pytest.approx(best, rel=1e-6)


def test_a_method_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="flow or maximiser"):
        replace(FlowSetting.usual(), method="descent")
