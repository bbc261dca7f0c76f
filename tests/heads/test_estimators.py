"""Heads in scikit-learn's world, and what they refuse."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from featureprism.heads import DecoupledHead, PReLUHead
from featureprism.verify import Budget

HEADS = [PReLUHead(width=8, random_state=0), DecoupledHead(random_state=0)]


def name_of(head):
    return type(head).__name__


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300]


def accepted(*heads, steps):
    """Whether check_estimator passes, in a process without type checks: it hands over wrong types on purpose."""
    code = f"""
from sklearn.utils.estimator_checks import check_estimator
from featureprism.heads import DecoupledHead, GaussianHead, PReLUHead, pace
pace.MOST_STEPS = {steps}
for head in ({", ".join(heads)},):
    check_estimator(head, on_skip=None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.returncode == 0, done.stderr


def test_scikit_learn_accepts_the_heads():
    gaussian = (
        "GaussianHead('shared')",
        "GaussianHead('per_class')",
        "GaussianHead('per_class', 'diagonal', 0.5, scaling='features')",
    )
    passed, words = accepted("PReLUHead(width=8)", *gaussian, steps=60)
    assert passed, words


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        "PReLUHead()",
        "PReLUHead(p=1)",
        "DecoupledHead()",
        "DecoupledHead(num_subclasses=1, width=3)",
        "DecoupledHead(num_subclasses=2, scaling='features')",
    ],
)
def test_scikit_learn_accepts_other_heads(head):
    passed, words = accepted(head, steps=1500)
    assert passed, words


@pytest.mark.parametrize("head", HEADS, ids=name_of)
def test_digits_are_learned_in_pipelines_grids_and_folds(head, digits):
    X, y = digits
    pipe = make_pipeline(StandardScaler(), head)
    assert cross_val_score(pipe, X, y, cv=2).mean() > 0.75
    grid = GridSearchCV(head, {"p": [1, 3]}, cv=2).fit(X, y)
    assert grid.best_score_ > 0.8
    proba = grid.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (grid.classes_[proba.argmax(axis=1)] == grid.predict(X)).all()


@pytest.mark.parametrize("head", HEADS, ids=name_of)
def test_numpy_pandas_and_torch_give_the_same_head(head, digits):
    X, y = digits[0][:200], digits[1][:200]
    scores = head.fit(X, y).decision_function(X)
    frame = pd.DataFrame(X, columns=[f"e{i}" for i in range(X.shape[1])])
    np.testing.assert_array_equal(head.fit(frame, pd.Series(y)).decision_function(frame), scores)
    tensor = torch.as_tensor(X)
    np.testing.assert_array_equal(head.fit(tensor, torch.as_tensor(y)).decision_function(tensor), scores)


def test_the_seed_decides_everything(digits):
    X, y = digits
    first, again, other = (
        PReLUHead(width=4, random_state=s).fit(X, y).decision_function(X) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("head", HEADS, ids=name_of)
def test_radii_move_with_the_units_and_not_with_the_origin(head):
    X, y = make_blobs(60, n_features=5, centers=2, cluster_std=2.0, random_state=0)
    here = head.fit(X, y).robust_radius(X[:4], y[:4], budget=Budget(branches=1))
    there = head.fit(7 * X + 3, y).robust_radius(7 * X[:4] + 3, y[:4], budget=Budget(branches=1))
    torch.testing.assert_close(there.attacked, 7 * here.attacked, rtol=0.02, atol=1e-6)


def test_given_labels_are_learned_and_must_nest():
    X, fine = make_blobs(200, n_features=5, centers=4, random_state=0)
    y = fine % 2
    head = DecoupledHead(labels="given", random_state=0).fit(X, y, fine_labels=fine)
    assert head.score(X, y) > 0.95
    assert len(head.net_.owner) == 4
    with pytest.raises(ValueError, match="must belong to one class"):
        head.fit(X, y, fine_labels=fine // 2)
    with pytest.raises(ValueError, match="needs fit"):
        head.fit(X, y)
    with pytest.raises(ValueError, match="one fine label per point"):
        head.fit(X, y, fine_labels=fine[:-1])
    with pytest.raises(ValueError, match="use labels='given'"):
        DecoupledHead().fit(X, y, fine_labels=fine)


X_BAD, Y_BAD = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2


@pytest.mark.parametrize(
    ("head", "X", "y", "sentence"),
    [
        (PReLUHead(), X_BAD, np.zeros(20), "at least two classes"),
        (PReLUHead(), np.ones((20, 3)), Y_BAD, "constant features"),
        (PReLUHead(), np.where(X_BAD > 2, np.nan, X_BAD + np.nan), Y_BAD, "NaN"),
        (DecoupledHead(num_subclasses=11), X_BAD, Y_BAD, "into 11 sub-classes"),
        (DecoupledHead(labels="guessed"), X_BAD, Y_BAD, "'given' or 'discovered'"),
        (DecoupledHead(fine_weight=2), X_BAD, Y_BAD, "between 0 and 1"),
        (DecoupledHead(num_subclasses=0), X_BAD, Y_BAD, "at least 1"),
        (PReLUHead(p=0.5), X_BAD, Y_BAD, "at least 1"),
        (PReLUHead(width=0), X_BAD, Y_BAD, "width must be positive"),
        (PReLUHead(weight_decay=-1), X_BAD, Y_BAD, "weight_decay"),
        (PReLUHead(step_size=math.inf), X_BAD, Y_BAD, "diverged"),
    ],
)
def test_bad_input_gets_a_sentence(head, X, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        head.fit(X, y)


def test_labels_that_fit_never_saw_are_named():
    head = PReLUHead(width=2, random_state=0).fit(X_BAD, Y_BAD)
    with pytest.raises(ValueError, match="Unknown labels 5; the model's are 0, 1"):
        head.robust_radius(X_BAD, np.full(20, 5))
    with pytest.raises(ValueError, match="one label per point"):
        head.robust_radius(X_BAD, Y_BAD[:3])
