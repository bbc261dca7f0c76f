"""Probes of one step against loops over neurons and points."""

import pytest
import torch

from featureprism.data import LabelNoise, sample_xor, xor_clusters
from featureprism.networks import ReLU, unit_votes_start
from featureprism.probes.amplification import (
    aligned,
    correlations,
    count_by_noise,
    edges,
    feature_changes,
    largest_crossing,
    leaning_neurons,
)
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent


@pytest.fixture
def run():
    clusters = xor_clusters(8, 0.05, generator=generator_for("centres", 0))
    sample = sample_xor(clusters, 60, LabelNoise("constant", 0.1), generator=generator_for("train", 0))
    net = unit_votes_start(10, 8, 0.01, ReLU(), generator=generator_for("start", 0))
    return net, sample, first_layer_descent(net, sample.data.x, sample.data.y, step_size=0.25, steps=1).last


def test_votes_have_unit_norm(run):
    net, _, _ = run
    assert float(net.a.detach().norm()) == pytest.approx(1.0)
    assert unit_votes_start(3, 2, 0.1, ReLU(), generator=generator_for("x", 0)).a[2] == 0


def test_sets_and_counts_against_loops(run):
    net, sample, after = run
    W, a, data = net.W.detach(), net.a.detach(), sample.data
    leaning = leaning_neurons(W, a, data.centres, 4.0)
    kept = edges(W, data, ~sample.flipped, leaning)
    good = aligned(after.W.detach(), data, leaning)
    place = 0
    for c in range(4):
        for j in range(10):
            cosine = float(W[j] @ data.centres[c] / W[j].norm())
            expected = cosine >= 1 / (12 * 8**0.5) and (a[j] > 0) == (c < 2)
            assert bool(leaning[c, j]) == expected
            if not expected:
                continue
            opposite = [1, 0, 3, 2][c]
            count = 0
            for i in range(60):
                if not sample.flipped[i] and W[j] @ data.x[i] > 0:
                    count += int(data.cluster[i] == c) - int(data.cluster[i] == opposite)
            assert float(kept[place]) == count
            z = data.x @ after.W.detach()[j]
            own, other = z[data.cluster == c], z[data.cluster == opposite]
            assert bool(good[place]) == (bool((own > 0).all()) and bool((other <= 0).all()))
            assert float(correlations(W, data.centres, leaning)[place]) == pytest.approx(cosine)
            place += 1
    assert place == int(leaning.sum()) > 0
    crossing = max(
        abs(float(W[j] @ data.centres[2 if c < 2 else 0]))
        for c in range(4)
        for j in range(10)
        if leaning[c, j]
    )
    assert largest_crossing(W, data.centres, leaning) == pytest.approx(crossing)


def test_changes_and_counts():
    start, x = torch.eye(2).double(), torch.tensor([[1.0, 0.0], [0.0, 2.0]]).double()
    assert feature_changes(3 * start, start, x).tolist() == pytest.approx([2.0, 2.0])
    margin, flipped = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.tensor([False, False, True, True])
    assert count_by_noise(margin, flipped) == (1, 1)
