"""Margins, gaps and shares of a class whose values are known, and slow twins."""

import math

import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.lab import Rows
from featureprism.networks import ReLU, TwoLayerNet, averaging_classifier
from featureprism.papers.feature_averaging.approach import CLAIMS, class_shares, size, sphere_gap
from featureprism.papers.feature_averaging.dynamics import balance_of
from featureprism.papers.feature_averaging.lemmas import balance, later_margins, spread_of
from featureprism.papers.feature_averaging.regime import (
    STARTS,
    Regime,
    fewest_activations,
    many_starts,
    tried_starts,
)
from featureprism.papers.feature_averaging.setting import Setting, problem, two_class_start
from featureprism.records import Dataset
from featureprism.seeds import generator_for
from featureprism.theory import feature_averaging as theory
from featureprism.training import first_layer_descent


def test_sizes_train_to_one_margin():
    for s in (size(4, 512, 100), size(8, 1024, 800)):
        q = theory.two_class_margin(theory.growth_rate(s, s.per_class), s.steps)
        assert q == pytest.approx(1.68, abs=0.01)


def test_the_gap_of_a_multiple_is_none_and_a_bias_counts_at_the_radius():
    clusters = orthogonal_clusters(60, 2, 2, 1.0, generator=generator_for("centres", 0))
    f = averaging_classifier(clusters.mu, clusters.labels)
    net = TwoLayerNet(0.3 * f.W, f.a, torch.zeros(2).double(), activation=ReLU())
    assert sphere_gap(net, clusters.mu, clusters.labels, math.sqrt(60))[0] < 1e-6
    biased = TwoLayerNet(0.3 * f.W, f.a, torch.tensor([0.7, 0.0]).double(), activation=ReLU())
    absolute, relative = sphere_gap(biased, clusters.mu, clusters.labels, math.sqrt(60))
    # C f_FA cannot have the bias: at x orthogonal to all features the gap is 0.7
    assert absolute == pytest.approx(0.7, rel=0.02)
    assert relative < 0.05


def test_opposite_shares_are_root_mean_squares_of_mean_coefficients():
    features = torch.tensor([[2.0, 2.0, -0.2, 0.0], [2.0, 2.0, -0.2, 0.0], [0.1, 0.1, 2.0, 2.0]]).double()
    signs, labels = torch.tensor([1.0, 1.0, -1.0]).double(), torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    growth, opposite = class_shares(features, signs, labels)
    assert growth == pytest.approx(2.0)
    assert opposite == pytest.approx(math.sqrt(0.02) / 2)


def test_balance_and_spread_of_margins_made_by_hand():
    cluster = torch.tensor([0] * 3 + [1] * 7 + [2] * 1)
    sizes = torch.tensor([3.0, 7.0, 1.0]).double()
    margin = (1.3 * (sizes + 1).log())[cluster]
    data = Dataset(torch.zeros(11, 2).double(), torch.ones(11).double(), cluster, torch.zeros(3, 2).double())
    assert balance(margin, data) == pytest.approx(1.3)
    margin[0] += 0.3
    found = spread_of(margin, data)
    slow = [[float(a - b) for a in margin for b in margin], []]
    assert found["gap"] == pytest.approx(max(slow[0]))
    assert found["cluster_gap"] == pytest.approx(0.3)
    ratios = [(1 + math.exp(float(a))) / (1 + math.exp(float(b))) for a in margin for b in margin]
    assert found["derivative_ratio"] == pytest.approx(max(ratios))


def test_margins_go_on_alone_as_descent_does_when_the_other_class_is_silent():
    s = size(2, 400, 12)  # one cluster a class: neurons of the other class fall silent at once
    data = problem(s, 0).train
    watched = []
    run = first_layer_descent(
        two_class_start(s, 0),
        data.x,
        data.y,
        step_size=s.step_size,
        steps=60,
        record=(5, 60),
        watch=lambda z: watched.append(z.clone()),
    )
    assert len(watched) == 61
    torch.testing.assert_close(watched[5], run.probes["pre_activations"][0])
    first, last = (data.y * net(data.x).detach() for net in run.snapshots)
    later = later_margins(first, data, s.step_size / (s.points * s.per_class), 5, (5, 60))
    torch.testing.assert_close(later[5], first)
    own = torch.sign(run.last.a.detach()) == data.y.unsqueeze(1)
    alone = all(bool(((z[0] > 0) == own).all()) for z in watched[5:])
    assert (later[60] - last).abs().max() < (1e-10 if alone else 0.05)


def test_the_exponent_is_read_off_the_runs_that_differ_in_n_alone():
    rows = [
        {"kind": "gap", "seed": 0, "clusters": k, "dim": d, "points": n, "gap": (k / n) ** 0.5 + 1 / d}
        for k, d, n in ((4, 10**6, 100), (4, 10**6, 400), (8, 10**6, 100), (4, 100, 800))
    ]
    claim = next(c for c in CLAIMS if c.name == "exponent")
    assert claim.value(Rows.gather(rows))[0] == pytest.approx(-0.5, abs=1e-3)


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
    s = Regime(dim=300, positive=2, negative=1, points=30, per_class=2, step_size=0.001, start=1e-9)
    data = problem(s, 0).train
    starts, found = many_starts(s, 300, 10**6), tried_starts(s, data, 0)
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
    s = Setting(dim=200, positive=2, negative=2, points=80, per_class=2, step_size=0.005, steps=400)
    train = problem(s, 0).train
    run = first_layer_descent(two_class_start(s, 0), train.x, train.y, step_size=s.step_size, steps=s.steps)
    with torch.no_grad():
        alone = spread_of(train.y * run.last(train.x), train)
    found = balance_of(s, 0)
    assert found["margin"] == pytest.approx(alone["margin"], rel=0.02)
    assert found["balance"] == pytest.approx(alone["balance"], abs=0.01)
