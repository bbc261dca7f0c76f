"""Theorem 3.1 and its lemmas."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.lab.context import Context
from featureprism.networks import ReLU, TwoLayerNet
from featureprism.papers.feature_amplification import theory
from featureprism.papers.feature_amplification.lemmas import (
    captured,
    of_end,
    of_features,
    of_start,
    surpluses,
)
from featureprism.papers.feature_amplification.setting import ADVERSARY, NoisyXor, problem, start, trained
from featureprism.papers.feature_amplification.theorem_3_1 import THEOREM_3_1
from featureprism.training.trajectory import Ended, Trajectory

C3 = 4096 * math.exp(2) / 0.9**2  # Lemma 4.9 with C₀ = 10
# 1/16 and 1/64 are flipped
SIZES = {"dim": 50, "sigma": 0.02, "width": 40, "points": 240, "test_points": 96}
TINY = {THEOREM_3_1.id: list(dict.fromkeys(replace(s, **SIZES) for s in THEOREM_3_1.settings("quick")))}


def test_edges_and_sets_of_a_start_against_loops():
    s = NoisyXor.on_edge(4.0, dim=20, points=60, width=12)
    sample, net = problem(s, 1).train, start(s, 1)
    W, a, data = net.W.detach(), net.a.detach(), sample.data
    edges, sizes = [], [0] * 4
    for c in range(4):
        opposite = [1, 0, 3, 2][c]
        for j in range(12):
            if float(W[j] @ data.centres[c] / W[j].norm()) < 1 / (30 * 20**0.5):
                continue
            sizes[c] += int((a[j] > 0) == (c < 2))
            active = (data.x @ W[j] > 0) & ~sample.flipped
            edges.append(int(active[data.cluster == c].sum()) - int(active[data.cluster == opposite].sum()))
    found = of_start(W, a, sample)
    assert found["leaning"] == pytest.approx(min(sizes) / 3)
    assert found["least_edge"] == pytest.approx(min(edges) / theory.edge_bound(60, 10.0))


def test_the_least_margin_of_the_end_under_clean_labels():
    s = NoisyXor.on_edge(16.0, dim=20, points=100, width=12)
    sample, net = problem(s, 0).train, start(s, 0)
    every = torch.ones(4, 12, dtype=torch.bool)
    found = of_end(s, net, sample, every)
    margin = (sample.data.y * net(sample.data.x).detach()).tolist()
    least = min(-m if flip else m for m, flip in zip(margin, sample.flipped.tolist(), strict=True))
    assert found["margin"] == pytest.approx(least * C3)
    assert surpluses(sample).sum() == 100 - 2 * int(sample.flipped.sum())


def test_features_of_the_end_by_hand():
    centres = torch.tensor([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]).double()
    W = torch.tensor([[3.0, 1.0, 0.0], [0.0, -2.0, 1.0], [0.0, 0.1, 5.0], [4.0, 0.0, 0.0]]).double()
    leaning = torch.tensor(
        [[True, False, False, True], [False] * 4, [False] * 4, [False, True, False, False]]
    )
    weights = [9 * W, W, 1.5 * W, 2 * W * torch.tensor([[1.0], [1.0], [0.1], [0.5]])]
    nets = [TwoLayerNet(own, torch.ones(4).double(), activation=ReLU()) for own in weights]
    found = of_features(Trajectory([0.0, 1.0, 2.0, 3.0], nets, Ended.TIME_REACHED), centres, leaning)
    assert found["captured"] == 1
    assert found["growing"] == pytest.approx(2 / 3)  # the first step and the neuron outside J do not count
    assert found["near_centre"] == 0.5  # 3/√10 and 1 are high, 2/√5 and 0.02 are not
    turned = torch.cat([torch.tensor([[0.0, 3.0, 1.0]]).double(), W[1:]])
    assert captured(turned, centres, leaning).any(dim=0).tolist() == [False, True, False, True]


def test_the_excess_leaves_out_the_coins_of_the_test_labels():
    s = replace(next(s for s in THEOREM_3_1.settings("quick") if s.family == "excess"), dim=50, points=400)
    row = THEOREM_3_1.measure(replace(s, test_points=37), 0, Context())[0]
    assert row["over_allowed"] == 0  # all clean labels are right, whatever share of 37 was flipped


def test_an_adversary_inside_the_assumptions_loses():
    s = next(s for s in THEOREM_3_1.settings("quick") if s.family == ADVERSARY)
    row, *premises = THEOREM_3_1.measure(replace(s, width=60), 0, Context())
    assert all(premise["holds"] for premise in premises)
    assert row["exceptions"] == 0


def test_norms_cannot_pass_their_bound():
    """Lemma A.1 is a triangle inequality under ‖x‖ ≤ √2, ω√(md) ≤ α/3 and the norms of Lemma 4.1."""
    for seed in range(3):
        s = NoisyXor.on_edge(16.0, dim=80, points=60, width=20, noise_rate=0.4, test_points=20)
        sample, net = problem(s, seed).train, start(s, seed)
        assert float(sample.data.x.norm(dim=1).max()) <= 2**0.5
        assert float(net.W.detach().norm(dim=1).max()) <= 1.5 * s.start * 80**0.5
        run = trained(s, sample, seed, tuple(range(s.steps)))
        norms = [float(torch.linalg.matrix_norm(step.W.detach())) for step in run.snapshots]
        assert all(norm <= 2 * s.step_size * time for time, norm in enumerate(norms) if time)
        assert norms[-1] <= 1
