"""Quadratic scores: for every point and rival the nearest point that the rival wins, one secular equation each."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.checker import quadratic as checker
from featureprism.checker.certificate import Certificate
from featureprism.checker.enclosed import SLACK, with_room
from featureprism.networks import QuadraticScores


def nearest_flips(
    net: QuadraticScores,
    x: Float[Tensor, "m d"],
    own: Int[Tensor, " m"],
    rival: Int[Tensor, " m"],
    norm: float = 2,
) -> tuple[list[Certificate], Float[Tensor, "m d"]]:
    """Certificates of every pair, and the ℓ2 perturbation that flips it; NaN where there is none.

    Pairs of the same two classes share the eigenvectors of A_own - A_rival.
    """
    model = checker.QuadraticScores(*(t.detach().double().numpy().copy() for t in (net.A, net.V, net.c)))
    points, pairs = x.detach().double().numpy(), np.stack([own.numpy(), rival.numpy()], axis=1)
    radius, multiplier, delta = np.zeros(len(points)), np.zeros(len(points)), np.zeros_like(points)
    for a, b in sorted(np.unique(pairs, axis=0).tolist(), key=sorted):  # (a, b) beside (b, a)
        rows = np.flatnonzero((pairs == (a, b)).all(axis=1))
        with with_room():
            found = model.nearest(points[rows], a, b)
        radius[rows], multiplier[rows], delta[rows] = found.radius, found.multiplier, found.delta
    claimed = radius * (1 - SLACK) / (1.0 if norm == 2 else float(points.shape[1]) ** 0.5)  # ‖δ‖_∞ ≥ ‖δ‖₂/√d
    certificates = [
        Certificate(r, "closed form", norm, tree={"numbers": np.array([m])})
        for r, m in zip(claimed.tolist(), multiplier.tolist(), strict=True)
    ]
    return certificates, torch.from_numpy(delta)
