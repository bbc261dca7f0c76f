"""The truth for small ReLU networks: on an activation pattern the margin is affine, the nearest flip a least-distance problem."""

from itertools import product

import numpy as np
from scipy.optimize import nnls


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
