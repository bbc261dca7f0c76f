"""An adversary with a budget of labels."""

import pytest
import torch

from featureprism.papers.feature_amplification.adversary import label_influence
from featureprism.papers.feature_amplification.setting import (
    ADVERSARY,
    NoisyXor,
    margins,
    problem,
    start,
    trained,
)
from featureprism.probes.amplification import count_by_noise
from featureprism.training import first_layer_descent


def small_sample(kind="constant", rate=0.0):
    s = NoisyXor.on_edge(16.0, dim=30, points=200, width=40, noise=kind, noise_rate=rate, counted=True)
    return s, problem(s, 0).train


def test_influence_is_the_derivative_of_training():
    s, sample = small_sample()
    found = label_influence(start(s, 0), sample, step_size=s.step_size, steps=s.steps)

    def margin_of_its_cluster(index, label):
        y = sample.clean.clone()
        y[index] = label
        net = first_layer_descent(start(s, 0), sample.data.x, y, step_size=s.step_size, steps=s.steps).last
        own = sample.data.cluster == sample.data.cluster[index]
        return float((sample.clean * net(sample.data.x).detach())[own].mean())

    for index in (0, 7, 100):
        y = float(sample.clean[index])
        ends = [margin_of_its_cluster(index, y * (1 + step)) for step in (-1e-5, 1e-5)]
        assert float(found[index]) == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-4)


def test_an_adversary_keeps_its_budget_and_does_worse_than_chance():
    lost = {}
    for kind in ("constant", "one cluster", ADVERSARY):
        s, sample = small_sample(kind, 0.1)
        assert int(sample.flipped.sum()) == 20
        assert torch.equal(sample.data.y != sample.clean, sample.flipped)
        lost[kind] = count_by_noise(margins(trained(s, sample, 0).last, sample), sample.flipped)[0]
    assert lost[ADVERSARY] >= max(lost.values())
    assert lost[ADVERSARY] > 20
