"""Momentum, sign descent and Adam."""

from dataclasses import replace

import pytest
import torch

from featureprism.data import sample
from featureprism.papers.feature_averaging.optimisers import (
    AXES,
    OPTIMISERS,
    OPTIMISERS_COMPARED,
    clusters_in,
    train,
)
from featureprism.papers.feature_averaging.setting import two_class_start
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent

SIZES = {"points": 40, "steps": 10, "step_size": 0.03, "test_points": 7}
TINY = {
    OPTIMISERS_COMPARED.id: [
        replace(s, **SIZES, dim=s.dim // 12) for s in OPTIMISERS_COMPARED.settings("quick")
    ]
}
SETTING = TINY[OPTIMISERS_COMPARED.id][0]


@pytest.fixture
def data():
    return sample(clusters_in(SETTING, 0), SETTING.points, generator=generator_for("train", 0))


def test_descent_is_that_of_the_paper(data):
    start = two_class_start(SETTING, 0)
    net = train(start, data, OPTIMISERS["descent"], 0.03, 10)
    run = first_layer_descent(start, data.x, data.y, step_size=0.03, steps=10)
    torch.testing.assert_close(net.W, run.last.W)
    torch.testing.assert_close(net.b, run.last.b)


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("momentum", lambda weights: torch.optim.SGD([weights], lr=0.1, momentum=0.9)),
        ("adam", lambda weights: torch.optim.Adam([weights], lr=0.1)),
    ],
)
def test_update_rules_are_those_of_torch(name, twin):
    weights, rule = torch.nn.Parameter(torch.zeros(5).double()), OPTIMISERS[name].rule()
    optimiser, ours = twin(weights), torch.zeros(5).double()
    gradients = torch.randn(7, 5, generator=generator_for("gradients", 0)).double()
    for gradient in gradients:
        weights.grad = gradient
        optimiser.step()
        ours = ours - 0.1 * rule(gradient)
    torch.testing.assert_close(ours, weights.detach())


def test_centres_along_the_axes():
    mu = clusters_in(replace(SETTING, coordinates=AXES), 0).mu
    torch.testing.assert_close(mu @ mu.T, SETTING.dim * torch.eye(10).double())
    assert int((mu != 0).sum()) == 10
