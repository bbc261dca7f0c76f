"""The truth for small ReLU networks: on an activation pattern the margin is affine, the nearest flip a least-distance problem."""

from itertools import product

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from featureprism.brackets import RadiusBracket
from featureprism.checker.models import Scores
from featureprism.checker.verify import verified_radii
from featureprism.models.scores import ScoreNet

SURE = 1e-7  # of the least-distance problem, relative


def least_distance(G: np.ndarray, g: np.ndarray) -> float:
    """min ‖δ‖ s.t. Gδ ≥ g, inf if there is none. Source: Lawson & Hanson, Solving Least Squares Problems, 1974, ch. 23."""
    scale = np.linalg.norm(np.column_stack([G, g]), axis=1).clip(1e-300)
    G, g = G / scale[:, None], g / scale
    E = np.vstack([G.T, g])
    f = np.zeros(len(E))
    f[-1] = 1
    u, _ = nnls(E, f, maxiter=2000)
    r = E @ u - f
    if r[-1] > -1e-14:  # ‖r‖² = -r[-1]
        return np.inf
    delta = -r[:-1] / r[-1]
    return float(np.linalg.norm(delta)) if (G @ delta >= g - 1e-7).all() else np.inf


def true_radius(W: np.ndarray, b: np.ndarray, V: np.ndarray, c: np.ndarray, x: np.ndarray, own: int) -> float:
    """The least over all rivals and all patterns s: s_j says that ⟨w_j, x⟩ + b_j ≥ 0; 0 if another class is ahead already."""
    t = W @ x + b
    scores = np.maximum(t, 0) @ V + c
    if scores[own] <= np.delete(scores, own).max():
        return 0.0
    best = np.inf
    for pattern in product((0.0, 1.0), repeat=len(W)):
        s = np.array(pattern)
        inside, side = (2 * s - 1)[:, None] * W, -(2 * s - 1) * t
        for rival in range(V.shape[1]):
            if rival != own:
                v = s * (V[:, own] - V[:, rival])
                margin = v @ t + c[own] - c[rival]
                best = min(best, least_distance(np.vstack([inside, -v @ W]), np.append(side, margin)))
    return best


def classified(net: ScoreNet, num_points: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Random points, and the classes that a network takes them for."""
    x = torch.from_numpy(rng.normal(size=(num_points, net.W.shape[1])))
    with torch.no_grad():
        return x, net(x).argmax(dim=1)


def truths_held(bracket: RadiusBracket, net: ScoreNet, x: Tensor, own: Tensor) -> list[float]:
    """The true radii of a ReLU network, after asserting that they lie in the bracket and that the checker grants its proofs."""
    weights = [t.detach().numpy() for t in (net.W, net.b, net.V, net.c)]
    truths = [true_radius(*weights, point.numpy(), int(label)) for point, label in zip(x, own, strict=True)]
    assert (bracket.certified.numpy() <= np.array(truths) * (1 + SURE)).all()
    assert (bracket.attacked.numpy() >= np.array(truths) * (1 - SURE)).all()
    granted = verified_radii(Scores(*weights, 1.0), x.numpy(), own.numpy(), bracket.proofs(), 2)
    assert (granted >= bracket.certified.numpy()).all()
    return truths
