"""The proof checker: believes nothing of the search that found a certificate, and shares no code with it.

f(x) = Σ_j weight_j φ(t_j), φ(t) = [t]₊^p, t_j = ⟨w_j, x+δ⟩ + b_j, ‖δ‖ ≤ reach. Neurons with weight·y > 0 are bounded below by a
line σt - φ*(σ), the others above by a quadratic q ≥ φ valid on the range of t_j in the cell. If I - τ Σ A_j q2_j w_j w_jᵀ is
positive definite, flipping δ have ½‖δ‖² ≥ D (weak duality). Bounds are lowered by `eps` times the sizes of all that was summed.
"""

import numpy as np


def proven_radius(tree, reach, W, b, weight, p, x, y) -> float:
    """The radius below which no perturbation of x flips its label, as far as the tree of cells proves it (0: nothing)."""
    eps = 8 * (W.shape[1] + len(W) + 16) * 2.0**-53
    c, norm, gram = W @ x + b, np.linalg.norm(W, axis=1), W @ W.T
    slack = eps * (np.abs(W) @ np.abs(x) + np.abs(b) + norm * reach)
    free, span, facts = np.full_like(c, np.inf), norm * reach + slack, (c, norm, gram, slack, eps)
    cells = _leaves(tree, (c - span, c + span, -free, free), reach, *facts)
    size, own = np.abs(weight), weight * y > 0
    return min(reach, *(_cell_radius(leaf, cell, size, own, p, *facts) for leaf, cell in cells))


def _leaves(node, cell, reach, c, norm, gram, slack, eps):
    """Every leaf with what its cuts imply for all t_j: (low, high), and the cuts themselves: (floor, ceiling)."""
    if "cut" not in node:
        yield node, cell
        return
    j, shift = node["cut"], node["value"] - c[node["cut"]]
    kappa, at = gram[j] / max(norm[j] ** 2, 1e-300), shift / max(norm[j], 1e-300)
    rest = np.sqrt(np.maximum(norm**2 - kappa**2 * norm[j] ** 2, 0) + eps * norm**2)
    half = rest * np.sqrt(max(reach**2 - at**2, 0.0) + eps * reach**2) + slack + eps * np.abs(kappa * shift)
    middle, peak = c + kappa * shift, kappa * norm[j] / np.maximum(norm, 1e-300) * reach
    for side, child in ((-1.0, "below"), (1.0, "above")):
        low, high, floor, ceiling = (v.copy() for v in cell)
        # t_i is largest at `peak` along w_j; if the cut takes that away, the largest value left is on the cut itself
        high = np.where(side * (peak - at) < 0, np.minimum(high, middle + half), high)
        low = np.where(side * (-peak - at) < 0, np.maximum(low, middle - half), low)
        for bound in (floor, low) if side > 0 else (ceiling, high):
            bound[j] = side * max(side * bound[j], side * node["value"])
        part = low, np.maximum(high, low), floor, ceiling
        yield from _leaves(node[child], part, reach, c, norm, gram, slack, eps)


def _cell_radius(leaf, cell, size, own, p, c, norm, gram, slack, eps) -> float:
    """√(2D) for the multipliers of one leaf, rounded down; 0 if they are not legal or the form is not positive definite."""
    tau, slope = leaf["tau"], np.where(own, leaf["slope"], 0.0)
    cuts = {"nu_floor": cell[2], "nu_ceiling": -cell[3]}  # both as t ≥ floor and -t ≥ -ceiling
    nus = [np.where(np.isfinite(v), leaf[name], 0.0) for name, v in cuts.items()]
    multipliers = np.concatenate([[tau], slope, *nus])
    if not (np.isfinite(multipliers).all() and (multipliers >= 0).all()) or (p == 1 and (slope > 1).any()):
        return 0.0
    line = 0 * slope if p == 1 else (p - 1) * (slope / p) ** (p / (p - 1)) * (1 + eps)
    q0, q1, q2 = above(leaf["centre"], leaf["kappa"], cell[0], cell[1], p, eps)
    e, gamma = np.where(own, 0.0, tau * size * q2), tau * size * np.where(own, slope, -q1) - nus[0] + nus[1]
    held = [nu * np.where(np.isfinite(v), v, 0.0) for nu, v in zip(nus, cuts.values(), strict=True)]
    terms, g, curved = [-tau * size * np.where(own, line, q0), *held], gamma - e * c, e > 0
    root = np.sqrt(e[curved])
    S = np.eye(len(root)) - root[:, None] * gram[np.ix_(curved, curved)] * root
    mu = _least_eigenvalue(S, eps * (len(S) + float(np.sum(e * norm**2))))
    if mu <= 0 or not np.isfinite(gamma).all():
        return 0.0
    s = np.linalg.solve(S, z := root * (gram[curved] @ g))
    inverse = 2 * z @ s - s @ S @ s + np.sum((z - S @ s) ** 2) / mu  # ≥ zᵀS⁻¹z, whatever the solver's error
    value = sum(float(v.sum()) for v in terms) + gamma @ c - e @ c**2 / 2 - g @ gram @ g / 2 - inverse / 2
    sizes = sum(float(np.abs(v).sum()) for v in terms) + np.abs(gamma) @ (np.abs(c) + slack / eps)
    sizes += e @ (np.abs(c) + slack / eps) ** 2 + float(np.abs(g) @ norm) ** 2 + z @ z
    proven = value - eps * sizes / min(1.0, mu) ** 2
    return float(np.sqrt(2 * proven) * (1 - eps)) if proven > 0 else 0.0  # NaN proves nothing


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


def above(centre, kappa, low, high, p, eps):
    """A quadratic (q0, q1, q2) above [t]₊^p on [low, high]: tangent at `centre`, or with `kappa` through both ends (centre NaN)."""
    phi, slope = lambda t: np.maximum(t, 0) ** p, lambda t: p * (t > 0) * np.maximum(t, 1e-300) ** (p - 1)
    c = np.maximum(np.minimum(np.nan_to_num(centre, nan=1.0), high), 1e-12)
    worst = high if p > 2 else np.clip((1 - 2 / p) * c, low, high)
    gap = np.where(far := np.abs(worst - c) > 1e-3 * c, worst - c, 1.0)
    rise, sizes = phi(worst) - phi(c) - slope(c) * gap, phi(worst) + phi(c)
    mean = ((2 + 1e-9) * rise + 1e-9 * sizes) / gap**2
    steepest = (np.maximum if p > 2 else np.minimum)(worst, c).clip(1e-300)  # φ'' rises for p > 2, else falls
    k = np.maximum(np.where(far, mean, p * (p - 1) * steepest ** (p - 2)), 0) * (1 + eps)
    ends, width = np.isnan(centre), np.maximum(high - low, 1e-12)
    most = np.maximum(2 * (phi(high) - phi(low) - slope(low) * width) / width**2, 0) * (1 - 1e-9) * (p >= 2)
    k = np.where(ends, np.clip(kappa, 0, most), k)
    chord = np.where(ends, (phi(high) - phi(low)) / width, slope(c))
    q0 = np.where(ends, phi(low) - chord * low + k * low * high / 2, phi(c) - chord * c + k * c**2 / 2)
    lift = eps * (phi(np.abs(low)) + phi(np.abs(high)) + slope(np.abs(high) + np.abs(low)) * width)
    q = q0 + lift, chord - k * np.where(ends, (low + high) / 2, c), k
    return [np.where(high <= 0, 0.0, v) for v in q]
