"""How far the scores of a program in float32 are from the real numbers that proofs are about.

The program: weights and the point are rounded to float32, then layer after layer is computed, products summed in any order, with or
without fused multiplications, ReLU in between. One layer of n inputs: the computed value is off by at most
γ_{n+3} (|W||h| + |b|), γ_m = mu/(1 - mu), u = 2^-24 (one rounding of each weight, one of each product, n of sums, one to spare),
and by what underflows, whether small numbers are kept or flushed to zero. What is off in h is carried on by |W|.
Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, (3.5).
"""

import numpy as np

from featureprism.checker.enclosed import enclosed
from featureprism.checker.layers import Layers, Region, neuron_bounds
from featureprism.checker.linear import LinearScores
from featureprism.checker.lines import Bounds
from featureprism.checker.models import Model, Scores

U = 2.0**-24
LEAST = 2.0**-126  # normal number
MOST = 2.0**127
ABOVE = 1 + 2.0**-20  # more than all roundings in float64 of the sums below, none of whose terms is negative
WANTED = "linear scores, or layers of ReLU with a score for each class"


def float32_layers(model: Model) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights and biases of every layer, ReLU in between; a ValueError for other models."""
    if isinstance(model, LinearScores):
        return [model.V], [model.c]
    if isinstance(model, Scores) and model.p == 1:
        return [model.W, np.ascontiguousarray(model.V.T)], [model.b, model.c]
    if isinstance(model, Layers) and model.activation == "relu":
        return list(model.weights), list(model.biases)
    raise ValueError(f"Proofs about float32 exist for {WANTED}.")


def float32_margin(
    model: Model, x: np.ndarray, own: int, radius: float, norm: float, domain: Bounds
) -> float:
    """By how much f_own must win at every point of the region, so that it wins in float32; inf where numbers may overflow."""
    errors = float32_errors(model, x, radius, norm, domain)
    return float(ABOVE * (errors[own] + np.delete(errors, own).max()))


def float32_errors(model: Model, x: np.ndarray, radius: float, norm: float, domain: Bounds) -> np.ndarray:
    """(k,) Floats above the distance of every computed score from the real one, at all points of the region."""
    weights, biases = float32_layers(model)
    region = Region.around(x, radius, norm, domain)
    size = np.abs(x) + radius
    spread = np.sqrt((weights[0] ** 2).sum(axis=1)) if norm == 2 else np.abs(weights[0]).sum(axis=1)
    with np.errstate(all="ignore"):
        mass = np.abs(weights[0]) @ np.abs(x) + radius * ABOVE * spread + np.abs(biases[0])
        error = _layer(weights[0], mass, U * mass + 2 * LEAST * np.abs(weights[0]).sum(axis=1), size)
        if len(weights) > 1:
            layers = Layers(tuple(weights), tuple(biases), "relu")
            known = neuron_bounds(layers, enclosed(weights[0]) @ x + biases[0], region, {})
            for W, b, neurons in zip(weights[1:], biases[1:], known, strict=True):
                high = np.maximum(neurons.high, 0)
                error = np.maximum(np.minimum(error, error + neurons.high), 0)  # off where surely off
                error = _layer(W, np.abs(W) @ high + np.abs(b), np.abs(W) @ error, high + error)
    return np.where(np.isfinite(error), error, np.inf)


def _layer(W: np.ndarray, mass: np.ndarray, carried: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Errors of one layer: `mass` |W||h| + |b|, `carried` |W| times the errors of h, `size` of h as computed."""
    n = W.shape[1]
    if not ((n + 3) * U < 0.5 and np.abs(W).max() < MOST and (size < MOST).all()):
        return np.full(len(W), np.inf)
    total = ABOVE * (mass + carried)
    rounding = (n + 3) * U / (1 - (n + 3) * U) * total
    flushed = 4 * LEAST * (2 * n + 2 + np.abs(W).sum(axis=1) + size.sum())
    return np.where(2 * total < MOST, ABOVE * (carried + rounding + flushed), np.inf)
