"""Baselines against closed forms and grids of the plane."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs
from sklearn.preprocessing import normalize

from featureprism.lab.heads.baselines import (
    AdversarialHead,
    KernelHead,
    LinearHead,
    NeighbourHead,
    NoisyHead,
    noisy,
    perturbed,
)
from featureprism.verify.called.bounds import nearest_neighbour_radius


def plane():
    X, y = make_blobs(30, centers=2, cluster_std=2.0, random_state=0)
    return X, np.where(y == 1, 1, -1)


def on_a_grid(predict, point, label, reach=4.0, num=321):
    line = np.linspace(-reach, reach, num)
    delta = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    flipped = predict(point + delta) != label
    return np.linalg.norm(delta[flipped], axis=1).min() if flipped.any() else np.inf


def test_the_radius_of_the_nearest_neighbour_is_exact():
    X, y = plane()
    head = NeighbourHead().fit(X[:20], y[:20])
    bracket = head.robust_radius(X[20:], y[20:])
    np.testing.assert_allclose(bracket.certified, bracket.attacked, rtol=1e-5)
    assert (head.predict(X[20:] + bracket.witness) != y[20:]).all()
    for x, label, radius in zip(X[20:], y[20:], bracket.attacked.tolist(), strict=True):
        truth = on_a_grid(head.predict, x, label)
        if truth < 4:
            assert radius <= truth + 1e-9
            assert radius >= truth - 0.04  # the width of the grid


def test_two_neighbours_are_split_by_their_bisector():
    train = np.array([[0.0, 0.0], [3.0, 0.0]])
    low, delta = nearest_neighbour_radius(train, np.array([-1, 1]), np.array([0.5, 2.0]), -1)
    assert low == pytest.approx(1.0)
    np.testing.assert_allclose(delta, [1.0, 0.0], atol=1e-6)
    low, delta = nearest_neighbour_radius(train, np.array([-1, 1]), np.array([2.0, 0.0]), -1)
    assert (low, *delta) == (0.0, 0.0, 0.0)


def test_the_kernel_machine_is_the_one_of_scikit_learn_and_its_bracket_holds():
    X, y = plane()
    head = KernelHead().fit(X, y)
    bracket = head.robust_radius(X[:6], y[:6])
    for i in range(6):
        truth = on_a_grid(head.predict, X[i], y[i])
        assert bracket.certified[i] <= truth + 1e-9
        if truth < 4:
            assert abs(float(bracket.attacked[i]) - truth) < 0.05
    moved = X[:6] + bracket.witness * 1.001
    assert (head.predict(moved) != y[:6]).all()


def test_the_radius_of_a_linear_head_is_its_distance():
    X, y = plane()
    for kind in ("logistic regression", "linear SVM"):
        head = LinearHead(kind, 0).fit(X, y)
        margin = y * head.machine.decision_function(X)
        wanted = np.maximum(margin, 0) / np.linalg.norm(head.machine.coef_)
        np.testing.assert_allclose(head.robust_radius(X, y).attacked, wanted, rtol=1e-6)


def test_perturbed_points_stay_in_the_ball_and_follow_the_slope(generator):
    points, U = torch.randn(8, 3, generator=generator), torch.eye(3)

    def slopes(z):
        return torch.relu(z), torch.ones_like(z)  # the loss Σ φ: every active neuron should grow

    moved = perturbed(points, U, slopes, 1.0, eps=0.5)
    assert bool(((moved - points).norm(dim=1) <= 0.5 + 1e-6).all())
    assert bool((torch.relu(moved).sum(dim=1) >= torch.relu(points).sum(dim=1)).all())


def test_adversarial_training_makes_the_radius_larger():
    X, y = load_digits(return_X_y=True)
    X, y = normalize(X)[:300], np.where(y[:300] >= 5, 1, -1)
    plain, hard = (
        AdversarialHead(eps, width=10, epochs=200, random_state=0)
        .fit(X, y)
        .robust_radius(X[:8], y[:8])
        .attacked
        for eps in (1e-9, 0.15)
    )
    assert np.median(hard) > 1.1 * np.median(plain)


def test_noise_has_the_norm_it_is_asked_for(generator):
    moved = noisy(torch.zeros(50, 400), torch.zeros(1, 400), _no_slopes, 1.0, eps=0.7, generator=generator)
    assert float(moved.norm(dim=1).mean()) == pytest.approx(0.7, rel=0.02)


def _no_slopes(z):
    return z, z


def test_training_with_noise_repeats_with_its_seed():
    X, y = plane()
    heads = [NoisyHead(0.5, width=5, random_state=s).fit(X, y) for s in (0, 0, 1)]
    same = [bool(np.array_equal(heads[0].decision_function(X), h.decision_function(X))) for h in heads[1:]]
    assert same == [True, False]
