"""GaussianHead: against scikit-learn's discriminants, its own mixture, and brute force."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf as their_ledoit_wolf
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import featureprism as fp
from featureprism.heads import GaussianHead, load_head
from featureprism.heads.covariance import ledoit_wolf
from featureprism.lab.heads.mixture import kolmogorov, mixture_distance

KINDS = [GaussianHead(c, s) for c in ("shared", "per_class") for s in ("full", "diagonal")]


def name_of(head):
    return f"{head.covariance}-{head.structure}"


def test_without_shrinkage_it_is_the_discriminant_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    linear = LinearDiscriminantAnalysis(solver="lsqr", priors=[1 / 3] * 3).fit(X, y)
    ours = GaussianHead("shared", shrinkage=0.0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), linear.predict_proba(X), atol=1e-4)
    quadratic = QuadraticDiscriminantAnalysis(priors=[1 / 3] * 3).fit(X, y)
    ours = GaussianHead("per_class", shrinkage=0.0).fit(X, y)
    # theirs divides by n_c - 1
    assert np.abs(ours.predict_proba(X) - quadratic.predict_proba(X)).max() < 0.05
    assert (ours.predict(X) == quadratic.predict(X)).mean() > 0.98


@pytest.mark.parametrize("shape", [(30, 5), (10, 40)])
def test_the_shrinkage_is_the_one_of_ledoit_and_wolf(shape):
    noise = np.random.default_rng(0).normal(size=shape) * np.arange(1, shape[1] + 1)
    noise -= noise.mean(axis=0)
    weight = np.ones(len(noise))
    S = noise.T @ noise / len(noise)
    assert ledoit_wolf(noise, weight, S) == pytest.approx(
        their_ledoit_wolf(noise, assume_centered=True)[1], rel=1e-9
    )


@pytest.mark.parametrize("head", KINDS, ids=name_of)
def test_the_front_door_takes_it_alone_and_in_pipelines(head):
    X, y = load_wine(return_X_y=True)
    names = np.array(["ant", "bee", "cat"])[y]
    head.fit(X, names)
    own, door = head.robust_radius(X[:30], names[:30]), fp.robust_radius(head, X[:30], names[:30])
    np.testing.assert_allclose(own.certified, door.certified)
    assert float(own.gap.max()) < 1e-6
    pipe = make_pipeline(
        StandardScaler(), PCA(5, whiten=True), GaussianHead(head.covariance, head.structure)
    ).fit(X, names)
    bracket = fp.robust_radius(pipe, X[:30], names[:30])
    moved = X[:30] + bracket.witness * (1 + 1e-6)
    right = bracket.attacked > 0
    assert (pipe.predict(moved)[right] != names[:30][right]).all()
    assert (bracket.certified[right] > 0.99 * bracket.attacked[right]).all()


@pytest.mark.parametrize("head", KINDS, ids=name_of)
def test_a_saved_head_comes_back_and_other_doors_read_it(head, tmp_path):
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd"))
    head.fit(frame, np.array(["ant", "bee", "cat"], dtype=object)[y]).save(tmp_path / "head.npz")
    back = load_head(tmp_path / "head.npz")
    np.testing.assert_array_equal(back.decision_function(frame), head.decision_function(frame))
    assert back.get_params() == head.get_params()
    np.testing.assert_array_equal(back.sample(5, 0)[0], head.sample(5, 0)[0])
    labels = head.predict(frame)[:5]
    from_file = fp.robust_radius(tmp_path / "head.npz", X[:5], labels)
    torch.testing.assert_close(from_file.certified, head.robust_radius(frame[:5], labels).certified)


def nearest_by_search(head, x, own, rng):
    """min ‖δ‖ with another class at least as likely at x + δ, by SLSQP from several starts; the densities are those of scipy."""
    laws = [
        multivariate_normal(m, S)
        for m, S in zip(head.means_, np.broadcast_to(head.covariances_, (3, 3, 3)), strict=True)
    ]

    def gap(delta, rival):
        joint = [laws[c].logpdf(x + delta) + np.log(head.priors_[c]) for c in (rival, own)]
        return joint[0] - joint[1]

    best = np.inf
    for rival in {0, 1, 2} - {own}:
        for start in (head.means_[rival] - x, *rng.normal(size=(2, 3))):
            found = minimize(
                lambda delta: delta @ delta,
                start,
                jac=lambda delta: 2 * delta,
                constraints=[{"type": "ineq", "fun": gap, "args": (rival,)}],
                method="SLSQP",
                options={"ftol": 1e-12, "maxiter": 200},
            )
            if gap(found.x, rival) > -1e-7:
                best = min(best, np.linalg.norm(found.x))
    return best


@pytest.mark.parametrize("head", KINDS, ids=name_of)
def test_closed_forms_are_what_a_numerical_minimisation_finds(head):
    """Neither side of the bracket knows of the other's method."""
    rng = np.random.default_rng(5)
    X, y = make_blobs(
        90, n_features=3, centers=3, cluster_std=[0.7, 1.5, 2.5], center_box=(-3, 3), random_state=5
    )
    X = X @ rng.normal(size=(3, 3))
    head.fit(X, y)
    right = np.flatnonzero(head.predict(X) == y)[:5]
    bracket = head.robust_radius(X[right], y[right])
    searched = [nearest_by_search(head, X[i], int(y[i]), rng) for i in right]
    np.testing.assert_allclose(bracket.certified, searched, rtol=1e-4)
    np.testing.assert_allclose(bracket.attacked, searched, rtol=1e-4)


def test_random_directions_do_not_flip_below_what_is_proven():
    X, y = make_blobs(200, n_features=6, centers=4, cluster_std=[1.0, 2.0, 3.0, 4.0], random_state=3)
    head = GaussianHead("per_class").fit(X, y)
    bracket = head.robust_radius(X[:40], y[:40])
    rng = np.random.default_rng(0)
    for _ in range(50):
        u = rng.normal(size=(40, 6))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        moved = X[:40] + 0.999 * bracket.certified[:, None] * u
        safe = bracket.certified > 0
        assert (head.predict(moved)[safe] == y[:40][safe]).all()


def test_it_is_searched_over_like_any_estimator():
    X, y = load_wine(return_X_y=True)
    grid = GridSearchCV(
        GaussianHead(), {"covariance": ["shared", "per_class"], "shrinkage": ["auto", 0.5]}, cv=3
    ).fit(X, y)
    assert grid.best_score_ > 0.95


def test_weights_count_copies():
    X, y = load_iris(return_X_y=True)
    twice = GaussianHead("per_class").fit(np.concatenate([X, X[:50]]), np.concatenate([y, y[:50]]))
    weighted = GaussianHead("per_class").fit(X, y, sample_weight=np.where(np.arange(150) < 50, 2.0, 1.0))
    np.testing.assert_allclose(twice.decision_function(X), weighted.decision_function(X), rtol=1e-6)


def test_the_mixture_is_near_itself_and_far_from_other_laws():
    rng = np.random.default_rng(0)
    X, y = make_blobs(600, n_features=5, centers=3, random_state=0)
    head = GaussianHead("per_class").fit(X, y)
    own = mixture_distance(head, *head.sample(2000, 1))
    assert own.variation_at_least < 0.02
    assert own.accuracy == pytest.approx(own.mixture_accuracy, abs=0.05)
    assert own.radius == pytest.approx(own.mixture_radius, rel=0.2)
    index = rng.integers(3, size=2000)
    heavy = head.means_[index] + rng.standard_t(2, size=(2000, 5))
    assert mixture_distance(head, heavy, index).variation_at_least > 0.1


def test_kolmogorov_of_known_numbers():
    assert kolmogorov(np.array([0.5])) == 0.5
    assert kolmogorov((np.arange(100) + 0.5) / 100) == pytest.approx(0.005)
    assert kolmogorov(np.full(10, 0.9)) == pytest.approx(0.9)


X_BAD, Y_BAD = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2


@pytest.mark.parametrize(
    ("head", "X", "y", "sentence"),
    [
        (GaussianHead("both"), X_BAD, Y_BAD, "covariance must be one of shared, per_class"),
        (GaussianHead(structure="sparse"), X_BAD, Y_BAD, "structure must be one of"),
        (GaussianHead(shrinkage=1.5), X_BAD, Y_BAD, "'auto' or a number from 0 to 1"),
        (GaussianHead(shrinkage="some"), X_BAD, Y_BAD, "'auto' or a number"),
        (GaussianHead(scaling="none"), X_BAD, Y_BAD, "scaling must be"),
        (GaussianHead(), X_BAD, np.zeros(20), "at least two classes"),
        (GaussianHead(), np.ones((20, 3)), Y_BAD, "constant features"),
    ],
)
def test_bad_input_gets_a_sentence(head, X, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        head.fit(X, y)


def test_classes_of_equal_points_and_single_points_are_learned():
    X = np.concatenate([np.zeros((5, 2)), np.ones((5, 2)), [[3.0, 0.0]]])
    y = np.repeat([0, 1, 2], [5, 5, 1])
    for kind in ("shared", "per_class"):
        assert GaussianHead(kind).fit(X, y).score(X, y) == 1
