"""Linear classifiers on XOR clusters."""

from dataclasses import replace

import pytest
import torch

from featureprism.data import LabelNoise, sample_xor, xor_clusters
from featureprism.papers.feature_amplification.linear import (
    AXES,
    LINEAR,
    SKEWED_ERROR,
    best_linear,
    skewed_directions,
)
from featureprism.papers.feature_amplification.setting import NoisyXor, problem

TINY = {LINEAR.id: [replace(s, dim=20, points=80, test_points=100) for s in LINEAR.settings("quick")]}


def test_the_best_threshold_is_found_by_brute_force(generator):
    x = torch.randn(60, 2, generator=generator).double()
    y = torch.where(x[:, 0] > 0.4, 1.0, -1.0).double()
    y[:3] = -y[:3]
    directions = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()
    w, threshold = best_linear(x, y, directions, bias=True)
    error = float((torch.where(x @ w > threshold, 1.0, -1.0) != y).double().mean())
    brute = min(
        float((torch.where(x @ v > t, 1.0, -1.0) != y).double().mean())
        for v in directions
        for t in (x @ v).tolist()
    )
    assert error == pytest.approx(brute)
    w, threshold = best_linear(x, y, directions, bias=False)
    assert w.tolist() == [1.0, 0.0]
    assert threshold == 0


def test_no_linear_classifier_beats_chance_on_mirrored_points(generator):
    """Through the origin: of x and -x, which have one label where clusters are symmetric about their centres, it gets one right."""
    sample = problem(NoisyXor.on_edge(16.0, dim=20, points=200, width=2), 0).train
    x, y = torch.cat([sample.data.x, -sample.data.x]), torch.cat([sample.clean, sample.clean])
    for w in torch.randn(20, 20, generator=generator).double():
        assert float((torch.where(x @ w > 0, 1.0, -1.0) != y).double().mean()) == 0.5


def test_a_skewed_law_lets_a_linear_classifier_through(generator):
    clusters = xor_clusters(400, 0.01, "exponential", generator=generator)
    sample = sample_xor(clusters, 20_000, LabelNoise(), generator=generator)
    w = skewed_directions(clusters)[AXES]  # an axis and μ2
    said = torch.where(sample.data.x @ w > 0, -1.0, 1.0)
    assert float((said != sample.clean).double().mean()) == pytest.approx(SKEWED_ERROR, abs=0.02)
