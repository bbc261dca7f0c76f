"""Non-negative least squares of many unknowns: min ½ wᵀGw - cᵀw over w ≥ 0, whole blocks of unknowns changing sides at once."""

import numpy as np
from jaxtyping import Bool, Float

ROUNDING = 1e-13
PATIENCE = 3  # rounds without progress before unknowns change sides one by one
ROUNDS = 60


def nonnegative_minimum(
    gram: Float[np.ndarray, "n n"],
    products: Float[np.ndarray, " n"],
    guess: Bool[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, " n"] | None:
    """The minimiser, or None where this way does not find it: G is singular, or rounds do not end.

    Block principal pivoting: w is solved for on the unknowns that are free, the others are 0; those with w < 0, or with a gradient
    below 0 at 0, change sides. Where nothing has to, the Karush-Kuhn-Tucker conditions hold. Source: Kim & Park, SISC 33 (2011).
    `guess`: which unknowns are above 0; the better it is, the fewer rounds.

    >>> nonnegative_minimum(np.eye(2), np.array([1.0, -1.0])).tolist()
    [1.0, 0.0]
    """
    free = np.ones(len(products), dtype=bool) if guess is None else guess.copy()
    fewest, patience = len(products) + 1, PATIENCE
    for _ in range(ROUNDS):
        weights = _solved(gram, products, free)
        if weights is None:
            return None
        gradient = gram @ weights - products
        wrong = np.where(
            free,
            weights < -ROUNDING * np.abs(weights).max(initial=0),
            gradient < -ROUNDING * np.abs(products).max(initial=0),
        )
        if not wrong.any():
            return np.maximum(weights, 0)
        if wrong.sum() < fewest:
            fewest, patience = wrong.sum(), PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        free ^= wrong
    return None


def _solved(gram: np.ndarray, products: np.ndarray, free: np.ndarray) -> np.ndarray | None:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve  # takes half a second

    weights, which = np.zeros_like(products), np.flatnonzero(free)
    if len(which):
        try:
            factor = cho_factor(gram[np.ix_(which, which)])
        except LinAlgError:
            return None
        weights[which] = cho_solve(factor, products[which])
    return weights
