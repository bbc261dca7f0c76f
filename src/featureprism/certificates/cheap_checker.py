"""The checker's word on the two bounds that need no parameters: Lipschitz and CROWN, in numpy, rounded outward."""

import math

import numpy as np

UNIT = 2.0**-53


def lipschitz_radius(W, b, weight, p, x, y) -> float:
    """y f(x)/L for p = 1, L² = Σ max(weight_i weight_j ⟨w_i, w_j⟩, 0), rounded down."""
    eps = 8 * (W.shape[1] + len(W) ** 2) * UNIT
    terms = weight * np.maximum(W @ x + b, 0)
    norm = np.abs(weight) * np.linalg.norm(W, axis=1)
    L = math.sqrt(np.maximum(weight[:, None] * (W @ W.T) * weight, 0).sum() + eps * norm.sum() ** 2)
    margin = y * terms.sum() - eps * np.abs(weight) @ (np.abs(W) @ np.abs(x) + np.abs(b))
    return max(0.0, margin / L * (1 - eps)) if p == 1 and L > 0 else 0.0


def crown_proves(radius, dual, W, b, weight, p, x, y) -> bool:
    """Whether lines below own neurons and chords above the others keep y f > 0 on the ball (dual norm 2 for ℓ2, 1 for ℓ∞)."""
    eps = 8 * (W.shape[1] + len(W) + 16) * UNIT
    t, vote = W @ x + b, y * weight
    r = radius * np.linalg.norm(W, ord=dual, axis=1) * (1 + eps) + eps * (np.abs(W) @ np.abs(x) + np.abs(b))
    low, high, phi = t - r, t + r, lambda t: np.maximum(t, 0) ** p
    chord = (phi(high) - phi(low)) / np.maximum(high - low, 1e-300)
    below = np.where((high > -low) | (low >= 0), 1.0, 0.0) if p == 1 else p * np.maximum(t, 0) ** (p - 1)
    offset = 0 * t if p == 1 else -(p - 1) * np.maximum(t, 0) ** p
    slope, offset = np.where(vote > 0, below, chord), np.where(vote > 0, offset, phi(low) - chord * low)
    least = vote @ (slope * t + offset) - radius * np.linalg.norm((vote * slope) @ W, ord=dual)
    sizes = np.abs(vote) @ (slope * (np.abs(t) + r) + np.abs(offset) + phi(high)) + radius * np.abs(
        vote * slope
    ) @ np.abs(W).sum(axis=1)
    return bool(least > eps * sizes)


def readout_radius(W, labels, x, y) -> float:
    """y f(x)/L for f = LSE_{J₊} f_j - LSE_{J₋} f_j, f_j(x) = (1/h) Σ_r [⟨w_jr, x⟩]₊, W (k, h, d), rounded down.

    ∇f is a mean over own groups j minus a mean over other groups l of (1/h) Σ_r s_r w_r, 0 ≤ s ≤ 1, so ‖∇f‖² ≤ L² =
    max_{j,l} (A_j + A_l + 2 C_jl), A_j = (1/h²) Σ [⟨w_jr, w_jr'⟩]₊ and C_jl = (1/h²) Σ [-⟨w_jr, w_lr'⟩]₊.
    """
    k, h, d = W.shape
    eps = 8 * (d + k * h + 16) * UNIT
    flat = W.reshape(k * h, d)
    gram = (flat @ flat.T).reshape(k, h, k, h).transpose(0, 2, 1, 3) / h**2  # (k, k, h, h)
    own, other = labels == y, labels != y
    A = np.maximum(gram, 0).sum(axis=(2, 3))[np.arange(k), np.arange(k)]
    C = np.maximum(-gram, 0).sum(axis=(2, 3))
    squares = A[own][:, None] + A[other] + 2 * C[np.ix_(own, other)]
    sizes = (np.linalg.norm(W, axis=2).sum(axis=1) / h).max() ** 2
    L = math.sqrt(squares.max() + 4 * eps * sizes)
    logits = np.maximum(W @ x, 0).mean(axis=1)
    groups = logits[own], logits[other]
    lse = [v.max() + math.log(np.exp(v - v.max()).sum()) for v in groups]
    rounding = eps * (2 * (np.abs(W) @ np.abs(x)).mean(axis=1).max() + abs(lse[0]) + abs(lse[1]) + 2)
    return max(0.0, (lse[0] - lse[1] - rounding) / L * (1 - eps)) if L > 0 else 0.0
