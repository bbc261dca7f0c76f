"""Lipschitz bounds, which need no parameters, every number enclosed with its rounding."""

import numpy as np

from featureprism.checker.enclosed import LIBRARY, Enclosed, down, enclosed, outward, up
from featureprism.checker.scaled import Problem, is_array, refuse_unless, scaled_by


def lipschitz_radius(problem: Problem) -> float:
    """g(x)/L for p = 1, scaled: ∇g = Σ_j s_j vote_j w_j with 0 ≤ s ≤ 1, so ‖∇g‖² ≤ L² = Σ_ij [vote_i vote_j ⟨w_i, w_j⟩]₊."""
    if problem.network.p != 1:
        return 0.0
    vote = problem.vote
    products = enclosed(vote[:, None]) * problem.network.gram * vote
    L = up(np.sqrt(_sum_above(np.maximum(products.high, 0))))
    # [c]₊ is known as well as c
    margin = (enclosed(vote) * Enclosed(np.maximum(problem.c.mid, 0), problem.c.rad)).sum().low
    return float(down(margin / L)) if margin > 0 else 0.0


def _sum_above(terms: np.ndarray) -> float:
    """A float above the sum of numbers that are not negative, each of one rounding."""
    return outward(terms.sum(), terms.size)


def readout_radius(
    W: np.ndarray, labels: np.ndarray, x: np.ndarray, y: float, kind: str = "log-sum-exp"
) -> float:
    """y f(x)/L for f = LSE_{J₊} f_j - LSE_{J₋} f_j or the maxima, f_j(x) = (1/h) Σ_r [⟨w_jr, x⟩]₊, W (k, h, d), rounded down.

    ∇f is a mean over own groups j minus a mean over other groups l of (1/h) Σ_r s_r w_r, 0 ≤ s ≤ 1, so ‖∇f‖² ≤ L² =
    max_{j,l} (A_j + A_l + 2 C_jl), A_j = (1/h²) Σ [⟨w_jr, w_jr'⟩]₊ and C_jl = (1/h²) Σ [-⟨w_jr, w_lr'⟩]₊.
    The weights are divided by a power of two, and the logits multiplied by it: f itself has no scale.
    """
    refuse_unless(
        isinstance(W, np.ndarray) and W.ndim == 3 and is_array(W, W.shape), "finite float64 W (k, h, d)"
    )
    refuse_unless(is_array(x, W.shape[2:]) and y in (-1, 1), "a finite float64 point and a label -1 or +1")
    k, h, d = W.shape
    refuse_unless(is_array(labels, (k,)) and {*labels} == {-1.0, 1.0}, "labels -1 and +1, both of them")
    exponent = int(np.frexp(np.abs(W).max())[1])
    flat = scaled_by(W, -exponent).reshape(k * h, d)
    gram = enclosed(flat) @ flat.T
    blocks = [
        v.reshape(k, h, k, h).sum(axis=(1, 3)) for v in (np.maximum(gram.high, 0), np.maximum(-gram.low, 0))
    ]
    along, against = (outward(v, h * h) for v in blocks)
    own, other = labels == y, labels != y
    squares = along.diagonal()[own][:, None] + along.diagonal()[other] + 2 * against[np.ix_(own, other)]
    L = up(up(np.sqrt(outward(squares.max()))) / h)
    t = enclosed(flat) @ x
    groups = Enclosed(np.maximum(t.mid, 0), t.rad)
    means = [groups[j * h : (j + 1) * h].sum() * np.ldexp(1.0, exponent) for j in range(k)]
    low, high = (np.array([getattr(m, side) for m in means]) / h for side in ("low", "high"))
    refuse_unless(kind in ("log-sum-exp", "max"), f"a read-out that it knows, not {kind}")
    if kind == "max":
        margin = enclosed(down(low[own]).max()) - up(high[other]).max()
    else:
        margin = enclosed(_log_sum_exp(down(low[own]), -1.0)) - _log_sum_exp(up(high[other]), 1.0)
    radius = np.ldexp(down(margin.low / L), -exponent) if margin.low > 0 else 0.0
    return max(0.0, float(down(radius)))


def _log_sum_exp(logits: np.ndarray, side: float) -> float:
    """A float below (side -1) or above (side 1) log Σ exp: max + log Σ exp(l - max), the sum between 1 and k."""
    largest = logits.max()
    gaps = enclosed(logits) - largest
    # exp(a + b) = exp(a)(1 + θ), |θ| ≤ 2|b| for |b| ≤ 1; exp falls to 0 before the rounding of a gap matters
    terms = np.exp(gaps.mid) * (1 + side * (2 * np.minimum(gaps.rad, 0.5) + LIBRARY))
    total = terms.sum() * (1 + side * 4 * (len(terms) + 8) * 2.0**-53)
    logarithm = Enclosed(np.log(np.maximum(total, 1.0)), LIBRARY * (1 + len(terms)))
    result = enclosed(largest) + logarithm
    return result.high if side > 0 else result.low
