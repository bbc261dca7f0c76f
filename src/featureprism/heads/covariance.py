"""Covariances of classes: shared or one for each, full or diagonal, shrunk towards the round one."""

import numpy as np
from jaxtyping import Float, Int

RIDGE = 1e-6  # of the mean variance of all points, which is 1/d in the units of training: no direction is exactly flat


def covariances_of(
    noise: Float[np.ndarray, "n d"],
    index: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    num_classes: int,
    shared: bool,
    structure: str,
    shrinkage: float | str,
) -> Float[np.ndarray, "c d d"]:
    """Σ = (1 - s) S + s tr(S)/d I of points minus the mean of their class: one for all, or one for each class.

    A class whose points are all the same has that of all classes.
    """
    pooled = shrunk(noise, weight, structure, shrinkage)
    if shared:
        found = pooled[None]
    else:
        each = [
            shrunk(noise[index == c], weight[index == c], structure, shrinkage) for c in range(num_classes)
        ]
        found = np.stack([one if np.trace(one) > 0 else pooled for one in each])
    return found + RIDGE / noise.shape[1] * np.eye(noise.shape[1])


def shrunk(
    noise: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"], structure: str, shrinkage: float | str
) -> Float[np.ndarray, "d d"]:
    """The covariance of centred points, shrunk."""
    d = noise.shape[1]
    S = (noise * weight[:, None]).T @ noise / weight.sum()
    S = (S + S.T) / 2 if structure == "full" else np.diag(np.diag(S))
    share = ledoit_wolf(noise, weight, S) if shrinkage == "auto" else float(shrinkage)
    return (1 - share) * S + share * np.trace(S) / d * np.eye(d)


def ledoit_wolf(
    noise: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"], S: Float[np.ndarray, "d d"]
) -> float:
    """The share of the round covariance with the least expected error; weights count copies. Source: Ledoit & Wolf 2004, Lemma 3.3.

    Σ_i ‖z_i z_iᵀ - S‖²/n² over ‖S - tr(S)/d I‖², at most 1; of diagonal covariances the diagonals alone.
    """
    d, total = len(S), weight.sum()
    away = float(((S - np.trace(S) / d * np.eye(d)) ** 2).sum())
    if away == 0:
        return 1.0
    is_diagonal = np.count_nonzero(S - np.diag(np.diag(S))) == 0
    fourth = (noise**4).sum(axis=1) if is_diagonal else (noise**2).sum(axis=1) ** 2
    scatter = (float(weight @ fourth) / total - float((S**2).sum())) / total
    return float(np.clip(scatter / away, 0.0, 1.0))


def inverse(covariances: Float[np.ndarray, "c d d"]) -> tuple[np.ndarray, np.ndarray]:
    """Exactly symmetric inverses, and log-determinants."""
    values, vectors = np.linalg.eigh(covariances)
    A = (vectors / values[:, None, :]) @ vectors.transpose(0, 2, 1)
    return (A + A.transpose(0, 2, 1)) / 2, np.log(values).sum(axis=1)
