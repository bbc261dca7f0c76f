"""Weights of points and classes, sparse points, and units of features."""

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from featureprism.heads import DecoupledHead, PReLUHead, pace
from featureprism.heads.scaling import fitted_scaling
from featureprism.heads.targets import class_weights

HEADS = [PReLUHead(width=4, random_state=0), DecoupledHead(num_subclasses=2, random_state=0)]


def name_of(head):
    return type(head).__name__


def blobs(num=60, centers=3):
    X, y = make_blobs(num, n_features=4, centers=centers, cluster_std=3.0, random_state=0)
    return X, y


@pytest.mark.parametrize("head", HEADS, ids=name_of)
def test_copies_are_weights_and_the_order_of_rows_decides_nothing(head):
    X, y = blobs()
    weight = np.arange(60) % 4
    copies = np.random.default_rng(0).permutation(np.repeat(np.arange(60), weight))
    by_weight = head.fit(X, y, sample_weight=weight).decision_function(X)
    np.testing.assert_array_equal(head.fit(X[copies], y[copies]).decision_function(X), by_weight)


def test_weights_count_in_batches_too():
    X, y = blobs(600, 2)
    head = PReLUHead(width=4, batch_size=100, random_state=0)
    shares = [
        (head.fit(X, y, sample_weight=np.where(y == 1, w, 1.0)).predict(X) == 1).mean()
        for w in (0.01, 1, 100)
    ]
    assert shares[0] < shares[1] < shares[2]


def test_weights_of_classes_are_those_of_their_points():
    X, y = blobs()
    rare = y > 0
    X, y = X[rare | (np.arange(60) % 3 == 0)], y[rare | (np.arange(60) % 3 == 0)]
    balanced = PReLUHead(width=4, class_weight="balanced", random_state=0).fit(X, y).decision_function(X)
    counts = np.bincount(y)
    weight = (len(y) / (3 * counts))[y]
    head = PReLUHead(width=4, random_state=0)
    np.testing.assert_allclose(head.fit(X, y, sample_weight=weight).decision_function(X), balanced, rtol=1e-6)
    found = class_weights({"b": 2}, np.array(["a", "b"]), np.array([0, 1]), None)
    np.testing.assert_array_equal(found, [1, 2])


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ({"class_weight": "even"}, "'balanced' or a mapping"),
        ({"class_weight": {7: 1.0}}, r"names the classes \[7\]"),
        ({"class_weight": {1: -1.0}}, "at least 0"),
        ({"class_weight": {1: 0.0}}, "class (np.int64\\()?1\\)? has no point of positive weight"),
    ],
)
def test_bad_weights_get_a_sentence(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        PReLUHead(width=2, random_state=0, **weights).fit(*blobs())


@pytest.mark.parametrize("head", HEADS, ids=name_of)
@pytest.mark.parametrize("num", [60, 300])
def test_sparse_points_give_the_head_of_dense_ones(head, num):
    X, y = blobs(num, 2)
    X = np.where(np.abs(X) < 2, 0.0, X)
    dense = head.fit(X, y).decision_function(X)
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        sparse = kind(X)
        np.testing.assert_allclose(head.fit(sparse, y).decision_function(sparse), dense, rtol=1e-2, atol=1e-2)
    found = head.robust_radius(scipy.sparse.csr_array(X[:1]), y[:1])
    torch.testing.assert_close(found.attacked, head.robust_radius(X[:1], y[:1]).attacked)


@pytest.mark.parametrize("as_given", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_scaling_is_that_of_scikit_learn_and_constant_features_stay_quiet(as_given):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * [1, 100, 0.01, 1] + [0, 5, 0, 0.1]
    X[:, 3] = 0.1  # its mean is not exactly 0.1
    found = fitted_scaling(as_given(X), None, "features", lifted=False)
    wanted = StandardScaler().fit(X)
    np.testing.assert_allclose(found.centre, wanted.mean_, atol=1e-12)
    np.testing.assert_allclose(found.scale[:3], wanted.scale_[:3] * np.sqrt(3), rtol=1e-9)
    auto = fitted_scaling(as_given(X), None, "auto", lifted=False)
    assert (len(np.unique(auto.scale)) > 1) == (
        as_given is np.asarray
    )  # rare sparse features are not blown up
    weight = rng.integers(1, 4, size=50).astype(float)
    weighted, copies = (
        fitted_scaling(as_given(points), w, "points", lifted=False)
        for points, w in ((X, weight), (X.repeat(weight.astype(int), axis=0), None))
    )
    np.testing.assert_allclose(weighted.scale, copies.scale, rtol=1e-9)


def test_units_of_features_are_folded_back_and_radii_are_in_the_units_of_the_points():
    X, y = blobs()
    units = np.array([1e-3, 1.0, 10.0, 1e3])
    head = PReLUHead(width=4, scaling="features", random_state=0).fit(X * units, y)
    other = PReLUHead(width=4, scaling="points", random_state=0).fit(StandardScaler().fit_transform(X), y)
    np.testing.assert_allclose(
        head.decision_function(X * units),
        other.decision_function(StandardScaler().fit_transform(X)),
        rtol=1e-4,
        atol=1e-6,
    )
    points = X * units
    right = np.nonzero(head.predict(points) == y)[0][:4]
    points, y = points[right], y[right]
    bracket = head.robust_radius(points, y)
    flipped = head.predict(points + 1.000001 * bracket.witness) != y
    assert flipped.all()
    np.testing.assert_allclose(np.linalg.norm(bracket.witness, axis=1), bracket.attacked, rtol=1e-9)
    rng = np.random.default_rng(0)
    for x, label, radius in zip(points, y, bracket.certified.tolist(), strict=True):
        delta = rng.normal(size=(500, 4))
        delta *= 0.999 * radius / np.linalg.norm(delta, axis=1, keepdims=True)
        assert (head.predict(x + delta) == label).all()


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_ordinary_tables_need_no_preparation(load, monkeypatch):
    """Within a point of logistic regression behind a scaler, on the table as it is."""
    monkeypatch.setattr(pace, "MOST_STEPS", 600)
    X, y = load(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    rival = make_pipeline(StandardScaler(), LogisticRegression())
    scores = [
        cross_val_score(model, X, y, cv=folds).mean()
        for model in (PReLUHead(width=20, random_state=0), rival)
    ]
    assert scores[0] > scores[1] - 0.01
