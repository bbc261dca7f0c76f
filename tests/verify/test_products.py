"""The structured sums of the interior-point method against the matrices themselves, and its answers against what can be proven."""

import numpy as np
import pytest

from featureprism.checker.enclosed import enclosed
from featureprism.checker.layers import Layers, Region, neuron_bounds
from featureprism.checker.relaxations import Relaxation, relaxation
from featureprism.verify.deep.semidefinite import Products, sampled_moments, solve


def relaxed_network(signs: dict[int, float], radius: float = 0.5) -> tuple[Relaxation, float]:
    """A random network with two hidden layers, and its margin at the point."""
    random = np.random.default_rng(1)
    weights = tuple(random.normal(size=shape) for shape in ((6, 3), (5, 6), (2, 5)))
    biases = tuple(0.3 * random.normal(size=n) for n in (6, 5, 2))
    model, x = Layers(weights, biases, "relu"), np.array([0.3, -0.2, 0.4])
    h = x
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        h = np.maximum(W @ h + b, 0)
    scores = weights[-1] @ h + biases[-1]
    own = int(scores.argmax())
    region = Region.around(x, radius, 2, (-np.inf, np.inf))
    known = neuron_bounds(model, enclosed(weights[0]) @ x + biases[0], region, signs)
    side = np.concatenate([[1.0], np.zeros(3)])
    relaxed = relaxation(model, x, (own, 1 - own), region, known, signs, side)
    assert relaxed is not None
    return relaxed, float(scores[own] - scores[1 - own])


@pytest.mark.parametrize("signs", [{}, {0: 1.0, 8: -1.0}])
def test_sums_over_products_are_those_of_their_matrices(signs):
    relaxed, _ = relaxed_network(signs)
    products = Products.of(relaxed)
    left, right = relaxed.left.mid @ products.usual, relaxed.right.mid @ products.usual
    one_each = np.stack([products.weights(e) for e in np.eye(len(relaxed.kind))])  # (ours, theirs)
    every = 0.5 * np.einsum("ij,jk,jl->ikl", one_each, left, right)
    every = every + every.transpose(0, 2, 1)
    random = np.random.default_rng(2)
    theta = random.normal(size=len(every))
    X, P = (a @ a.T for a in random.normal(size=(2, len(products.usual), len(products.usual))))
    assert len(products.cuts) == len(signs)
    np.testing.assert_allclose(products.matrix(theta), np.einsum("i,ikl->kl", theta, every), atol=1e-12)
    np.testing.assert_allclose(products.values(X), np.einsum("ikl,kl->i", every, X), rtol=1e-9, atol=1e-9)
    traces = np.einsum("iab,bc,jcd,da->ij", every, X, every, P)
    np.testing.assert_allclose(products.system(X, P), traces, rtol=1e-9, atol=1e-9)


def test_bounds_and_moments_enclose_the_best_margin():
    bounds = []
    for radius in (0.2, 0.4, 0.8):
        relaxed, margin = relaxed_network({}, radius)
        solved = solve(relaxed, margin, sampled_moments(relaxed))
        assert solved.bound <= solved.best + 1e-6 * margin
        assert solved.bound < margin
        assert solved.moments[0, 0] == pytest.approx(1)
        bounds.append(solved.likely)
    assert bounds[2] < max(bounds[:2])  # a larger ball leaves less
