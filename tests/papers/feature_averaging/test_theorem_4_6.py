"""The distance from the averaging classifier: Theorem 4.6."""

import math

import pytest
import torch

from featureprism.data import orthogonal_clusters
from featureprism.lab import Rows
from featureprism.networks import ReLU, TwoLayerNet, averaging_classifier
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.features import class_shares, sphere_gap
from featureprism.papers.feature_averaging.theorem_4_6 import CLAIMS, THEOREM_4_6, size
from featureprism.seeds import generator_for

TINY = {THEOREM_4_6.id: [size(4, 100, 30, 2), size(4, 100, 60)]}


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


def test_the_exponent_is_read_off_the_runs_that_differ_in_n_alone():
    rows = [
        {
            "kind": "gap",
            "seed": 0,
            "clusters": k,
            "dim": d,
            "points": n,
            "absolute_gap": (k / n) ** 0.5 + 1 / d,
        }
        for k, d, n in ((4, 10**6, 100), (4, 10**6, 400), (8, 10**6, 100), (4, 100, 800))
    ]
    claim = next(c for c in CLAIMS if c.name == "gap")
    assert claim.value(Rows.gather(rows)).exponent == pytest.approx(-0.5, abs=1e-3)
