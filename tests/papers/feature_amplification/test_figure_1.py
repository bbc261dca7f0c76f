"""Descent in the plane."""

import math
from dataclasses import replace

import torch

from featureprism.papers.feature_amplification.figure_1 import FIGURE_1, PRINTED
from featureprism.papers.feature_amplification.planar import half_turn_sums, planar_descent
from featureprism.papers.feature_amplification.setting import problem, start
from featureprism.training import first_layer_descent

TINY = {FIGURE_1.id: [replace(PRINTED, points=80, width=20, test_points=100, steps=6)]}


def test_descent_in_the_plane_is_descent():
    s = replace(PRINTED, points=90, width=14, steps=60)
    data, net = problem(s, 0).train.data, start(s, 0)
    planar, slow = (
        descend(net, data.x, data.y, step_size=0.4, steps=60, record=(0, 7))
        for descend in (planar_descent, first_layer_descent)
    )
    assert planar.times == slow.times == [0, 7, 60]
    for own, other in zip(planar.snapshots, slow.snapshots, strict=True):
        torch.testing.assert_close(own.W, other.W, rtol=1e-9, atol=1e-12)


def test_sums_over_half_turns_by_hand(generator):
    angle = (torch.rand(30, generator=generator).double() * 2 - 1) * math.pi
    values, at = (
        torch.randn(30, 2, generator=generator).double(),
        torch.tensor([-3.1, -1.0, 0.0, 1.7, 3.0]).double(),
    )
    order = angle.argsort()
    found = half_turn_sums(angle[order], values[order], at)
    for place, own in zip(at.tolist(), found, strict=True):
        near = [math.cos(other - place) > 0 for other in angle.tolist()]
        torch.testing.assert_close(own, values[torch.tensor(near)].sum(dim=0))
