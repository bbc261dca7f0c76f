"""Brackets of classifiers with many scores, against closed forms and the enumeration of activation patterns."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from activation_patterns import classified, truths_held
from asking import asked
from small_models import long_witnesses

from featureprism.models.scores import LinearScores, ScoreNet
from featureprism.networks import PowerReLU, ReLU

WIDTHS, CLASSES, DIMS = (1, 2, 3, 4, 5), (2, 3, 4), (1, 2, 3)
PARTS = [0, *(pytest.param(part, marks=pytest.mark.thorough) for part in range(1, 8))]


def random_net(rng: np.random.Generator) -> ScoreNet:
    h, k, d = rng.choice(WIDTHS), rng.choice(CLASSES), rng.choice(DIMS)
    arrays = rng.normal(size=(h, d)), rng.normal(size=(h, k)), rng.normal(size=h), 0.5 * rng.normal(size=k)
    if rng.random() < 0.3:
        arrays[2][:] = 0
    if rng.random() < 0.3:
        arrays[3][:] = 0
    return ScoreNet(*(torch.from_numpy(a) for a in arrays), activation=ReLU())


def assert_brackets_hold_the_truth(seeds: range) -> float:
    """Returns the median of attacked ÷ truth on points that can be flipped; proofs of most networks are asked for too much."""
    ratios = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        net = random_net(rng)
        x, own = classified(net, 4, rng)
        own[0] = int(rng.integers(net.num_classes))  # some points are misclassified
        attack = nullcontext() if seed % 10 == 0 else long_witnesses(rng, float(rng.choice([1.0, 1.1, 1.5])))
        with attack:
            bracket = asked(net, x, own, branches=2)
        truths = truths_held(bracket, net, x, own)
        if seed % 10 == 0:
            ratios += [float(a) / t for a, t in zip(bracket.attacked, truths, strict=True) if 0 < t < 3]
    return float(np.median(ratios))


def test_brackets_hold_the_enumerated_truth():
    assert assert_brackets_hold_the_truth(range(4)) < 1.001


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_brackets_of_many_networks_hold_the_enumerated_truth(part):
    assert assert_brackets_hold_the_truth(range(250 * part, 250 * (part + 1))) < 1.001


@pytest.mark.parametrize("norm", [2, math.inf])
def test_linear_scores_have_closed_forms(norm):
    rng = np.random.default_rng(0)
    V, c, x = rng.normal(size=(4, 6)), rng.normal(size=4), rng.normal(size=(20, 6))
    scores = x @ V.T + c
    own = scores.argmax(axis=1)
    net = LinearScores(torch.from_numpy(V), torch.from_numpy(c))
    bracket = asked(net, torch.from_numpy(x), torch.from_numpy(own), norm=norm)
    q = 2 if norm == 2 else 1
    for i, y in enumerate(own):
        others = [r for r in range(4) if r != y]
        radii = [(scores[i, y] - scores[i, r]) / np.linalg.norm(V[y] - V[r], ord=q) for r in others]
        assert bracket.certified[i] <= min(radii) <= bracket.attacked[i]
        assert int(bracket.target[i]) == others[int(np.argmin(radii))]
    assert float(bracket.gap.max()) < 1e-8
    with torch.no_grad():
        flipped = net(torch.from_numpy(x) + bracket.witness)
    assert (flipped.argmax(dim=1) != torch.from_numpy(own)).all()


def test_a_network_of_two_classes_is_bracketed_as_one_with_one_output():
    rng = np.random.default_rng(3)
    net = ScoreNet(*(torch.from_numpy(rng.normal(size=s)) for s in ((6, 4), (6, 2), 6, 2)), activation=ReLU())
    x = torch.from_numpy(rng.normal(size=(6, 4)))
    with torch.no_grad():
        own = net(x).argmax(dim=1)
    many = asked(net, x, own)
    one = asked(net.margin(1, 0), x, 2.0 * own.double() - 1)
    torch.testing.assert_close(many.attacked, one.attacked, rtol=1e-6, atol=0)
    torch.testing.assert_close(many.certified, one.certified, rtol=0.011, atol=0)


def test_powers_and_heads_keep_to_neurons_with_a_say():
    """V of a head is zero outside each neuron's own class: proofs must speak of the same neurons as the checker."""
    rng = np.random.default_rng(5)
    W, b = rng.normal(size=(12, 5)), 0.3 * rng.normal(size=12)
    V = np.kron(np.eye(3), np.ones((4, 1))) * rng.uniform(0.5, 1, size=(12, 1))
    net = ScoreNet(*(torch.from_numpy(a) for a in (W, V, b)), activation=PowerReLU(3.0))
    x = torch.from_numpy(rng.normal(size=(4, 5)))
    with torch.no_grad():
        own = net(x).argmax(dim=1)
    bracket = asked(net, x, own, branches=40)
    assert float(bracket.gap.median()) < 0.02
    with torch.no_grad():
        margins = net(x + bracket.witness)
    rows = torch.arange(len(x))
    assert bool((margins[rows, own] <= margins[rows, bracket.target] + 1e-12).all())
