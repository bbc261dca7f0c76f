"""Weights of features: closed forms, both checkers on one file, what the receiver states, and forged weights."""

import math
from io import BytesIO

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import featureprism as fp
from featureprism.checker import exact
from featureprism.checker.models import named_arrays
from featureprism.checker.proofs import read_proofs
from featureprism.models import read_model

X, Y = load_iris(return_X_y=True)
PART = slice(0, 150, 40)
WEIGHTS = np.array([2.0, 0.3, 1.0, 5.7])
BUDGET = fp.Budget(branches=40)
MODELS = {
    "linear": LogisticRegression(max_iter=500),
    "quadratic": fp.GaussianHead(covariance="per_class"),
    "one layer": MLPClassifier((8,), solver="lbfgs", alpha=0.1, max_iter=2000, random_state=0),
    "layers": MLPClassifier((6, 6), solver="lbfgs", alpha=0.1, max_iter=2000, random_state=0),
    "tanh": MLPClassifier((6,), activation="tanh", solver="lbfgs", alpha=0.1, max_iter=2000, random_state=0),
}


def files_of(model, bracket, labels):
    """Contents of the proof file, the model and the points."""
    form, arrays = named_arrays(read_model(model).with_scores().checkable())
    kind = {"scores": "polynomial"}.get(form, form.removeprefix("layers "))
    weights, points = BytesIO(), BytesIO()
    np.savez(weights, activation=np.array(kind), classes=np.arange(3), **arrays)
    np.savez(points, x=X[PART], y=labels)
    return bracket.content(), weights.getvalue(), points.getvalue()


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_linear_model_has_its_closed_form(norm):
    model = MODELS["linear"].fit(X, Y)
    weights = np.where([False, True, False, False], math.inf, WEIGHTS)
    bracket = fp.robust_radius(model, X[PART], Y[PART], norm=norm, weights=WEIGHTS, fixed=[1])
    scores = model.decision_function(X[PART])
    for i, (row, y) in enumerate(zip(scores, Y[PART], strict=True)):
        slopes = (model.coef_[y] - model.coef_) / weights
        dual = np.linalg.norm(slopes, ord=2 if norm == "l2" else 1, axis=1)
        radius = min((row[y] - row[r]) / dual[r] for r in range(3) if r != y)
        assert bracket.certified[i] == pytest.approx(radius, rel=1e-5)
        assert bracket.attacked[i] == pytest.approx(radius, rel=1e-5)
    assert not bracket.witness[:, 1].any()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("setting", ["plain", "linf in bounds", "fixed"])
def test_both_checkers_accept_what_is_proven_and_refuse_smaller_weights(name, setting):
    model = MODELS[name].fit(X, Y)
    labels = model.predict(X[PART])
    query = {"weights": WEIGHTS}
    if setting == "linf in bounds":
        query |= {"norm": "linf", "bounds": (X.min(axis=0) - 1, X.max(axis=0) + 1)}
    if setting == "fixed":
        query |= {"fixed": [0, 2]}
    bracket = fp.robust_radius(model, X[PART], labels, budget=BUDGET, **query)
    assert (bracket.certified > 0).all()
    moved = X[PART] + bracket.witness
    flipped = np.isfinite(bracket.attacked)
    assert (model.predict(moved[flipped]) != labels[flipped]).mean() > 0.5  # a witness ends on the boundary
    norm = {"norm": query.get("norm", 2), "bounds": query.get("bounds")}
    assert fp.check(bracket, model, X[PART], labels, weights=WEIGHTS, fixed=query.get("fixed"), **norm)
    with pytest.raises(ValueError, match="other weights"):
        fp.check(bracket, model, X[PART], labels, weights=WEIGHTS / 2, **norm)
    if setting == "fixed":
        with pytest.raises(ValueError, match="other weights"):
            fp.check(bracket, model, X[PART], labels, weights=WEIGHTS)
    assert (np.array(exact.verify(*files_of(model, bracket, labels))) >= bracket.certified).all()


@pytest.mark.parametrize("forged", [0.5, 0.9])
def test_forged_weights_are_refused_by_both_checkers(forged):
    """Smaller weights claim more of the same proofs."""
    model = MODELS["one layer"].fit(X, Y)
    labels = model.predict(X[PART])
    bracket = fp.robust_radius(model, X[PART], labels, weights=WEIGHTS, budget=BUDGET)
    content, weights, points = files_of(model, bracket, labels)
    arrays = dict(np.load(BytesIO(content)))
    arrays["weights"] = arrays["weights"] * forged
    changed = BytesIO()
    np.savez(changed, **arrays)
    assert (np.array(exact.verify(changed.getvalue(), weights, points)) < bracket.certified).any()
    path = BytesIO(changed.getvalue()).getvalue()
    assert read_proofs(path).statement.weights is not None
    from featureprism.checker.stated import Stated, checked

    canonical = read_model(model).with_scores().checkable()
    assert not checked(read_proofs(path), canonical, X[PART], labels, Stated(weights=WEIGHTS * forged))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 1e60])
def test_weights_that_are_none_are_refused(bad):
    model = MODELS["linear"].fit(X, Y)
    labels = model.predict(X[PART])
    bracket = fp.robust_radius(model, X[PART], labels, weights=WEIGHTS)
    content, weights, points = files_of(model, bracket, labels)
    arrays = dict(np.load(BytesIO(content)))
    arrays["weights"][2] = bad
    changed = BytesIO()
    np.savez(changed, **arrays)
    with pytest.raises(ValueError, match="weights"):
        read_proofs(changed.getvalue())
    with pytest.raises(ValueError, match="weight"):
        exact.verify(changed.getvalue(), weights, points)


def test_radii_in_standard_deviations_do_not_depend_on_units():
    model = MODELS["one layer"].fit(X, Y)
    plain = fp.robust_radius(model, X[PART], model.predict(X[PART]), unit="std", reference=X, budget=BUDGET)
    scaled = MLPClassifier((8,), solver="lbfgs", alpha=0.1, max_iter=2000, random_state=0).fit(X, Y)
    units = np.array([10.0, 0.1, 1.0, 1000.0])
    scaled.coefs_[0] = scaled.coefs_[0] / units[:, None]
    other = fp.robust_radius(
        scaled, X[PART] * units, model.predict(X[PART]), unit="std", reference=X * units, budget=BUDGET
    )
    np.testing.assert_allclose(plain.attacked, other.attacked, rtol=0.01)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"weights": [1, 2]}, "4 numbers"),
        ({"weights": 0}, "positive"),
        ({"weights": [1, 2, 3, math.nan]}, "positive"),
        ({"fixed": [9]}, "from 0 to 3"),
        ({"fixed": ["petal"]}, "no feature"),
        ({"fixed": [0, 1, 2, 3]}, "Every feature"),
        ({"unit": "meter"}, "std"),
        ({"unit": "std", "weights": 1}, "not both"),
        ({"unit": "std", "reference": X[:1]}, "vary"),
        ({"bounds": ([0, 0], [1, 1])}, "4 numbers"),
        ({"bounds": 3}, "pair"),
    ],
)
def test_bad_questions_are_refused_in_one_sentence(query, words):
    with pytest.raises(ValueError, match=words):
        fp.robust_radius(MODELS["linear"].fit(X, Y), X[PART], Y[PART], **query)
