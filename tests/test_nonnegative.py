"""Non-negative least squares against scipy's active sets and the conditions of optimality."""

import numpy as np
import pytest
from scipy.optimize import nnls

from featureprism._nonnegative import nonnegative_minimum


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_minimum(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 60))
    A, target = rng.normal(size=(n + int(rng.integers(0, 20)), n)), rng.normal(size=n + 20)
    A, target = A * 10.0 ** rng.normal(size=n), target[: len(A)]
    found = nonnegative_minimum(A.T @ A, A.T @ target)
    assert found is not None
    assert (found >= 0).all()
    assert np.linalg.norm(A @ found - target) == pytest.approx(nnls(A, target)[1], rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_a_guess_changes_nothing_but_the_way(seed):
    rng = np.random.default_rng(seed)
    A, target = rng.normal(size=(40, 30)), rng.normal(size=40)
    gram, products = A.T @ A, A.T @ target
    found = nonnegative_minimum(gram, products, rng.random(30) < rng.random())
    np.testing.assert_allclose(found, nonnegative_minimum(gram, products), atol=1e-12)


def test_what_is_singular_is_left_to_others():
    assert nonnegative_minimum(np.ones((2, 2)), np.ones(2)) is None


def test_nothing_is_free_where_all_gradients_are_positive():
    assert nonnegative_minimum(np.eye(3), -np.ones(3)).tolist() == [0, 0, 0]
