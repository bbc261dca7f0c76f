"""The proof checker: believes nothing of the search that found a certificate, and shares no code with it.

For f(x) = Σ_j weight_j [⟨w_j, x⟩ + b_j]₊^p, a point x with label y and a perturbation δ, ‖δ‖ ≤ reach, let t_j = ⟨w_j, x+δ⟩ + b_j.
Neurons with weight·y > 0 are bounded below by a line σt - φ*(σ), the others above by a quadratic q ≥ φ valid on the range of
t_j in the cell. If I - τ Σ A_j q2_j w_j w_jᵀ is positive definite, every flipping δ of the cell has ½‖δ‖² ≥ D (weak duality).
"""

import math

import numpy as np

UNIT = 2.0**-53


def proven_radius(tree, reach, W, b, weight, p, x, y) -> float:
    """The radius below which no perturbation of x flips its label, as far as the tree of cells proves it (0: nothing)."""
    c, norm = W @ x + b, np.linalg.norm(W, axis=1)
    eps = 8 * (W.shape[1] + len(W) + 16) * UNIT  # relative error of any sum below, generously
    slack = eps * (np.abs(W) @ np.abs(x) + np.abs(b) + norm * reach)
    span = norm * reach + slack
    free = np.full_like(c, np.inf)
    gram, size, own = W @ W.T, np.abs(weight), weight * y > 0
    if float(np.sum(weight * np.maximum(c, 0) ** p) * y) <= 0:
        return 0.0

    def cell(leaf, low, high, floor, ceiling) -> float:
        tau, slope, centre, kappa = leaf["tau"], leaf["slope"], leaf["centre"], leaf["kappa"]
        nu_floor = np.where(np.isfinite(floor), leaf["nu_floor"], 0.0)
        nu_ceiling = np.where(np.isfinite(ceiling), leaf["nu_ceiling"], 0.0)
        legal = tau >= 0 and (nu_floor >= 0).all() and (nu_ceiling >= 0).all() and (slope[own] >= 0).all()
        if not legal or (p == 1 and (slope[own] > 1).any()) or not np.isfinite([tau, *slope[own]]).all():
            return 0.0
        line = (
            np.zeros_like(slope)
            if p == 1
            else (p - 1) * (np.maximum(slope, 0) / p) ** (p / (p - 1)) * (1 + eps)
        )
        q0, q1, q2 = above(centre, kappa, low, high, p, eps)
        e = np.where(own, 0.0, tau * size * q2)
        gamma = tau * size * np.where(own, slope, -q1) - nu_floor + nu_ceiling
        terms = [-tau * size * np.where(own, line, q0), _times(nu_floor, floor), -_times(nu_ceiling, ceiling)]
        g, curved = gamma - e * c, e > 0
        root = np.sqrt(e[curved])
        S = np.eye(curved.sum()) - root[:, None] * gram[np.ix_(curved, curved)] * root
        mu = _least_eigenvalue(S, eps * (np.trace(np.eye(len(S))) + float(np.sum(e * norm**2))))
        if mu <= 0 or not np.isfinite(gamma).all() or not np.isfinite(S).all():
            return 0.0
        z = root * (gram[curved] @ g)
        s = np.linalg.solve(S, z)
        inverse = 2 * z @ s - s @ S @ s + np.sum((z - S @ s) ** 2) / mu
        value = sum(float(v.sum()) for v in terms) + gamma @ c - e @ c**2 / 2 - g @ gram @ g / 2 - inverse / 2
        sizes = sum(float(np.abs(v).sum()) for v in terms) + np.abs(gamma) @ (np.abs(c) + slack / eps)
        sizes += e @ (np.abs(c) + slack / eps) ** 2 + float(np.abs(g) @ norm) ** 2 + z @ z
        value -= eps * sizes / min(1.0, mu) ** 2
        return math.sqrt(2 * value) * (1 - eps) if value > 0 else 0.0

    def walk(node, low, high, floor, ceiling) -> float:
        if "cut" not in node:
            return cell(node, low, high, floor, ceiling)
        j, v = node["cut"], node["value"]
        kappa = gram[j] / max(norm[j] ** 2, 1e-300)
        rest = np.sqrt(np.maximum(norm**2 - kappa**2 * norm[j] ** 2, 0) + eps * norm**2)
        at = (v - c[j]) / max(norm[j], 1e-300)
        half = (
            rest * math.sqrt(max(reach**2 - at**2, 0.0) + eps * reach**2)
            + slack
            + eps * np.abs(kappa * (v - c[j]))
        )
        middle, peak = c + kappa * (v - c[j]), kappa * norm[j] / np.maximum(norm, 1e-300) * reach
        results = []
        for side, child in ((-1.0, node["below"]), (1.0, node["above"])):
            lo, hi, fl, ce = low.copy(), high.copy(), floor.copy(), ceiling.copy()
            # t_i is largest at `peak` along w_j; if the cut takes that away, the largest value left is on the cut itself
            hi = np.where(side * (peak - at) < 0, np.minimum(hi, middle + half), hi)
            lo = np.where(side * (-peak - at) < 0, np.maximum(lo, middle - half), lo)
            if side > 0:
                fl[j], lo[j] = max(fl[j], v), max(lo[j], v)
            else:
                ce[j], hi[j] = min(ce[j], v), min(hi[j], v)
            results.append(walk(child, lo, np.maximum(hi, lo), fl, ce))
        return min(results)

    return min(walk(tree, c - span, c + span, -free, free), reach)


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


def above(centre, kappa, low, high, p, eps):
    """Coefficients of a quadratic above [t]₊^p on [low, high]: tangent at `centre`, or with `kappa` through both ends (centre NaN)."""
    phi, slope = (
        lambda t: np.maximum(t, 0) ** p,
        lambda t: p * np.where(t > 0, np.maximum(t, 1e-300) ** (p - 1), 0.0),
    )
    curve = lambda t: p * (p - 1) * np.maximum(t, 1e-300) ** (p - 2)  # noqa: E731
    c = np.maximum(np.minimum(np.nan_to_num(centre, nan=1.0), high), 1e-12)
    worst = high if p > 2 else np.clip((1 - 2 / p) * c, low, high)
    gap, far = worst - c, np.abs(worst - c) > 1e-3 * c
    safe = np.where(far, gap, 1.0)
    mean = (
        2 * (phi(worst) - phi(c) - slope(c) * gap) / safe**2
        + 1e-9 * (phi(worst) + phi(c) + slope(c) * np.abs(gap)) / safe**2
    )
    near = (
        curve(np.maximum(worst, c)) if p > 2 else curve(np.minimum(worst, c))
    )  # φ'' rises for p > 2, falls for p < 2
    k = np.maximum(np.where(far, mean, near), 0) * (1 + eps)
    tangent = phi(c) - slope(c) * c + k * c**2 / 2, slope(c) - k * c, k
    width = np.maximum(high - low, 1e-12)
    limit = (
        np.maximum(2 * (phi(high) - phi(low) - slope(low) * width) / width**2, 0) * (1 - 1e-9)
        if p >= 2
        else 0 * low
    )
    k = np.minimum(np.maximum(kappa, 0), limit)
    chord = (phi(high) - phi(low)) / width
    ends = phi(low) - chord * low + k * low * high / 2, chord - k * (low + high) / 2, k
    lift = eps * (phi(np.abs(low)) + phi(np.abs(high)) + slope(np.abs(high) + np.abs(low)) * width)
    picked = [np.where(np.isnan(centre), e, t) for t, e in zip(tangent, ends, strict=True)]
    picked[0] = picked[0] + lift
    return [np.where(high <= 0, 0.0, q) for q in picked]


def _times(nu, bound):
    return np.where(np.isfinite(bound), nu * np.where(np.isfinite(bound), bound, 0.0), 0.0)


def _least_eigenvalue(S, rounding) -> float:
    """A number below every eigenvalue of S: a guess, granted if Cholesky succeeds after subtracting it and the rounding; else 0."""
    if not len(S) or not np.isfinite(S).all():
        return float(not len(S))
    mu = 0.5 * float(np.linalg.eigvalsh(S)[0])
    try:
        np.linalg.cholesky(S - (mu + rounding) * np.eye(len(S)))
    except np.linalg.LinAlgError:
        return 0.0
    return mu
