"""ℓ∞ brackets, in a box and without, against every point of a fine grid; and what the checker of their trees refuses."""

import math
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from asking import asked
from asking import check_point as check

from featureprism.checker.certificate import verified
from featureprism.models.model import as_model
from featureprism.networks import PolynomialReLU, PowerReLU, ReLU, TwoLayerNet
from featureprism.seeds import generator_for

REACH, DOMAIN = 4.0, (-1.5, 1.5)
POWERS = (1.0, 1.0, 1.0, 1.5, 2.0, 3.0, 4.2)


def random_case(seed):
    """A network in two dimensions with two points in the box, labelled by the network."""
    g = generator_for("l-infinity networks", seed)
    width, kind = (int(torch.randint(*ends, (1,), generator=g)) for ends in ((1, 7), (0, len(POWERS))))
    W, a, b = (torch.randn(*s, generator=g).double() for s in ((width, 2), (width,), (width,)))
    if seed % 7 == 0 and width > 1:
        W[1] = -W[0]
    p = POWERS[kind]
    activation = ReLU() if p == 1 else PolynomialReLU(p) if seed % 2 else PowerReLU(p)
    net = TwoLayerNet(W, a, b, activation=activation)
    x = 1.5 * (2 * torch.rand(2, 2, generator=g).double() - 1)
    with torch.no_grad():
        y = torch.where(net(x) >= 0, 1.0, -1.0).double()
    return net, x, y


def nearest_on_grid(net, point, label, domain, points=121):
    """The least ‖δ‖_∞ of a grid point that flips: never below the truth."""
    axis = torch.linspace(-REACH, REACH, points, dtype=torch.float64)
    delta = torch.cartesian_prod(axis, axis)
    if domain is not None:
        inside = ((point + delta >= domain[0]) & (point + delta <= domain[1])).all(dim=1)
        delta = delta[inside]
    with torch.no_grad():
        flips = label * net(point + delta) <= 0
    length = delta[flips].abs().amax(dim=1)
    return float(length.min()) if len(length) else math.inf


def check_soundness(seeds):
    """Returns all gaps of finite brackets."""
    gaps = []
    for seed in seeds:
        net, x, y = random_case(seed)
        domain = DOMAIN if seed % 2 else None
        bracket = asked(net, x, y, norm=math.inf, branches=16, max_radius=REACH, bounds=domain)
        for i in range(len(x)):
            truth = nearest_on_grid(net, x[i], y[i], domain)
            assert float(bracket.certified[i]) <= truth * (1 + 1e-12), f"above the truth, seed {seed}"
            assert float(bracket.attacked[i]) == 0 or check(
                bracket.certificates[i], net, x[i], float(y[i])
            ), f"refused, seed {seed}"
        flipped = torch.isfinite(bracket.attacked)
        assert bracket.witness is not None
        with torch.no_grad():
            assert bool((y * net(x + bracket.witness) <= 0)[flipped].all()), f"no flip, seed {seed}"
        gaps += bracket.gap[flipped & (bracket.attacked > 0)].tolist()
    return gaps


def test_box_norm_brackets_hold_the_truth_of_random_networks():
    assert np.median(check_soundness(range(8))) < 0.02


def granted(certificate, net, x, y):
    form = as_model(net).one_layer
    assert form is not None
    return verified(certificate, form.network, x.numpy(), y)


@pytest.fixture(scope="module")
def tree_case():
    """A certificate with a tree, in a box that matters."""
    for seed in range(11, 200, 2):  # there is one before long
        net, x, y = random_case(seed)
        bracket = asked(net, x, y, norm=math.inf, branches=16, max_radius=REACH, bounds=DOMAIN)
        for i, c in enumerate(bracket.certificates):
            free = replace(c, domain=(-math.inf, math.inf))
            if c.kind == "lines" and "cut" in c.tree and granted(free, net, x[i], float(y[i])) < c.radius:
                return net, x[i], float(y[i]), c, float(bracket.attacked[i])
    raise AssertionError("no such case")


def leaf_of(tree):
    return tree if "cut" not in tree else leaf_of(tree["below"])


SPOILED = {
    "no tree": lambda c: replace(c, tree={}),
    "another norm": lambda c: replace(c, norm=2),
    "no box": lambda c: replace(c, domain=(-math.inf, math.inf)),
    "a box without the point": lambda c: replace(c, domain=(5.0, 6.0)),
    "a box of NaN": lambda c: replace(c, domain=(math.nan, 1.0)),
    "a side missing": lambda c: replace(c, tree={k: v for k, v in c.tree.items() if k != "below"}),
    "a neuron beyond the last": lambda c: replace(c, tree={**c.tree, "cut": 99}),
}


@pytest.mark.parametrize("name", SPOILED)
def test_malformed_trees_are_refused(name, tree_case):
    net, x, y, certificate, _ = tree_case
    assert check(certificate, net, x, y)
    assert not check(SPOILED[name](certificate), net, x, y)


@pytest.mark.parametrize("field", ["tau", "line", "low", "high", "nu_floor", "nu_ceiling"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0, 1e-300, 0.5, 7.0, 1e300])
def test_nonsense_in_a_leaf_proves_nothing_false(field, value, tree_case):
    net, x, y, certificate, attacked = tree_case
    tree = deepcopy(certificate.tree)
    leaf = leaf_of(tree)
    leaf[field] = value if field == "tau" else 0 * leaf[field] + value
    assert granted(replace(certificate, tree=tree), net, x, y) <= attacked
