"""Weights of features: a question about ‖w ∘ δ‖ is one about the same model in other units.

With u = w ∘ δ the first layer W becomes W_ij/w_j, a point x_j·w_j, bounds of a coordinate lower_j·w_j and upper_j·w_j. All are
rounded to doubles, bounds outward; proofs are about the model and the points in these units (docs/proof_format.md, "Weights").
"""

from dataclasses import replace

import numpy as np

from featureprism.checker.enclosed import down, up
from featureprism.checker.layers import Layers
from featureprism.checker.linear import LinearScores
from featureprism.checker.models import Model, Scores
from featureprism.checker.quadratic import QuadraticScores
from featureprism.checker.scaled import refuse_unless

LEAST, MOST = 1e-50, 1e50


def is_weight(weights: np.ndarray) -> bool:
    """Whether all are positive numbers of usual size."""
    return bool(((weights >= LEAST) & (weights <= MOST)).all())


def weighted_model(model: Model, weights: np.ndarray) -> Model:
    """The model in units of 1/w_j for every coordinate."""
    w = np.asarray(weights, dtype=np.float64)
    if isinstance(model, LinearScores):
        return replace(model, V=model.V / w)
    if isinstance(model, QuadraticScores):
        return replace(model, A=model.A / (w[:, None] * w), V=model.V / w)
    if isinstance(model, Layers):
        return replace(model, weights=(model.weights[0] / w, *model.weights[1:]))
    refuse_unless(
        isinstance(model, Scores), "a model with a score for each class where features have weights"
    )
    assert isinstance(model, Scores)
    return replace(model, W=model.W / w)


def weighted_bounds(
    lower: np.ndarray, upper: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds in these units, rounded outward; weights of 1 leave them as they are."""
    with np.errstate(invalid="ignore"):
        outward = down(lower * weights), up(upper * weights)
    one = weights == 1
    return np.where(one, lower, outward[0]), np.where(one, upper, outward[1])
