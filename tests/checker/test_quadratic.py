"""Radii of quadratic scores against grids, closed forms and duality; what is claimed is what the checker grants."""

import numpy as np
import pytest
import torch
from asking import check_point as check

from featureprism.checker.proofs import Proof
from featureprism.checker.quadratic import QuadraticScores
from featureprism.checker.verify import verified_radii
from featureprism.models import read_model
from featureprism.models.scores import QuadraticScores as Scores
from featureprism.verify import robust_radius


def drawn(k, d, seed, curvature=1.0):
    """Random symmetric matrices of any signature."""
    rng = np.random.default_rng(seed)
    A = curvature * rng.normal(size=(k, d, d))
    return QuadraticScores(A + A.transpose(0, 2, 1), rng.normal(size=(k, d)), rng.normal(size=k))


def margin(model, x, own, rival):
    def score(r):
        return model.c[r] + x @ model.V[r] - 0.5 * np.einsum("ni,ij,nj->n", x, model.A[r], x)

    return score(own) - score(rival)


@pytest.mark.parametrize("seed", range(12))
def test_the_plane_agrees_with_a_grid(seed):
    model, rng = drawn(2, 2, seed), np.random.default_rng(seed)
    line = np.linspace(-3, 3, 601)
    deltas = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    lengths = np.linalg.norm(deltas, axis=1)
    for x in rng.normal(size=(4, 2)):
        own = 0 if margin(model, x[None], 0, 1)[0] > 0 else 1
        found = model.nearest(x[None], own, 1 - own)
        flipped = margin(model, x + deltas, own, 1 - own) <= 0
        truth = lengths[flipped].min() if flipped.any() else np.inf
        assert found.radius[0] <= truth
        if truth < 3:
            assert found.radius[0] >= truth - 0.015  # the grid's own width
            witness = found.delta[0]
            assert margin(model, (x + witness)[None], own, 1 - own)[0] <= 0
            assert np.linalg.norm(witness) <= found.radius[0] * (1 + 1e-6)


@pytest.mark.parametrize(("d", "curvature"), [(3, 1.0), (20, 0.1), (20, 1e-8), (40, 100.0)])
def test_proven_and_witnessed_meet_in_any_dimension(d, curvature):
    model, rng = drawn(3, d, d, curvature), np.random.default_rng(1)
    x = rng.normal(size=(50, d))
    for own in range(3):
        right = x[np.all([margin(model, x, own, r) > 0 for r in range(3) if r != own], axis=0)]
        for rival in (r for r in range(3) if r != own):
            found = model.nearest(right, own, rival)
            lengths = np.linalg.norm(found.delta, axis=1)
            assert (margin(model, right + found.delta, own, rival) <= 0).all()
            np.testing.assert_array_less(found.radius, lengths)
            np.testing.assert_allclose(found.radius, lengths, rtol=1e-5)


def test_a_ball_has_its_closed_form():
    """Own score -½‖x‖² a, rival a constant: the sphere of radius √(2c/a) around 0."""
    A = np.stack([2.0 * np.eye(5), np.zeros((5, 5))])
    model = QuadraticScores(A, np.zeros((2, 5)), np.array([9.0, 0.0]))
    x = np.zeros((3, 5))
    x[1, 0], x[2, 2] = 1.0, 2.5
    found = model.nearest(x, 0, 1)
    np.testing.assert_allclose(
        found.radius, [3.0, 2.0, 0.5], rtol=1e-6
    )  # the first is the hard case: no slope anywhere
    np.testing.assert_allclose(np.linalg.norm(found.delta, axis=1), [3.0, 2.0, 0.5], rtol=1e-6)


def test_a_rival_that_never_wins_is_far_and_has_no_witness():
    A = np.stack([np.zeros((2, 2)), np.eye(2)])
    model = QuadraticScores(A, np.zeros((2, 2)), np.array([1.0, 0.0]))
    found = model.nearest(np.ones((1, 2)), 0, 1)
    assert found.radius[0] > 1e3
    assert np.isnan(found.delta).all()


def test_equal_matrices_are_a_half_space():
    rng = np.random.default_rng(0)
    v, S = rng.normal(size=(2, 4)), np.diag([1.0, 2.0, 3.0, 4.0])
    model = QuadraticScores(np.stack([S, S]), v, np.array([5.0, 0.0]))
    x = 0.1 * rng.normal(size=(6, 4))
    truth = margin(model, x, 0, 1) / np.linalg.norm(v[0] - v[1])
    np.testing.assert_allclose(model.nearest(x, 0, 1).radius, truth, rtol=1e-9)
    assert (model.nearest(x, 0, 1).radius <= truth).all()


def test_a_wrong_multiplier_only_proves_less(monkeypatch):
    """Nothing that the solver says is trusted."""
    from featureprism.checker import quadratic

    model = drawn(2, 6, 3)
    x = np.random.default_rng(3).normal(size=(40, 6))
    x = x[margin(model, x, 0, 1) > 0]
    truth = np.linalg.norm(model.nearest(x, 0, 1).delta, axis=1)
    rng, solved = np.random.default_rng(0), quadratic._solved
    for factor in (0.1, 0.9, 1.1, 3.0, -1.0):

        def spoiled(*question, factor=factor):
            multiplier, delta = solved(*question)
            return factor * multiplier, delta + 0.01 * rng.normal(size=delta.shape)

        monkeypatch.setattr(quadratic, "_solved", spoiled)
        assert (model.nearest(x, 0, 1).radius <= truth).all()


@pytest.mark.parametrize("norm", [2, np.inf])
def test_brackets_of_the_front_door_pass_the_checker(norm):
    model = drawn(4, 8, 5, 0.05)
    net = Scores(*(torch.from_numpy(t) for t in (model.A, model.V, model.c)))
    x = torch.randn(30, 8, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        y = net(x).argmax(dim=1)
    bracket = robust_radius(net, x, y, norm=norm)
    assert (bracket.certified > 0).all()
    radii = verified_radii(
        read_model(net).checkable(),
        x.numpy(),
        y.numpy(),
        [Proof(i, int(y[i]), r, c) for i, of in enumerate(bracket.certificates) for r, c in of.items()],
        norm,
    )
    np.testing.assert_array_equal(np.minimum(radii, bracket.attacked), bracket.certified)
    assert check(bracket.certificates[0], net, x[0], int(y[0]))
    with torch.no_grad():
        assert (net(x + torch.from_numpy(bracket.witness)).argmax(dim=1) != y).all()


def test_matrices_must_be_symmetric():
    with pytest.raises(ValueError, match="symmetric"):
        QuadraticScores(np.triu(np.ones((2, 3, 3))), np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match="symmetric"):
        Scores(torch.ones(2, 3, 3).double().triu(), torch.ones(2, 3).double(), torch.ones(2).double())
