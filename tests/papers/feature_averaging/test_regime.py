"""Inside Assumption 4.3: many starts, and lumps of steps."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.networks import ReLU, TwoLayerNet
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.margins import spread_of
from featureprism.papers.feature_averaging.regime import (
    POINTS_CONSTANT,
    REGIME,
    STARTS,
    AsymptoticSizes,
    active_on_clusters,
    fewest_activations,
    inside,
    last_change,
    many_starts,
    tried_starts,
)
from featureprism.papers.feature_averaging.setting import Baseline, problem, two_class_start
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent, growing_lumps

SIZES = {"dim": 100, "steps": 10, "step_size": 0.03, "start": 1e-9, "large_start": 0.1, "growth": 0.2}
TINY = {
    REGIME.id: [
        AsymptoticSizes(**SIZES, points=10 * k, positive=k - 1, negative=1, per_class=2) for k in (2, 3)
    ]
}


def test_a_point_at_zero_is_active():
    """ReLU'(0) = 1, as the paper specifies: a network that starts at 0 learns."""
    clusters = orthogonal_clusters(30, 1, 1, 1.0, generator=generator_for("centres", 0))
    data = sample(clusters, 6, generator=generator_for("train", 0))
    zero = TwoLayerNet(torch.zeros(2, 30).double(), torch.tensor([1.0, -1.0]).double(), activation=ReLU())
    run = first_layer_descent(zero, data.x, data.y, step_size=0.1, steps=1)
    expected = 0.1 * 0.5 * (data.y.unsqueeze(1) * data.x).mean(dim=0)
    torch.testing.assert_close(run.last.W[0].detach(), expected)


def test_many_starts_are_tried_as_each_alone():
    """Proposition A.12 and Lemma B.1 on a stack of starts, beside counting and one step for each by itself."""
    s = Baseline(dim=300, positive=2, negative=1, points=30, per_class=2, step_size=0.001, start=1e-9)
    data = problem(s, 0).train
    starts, found = many_starts(s, s.start, data, 10**9), tried_starts(s, s.start, data, 0)
    happened, active = [], []
    for index in range(STARTS):
        alone = starts[index]
        z = data.x @ alone.W.detach().T + alone.b.detach()
        points = [int((z[data.cluster == j, r] >= 0).sum()) for r in range(4) for j in range(3)]
        assert float(fewest_activations(z.unsqueeze(0), data)) == min(points)
        happened.append(min(points) >= 30 / (3 * 3 * 4))
        after = first_layer_descent(alone, data.x, data.y, step_size=0.001, steps=1).last
        z = data.x @ after.W.detach().T + after.b.detach()
        own = [z[i, r] >= 0 for i in range(30) for r in range(4) if (r < 2) == (data.y[i] > 0)]
        active.append(float(torch.stack(own).double().mean()))
    assert starts.a[0].tolist() == [0.5, 0.5, -0.5, -0.5]
    assert found["activated"] == pytest.approx(sum(happened) / STARTS)
    assert 0 < found["activated"] < 1
    assert found["active_with"] == pytest.approx(min(a for a, h in zip(active, happened, strict=True) if h))
    without = [a == 1 for a, h in zip(active, happened, strict=True) if not h]
    assert found["all_active_without"] == pytest.approx(sum(without) / len(without))


def test_lumps_of_steps_end_where_single_steps_do():
    s = Baseline(dim=200, positive=2, negative=2, points=80, per_class=2, step_size=0.005, steps=400)
    train, start = problem(s, 0).train, two_class_start(s, 0)
    lumps = growing_lumps(s.steps, 1 / 20)
    alone = first_layer_descent(start, train.x, train.y, step_size=s.step_size, steps=s.steps).last
    lumped = first_layer_descent(
        start, train.x, train.y, step_size=s.step_size, steps=len(lumps), lumps=lumps
    ).last
    with torch.no_grad():
        expected, found = (spread_of(train.y * net(train.x), train) for net in (alone, lumped))
    assert found["margin"] == pytest.approx(expected["margin"], rel=0.02)
    assert found["balance"] == pytest.approx(expected["balance"], abs=0.01)


def test_the_sizes_are_inside_the_assumption_from_both_starts():
    s = inside(3, 2)
    centres = s.dim**0.5 * torch.eye(3).double()
    for start, holds in ((s.start, True), (s.large_start, False)):
        premises = theory.premises(replace(s, start=start), centres, POINTS_CONSTANT)
        held = {premise.id: premise.holds for premise in premises}
        assert held.pop("lemma-a-13.start") is holds
        assert all(held.values())


@pytest.mark.parametrize("least", [-1.5, 0.3])
def test_the_activation_time_is_that_of_a_neuron_and_a_cluster(least):
    """All points raised at every step by ηd/(2nm) for each that is active; and the integral that it tends to."""
    s = replace(inside(3, 2), points=3 * 2000)
    v = least + torch.special.ndtri((torch.arange(2000).double() + 0.5) / 2000)
    z = s.large_start * s.dim**0.5 * v
    law = theory.activation_time(s, z)
    steps = 0
    while (z < 0).any():
        z, steps = z + s.step_size * s.dim / (2 * s.points * s.per_class) * (z >= 0).sum(), steps + 1
    assert law == pytest.approx(steps, rel=0.02)
    v = torch.linspace(least, float(least - v.min()), 10_001).double()
    unit = 2 * s.num_clusters * s.per_class * s.large_start / (s.step_size * s.dim**0.5)
    assert law == pytest.approx(unit * float(torch.trapezoid(1 / torch.special.ndtr(v), v)), rel=0.02)
    assert theory.activation_time(s, -z - 1) == math.inf


def test_the_step_from_which_a_pair_is_active_for_good():
    z = torch.tensor([[[-1.0, 1.0], [1.0, 1.0], [2.0, -1.0]]])
    assert active_on_clusters(z, torch.tensor([0, 0, 1]), 2).tolist() == [[[False, True], [True, False]]]
    active = torch.tensor([[False, True], [True, True], [False, True], [True, True]])
    assert last_change(active).tolist() == [3, 0]
