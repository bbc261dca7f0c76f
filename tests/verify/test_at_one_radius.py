"""asked(..., eps=eps): proven points hold at eps, flipped ones have a witness within, for every kind of network."""

import math

import numpy as np
import pytest
import torch
from activation_patterns import classified, truths_held
from asking import asked
from asking import check_point as check
from torch import nn

from featureprism.models.scores import ScoreNet
from featureprism.networks import PowerReLU, ReLU, TwoLayerNet

EPS = 0.3


def random_net(rng: np.random.Generator) -> ScoreNet:
    h, k, d = rng.integers(2, 7), rng.integers(2, 5), rng.integers(2, 5)
    arrays = rng.normal(size=(h, d)), rng.normal(size=(h, k)), rng.normal(size=h), 0.5 * rng.normal(size=k)
    return ScoreNet(*(torch.from_numpy(a) for a in arrays), activation=ReLU())


def decided_share(seeds: range) -> float:
    """Of all points before random networks, those that are proven or flipped; each is compared with the enumerated truth."""
    decided = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        net = random_net(rng)
        x, own = classified(net, 12, rng)
        bracket = asked(net, x, own, branches=16, eps=EPS)
        truths_held(bracket, net, x, own)
        decided += ((bracket.certified > EPS) | (bracket.attacked <= EPS)).tolist()
        assert bool((torch.isinf(bracket.attacked) | (bracket.attacked <= EPS)).all())
    return float(np.mean(decided))


def test_every_answer_agrees_with_the_enumerated_truth():
    assert decided_share(range(6)) > 0.98


@pytest.mark.slow
def test_many_answers_agree_with_the_enumerated_truth():
    assert decided_share(range(100, 400)) > 0.98


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("bounds", [None, (-2.0, 2.0)])
def test_deep_networks_answer_too(norm, bounds):
    torch.manual_seed(0)
    net = nn.Sequential(*[nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)]).double()
    with torch.no_grad():
        net[4].weight.mul_(4)
    x = 2 * torch.rand(3, 3).double() - 1
    own = net(x).argmax(dim=1)
    bracket = asked(net, x, own.numpy(), norm=norm, bounds=bounds, eps=0.1)
    decided = (bracket.certified > 0.1) | (bracket.attacked <= 0.1)
    assert bool(decided.all())
    low, high = bracket.accuracy(torch.tensor([0.1]))
    assert float(low) == float(high)
    ways = torch.randn(500, 1, 3).double()
    ways = ways / torch.linalg.vector_norm(ways, ord=norm, dim=2, keepdim=True)
    tried = x + 0.1 * torch.rand(500, 1, 1).double() * ways
    flips = (net(tried).argmax(dim=2) != own).any(dim=0)
    assert not bool((flips & (bracket.certified > 0.1)).any())


@pytest.mark.parametrize("activation", [ReLU(), PowerReLU(3.0)])
def test_one_output_answers_too(activation, generator):
    W, a, b = (torch.randn(*s, generator=generator).double() for s in ((7, 3), (7,), (7,)))
    net = TwoLayerNet(W, a, b, activation=activation)
    x = torch.randn(4, 3, generator=generator).double()
    y = torch.where(net(x) >= 0, 1.0, -1.0).double().detach()
    bracket = asked(net, x, y, eps=0.2, branches=8)
    far = asked(net, x, y, branches=8)
    assert bool((bracket.certified <= far.attacked).all())
    assert bool((bracket.attacked >= far.certified).all())
    assert bool(((bracket.certified > 0.2) | (far.certified <= 0.2)).all())  # the narrower question is easier
    assert bool(((bracket.attacked <= 0.2) == (far.attacked <= 0.2)).all())
    proven = torch.nonzero(bracket.certified > 0)[:, 0].tolist()
    assert all(check(bracket.certificates[i], net, x[i], float(y[i])) for i in proven)


def test_radii_that_are_none_are_refused():
    net = TwoLayerNet(torch.eye(2).double(), torch.ones(2).double(), activation=ReLU())
    for at in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="eps must be positive"):
            asked(net, torch.ones(1, 2), torch.ones(1), eps=at)
