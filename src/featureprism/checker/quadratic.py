"""Quadratic scores: weak duality for the nearest point that another class wins.

The margin of two classes is g(x + δ) = g + ⟨b, δ⟩ - ½ δᵀQδ. For every λ ≥ 0 a perturbation with g(x + δ) ≤ 0 has
‖δ‖² ≥ ‖δ‖² + λ g(x + δ) = L(δ), and where I - ½λQ ⪰ m > 0 this is convex: L(δ) ≥ L(δ₀) - ‖∇L(δ₀)‖²/(4m) whatever δ₀ is. So λ, δ₀ and
the eigenvectors of Q may come from anywhere; only these two sentences are computed with their rounding. With the best λ the bound is
the radius itself (one quadratic constraint has no duality gap). Source: Boyd & Vandenberghe, Convex Optimization, Appendix B.1.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from featureprism.checker.enclosed import Enclosed, U, down, enclosed, gamma, outward, unit, up
from featureprism.checker.scaled import is_array, is_weights, refuse_unless

HALVINGS = 120  # of the multiplier: 60 back to where it started, and all its digits
DOUBLINGS = 60  # of its upper end, where nothing else ends it
BELOW = 1 - 1e-7  # share of the largest multiplier with a convex L
BEYOND = (
    0.0,
    1e-12,
    1e-10,
    1e-8,
    1e-6,
    1e-4,
)  # by these shares a witness is made longer until it surely flips


class Margin(NamedTuple):
    """Q of two classes with its eigenvectors, which nobody trusts, and a proven bound of its largest eigenvalue."""

    Q: Enclosed  # (d, d)
    v: Enclosed  # (d,)
    offset: Enclosed
    values: np.ndarray  # (d,)
    vectors: np.ndarray  # (d, d), columns
    largest: float


class Spectrum(NamedTuple):
    """Q ≈ U diag(q) Uᵀ, with proven bounds of ‖Q - U diag(q) Uᵀ‖ and ‖UᵀU - I‖."""

    values: np.ndarray  # (d,)
    vectors: np.ndarray  # (d, d), columns
    away: float
    skew: float


class Nearest(NamedTuple):
    """For every point a lower bound of the radius, its multiplier, and a perturbation that surely flips, NaN where none was found."""

    radius: np.ndarray  # (n,)
    multiplier: np.ndarray  # (n,)
    delta: np.ndarray  # (n, d)


@dataclass(frozen=True, eq=False)
class QuadraticScores:
    """The score of class r is c_r + ⟨V_r, x⟩ - ½ xᵀA_r x, A_r symmetric."""

    A: np.ndarray  # (k, d, d)
    V: np.ndarray  # (k, d)
    c: np.ndarray  # (k,)

    def __post_init__(self) -> None:
        refuse_unless(isinstance(self.V, np.ndarray) and self.V.ndim == 2, "weights V (k, d)")
        k, d = self.V.shape
        refuse_unless(is_weights(self.V, (k, d)) and k > 1, "usual float64 V (k, d), k ≥ 2")
        refuse_unless(is_weights(self.c, (k,)), f"c as a finite float64 array ({k},)")
        refuse_unless(is_weights(self.A, (k, d, d)), f"A as a finite float64 array ({k}, {d}, {d})")
        refuse_unless(np.array_equal(self.A, self.A.transpose(0, 2, 1)), "symmetric matrices A")

    @property
    def num_classes(self) -> int:
        """k."""
        return len(self.c)

    @lru_cache(maxsize=4)  # noqa: B019 - each is as large as three matrices; whoever asks, asks pair by pair
    def margin(self, own: int, rival: int) -> Margin:
        """f_own - f_rival; every difference of weights is rounded once."""
        with np.errstate(all="ignore"):
            Q, v, offset = (_difference(t[own], t[rival]) for t in (self.A, self.V, self.c))
            refuse_unless(bool(np.isfinite(Q.mid).all()), "weights whose differences are finite")
            if own > rival:  # exactly -Q: the same eigenvectors serve
                turned = self.spectrum(rival, own)
                spectrum = turned._replace(values=-turned.values)
            else:
                spectrum = self.spectrum(own, rival)
            return Margin(Q, v, offset, spectrum.values, spectrum.vectors, _largest(spectrum))

    @lru_cache(maxsize=2)  # noqa: B019 - as above
    def spectrum(self, own: int, rival: int) -> "Spectrum":
        """Eigenvalues and eigenvectors of A_own - A_rival as they were found, and how far they are from being so."""
        Q = _difference(self.A[own], self.A[rival])
        values, vectors = _eigen(Q.mid)
        rebuilt = (enclosed(vectors) * values) @ vectors.T
        skew = enclosed(vectors.T) @ vectors - np.eye(len(values))
        return Spectrum(values, vectors, _frobenius(Q - rebuilt), _frobenius(skew))

    def radius(self, x: np.ndarray, own: int, rival: int, norm: float, multiplier: object) -> float:
        """A float below min{‖δ‖ : f_own ≤ f_rival at x + δ}, by the multiplier (1,); ‖δ‖₁ ≥ ‖δ‖₂ ≥ ‖δ‖_∞ ≥ ‖δ‖₂/√d."""
        refuse_unless(
            is_weights(x, self.V.shape[1:]), f"x as a float64 array {self.V.shape[1:]} of usual numbers"
        )
        good = isinstance(multiplier, np.ndarray) and is_array(multiplier, (1,)) and bool(multiplier[0] >= 0)
        refuse_unless(
            good and norm in (1, 2, np.inf), "one multiplier that is not negative, and the norm 1, 2 or inf"
        )
        assert isinstance(multiplier, np.ndarray)
        margin = self.margin(own, rival)
        with np.errstate(all="ignore"):
            at_x, slope = self._around(margin, x[None])
            delta = _steps(margin.values, slope.mid @ margin.vectors, multiplier) @ margin.vectors.T
            found = float(_lengths(_dual(margin, at_x, slope, multiplier, delta))[0])
        return found if norm < np.inf else float(down(found / up(np.sqrt(float(len(x))))))

    @staticmethod
    def _around(margin: Margin, x: np.ndarray) -> tuple[Enclosed, Enclosed]:
        """(n,) The margin at points (n, d), and (n, d) its gradient there."""
        qx = enclosed(x) @ margin.Q
        return margin.offset + _rows(enclosed(x) * margin.v) - 0.5 * _rows(x * qx), margin.v - qx

    def nearest(self, x: np.ndarray, own: int, rival: int) -> Nearest:
        """The bounds and the witnesses of many points (n, d) of one class, against one rival."""
        margin = self.margin(own, rival)
        with np.errstate(all="ignore"):
            at_x, slope = self._around(margin, x)
            multiplier, along = _solved(margin, at_x.mid, slope.mid)
            delta = _steps(margin.values, slope.mid @ margin.vectors, multiplier) @ margin.vectors.T
            radius = _lengths(_dual(margin, at_x, slope, multiplier, delta))
            return Nearest(radius, multiplier, _flips(margin, at_x, slope, along))


def _lengths(square: np.ndarray) -> np.ndarray:
    """Floats below the roots; 0 of what is no positive number."""
    radius = np.where(square > 0, down(np.sqrt(np.maximum(square, 0.0))), 0.0)
    return np.nan_to_num(radius, nan=0.0, posinf=0.0)


def _difference(a: Any, b: Any) -> Enclosed:
    value = np.asarray(a - b)
    return Enclosed(value, outward(unit() * np.abs(value)))


def _rows(terms: Enclosed) -> Enclosed:
    """The sum of every row."""
    n = np.shape(terms.mid)[1]
    rad = np.broadcast_to(terms.rad, np.shape(terms.mid))
    return Enclosed(terms.mid.sum(axis=1), outward((rad + gamma(n) * np.abs(terms.mid)).sum(axis=1), n))


def _eigen(Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    diagonal = np.diag(Q)
    if np.count_nonzero(Q) == np.count_nonzero(diagonal):
        return diagonal.copy(), np.eye(len(Q))
    return np.linalg.eigh(Q)


def _largest(found: Spectrum) -> float:
    """A float above the largest eigenvalue of Q: that of U diag(q) Uᵀ, U a little away from orthogonal, and ‖Q - U diag(q) Uᵀ‖ more."""
    top = float(found.values.max())
    bound = top * (1 + found.skew) if top > 0 else top * max(1 - found.skew, 0.0)
    return float(up(bound + 4 * U * abs(bound) + found.away))


def _frobenius(m: Enclosed) -> float:
    return float(up(np.sqrt(outward((m.size * m.size).sum(), m.mid.size))))


def _solved(margin: Margin, at_x: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """λ (n,) with g(x + δ(λ)) = 0, δ(λ) = -½λ (I - ½λQ)⁻¹ b, and δ(λ) (n, d): floats that nobody trusts.

    g(x + δ(λ)) falls as λ grows. Where it stays positive up to the largest λ, the rest is made along the first eigenvector.
    """
    q, beta = margin.values, slope @ margin.vectors
    top = max(margin.largest, 0.0)
    low, high = np.zeros(len(at_x)), _upper_end(q, beta, at_x, top)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        positive = _after(q, beta, at_x, middle) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    steps = _steps(q, beta, low)
    left = _after(q, beta, at_x, low)
    steps[:, -1 if q[-1] >= q[0] else int(q.argmax())] += _along_first(q, beta, steps, left)
    return low, steps @ margin.vectors.T


def _steps(q: np.ndarray, beta: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
    half = multiplier[:, None] / 2
    return -half * beta / (1 - half * q)


def _after(q: np.ndarray, beta: np.ndarray, at_x: np.ndarray, multiplier: np.ndarray) -> np.ndarray:
    steps = _steps(q, beta, multiplier)
    return at_x + (beta * steps).sum(axis=1) - 0.5 * (q * steps**2).sum(axis=1)


def _upper_end(q: np.ndarray, beta: np.ndarray, at_x: np.ndarray, top: float) -> np.ndarray:
    """The largest multiplier with a convex L, or one that is large enough."""
    most = np.full(len(at_x), BELOW * 2 / top if top > 0 else np.inf)
    found = np.minimum(2 * at_x / (beta**2).sum(axis=1).clip(1e-300), most)
    for _ in range(DOUBLINGS):
        found = np.where(_after(q, beta, at_x, found) > 0, np.minimum(2 * found, most), found)
    return found


def _along_first(q: np.ndarray, beta: np.ndarray, steps: np.ndarray, left: np.ndarray) -> np.ndarray:
    """The shortest way along the first eigenvector on which the margin loses what is left of it; 0 where nothing is."""
    first = -1 if q[-1] >= q[0] else int(q.argmax())
    slope = beta[:, first] - q[first] * steps[:, first]
    if q[first] <= 0:
        return np.zeros(len(left))
    root = np.sqrt(np.maximum(slope**2 + 2 * q[first] * np.maximum(left, 0.0), 0.0))
    way = 2 * np.maximum(left, 0.0) / (np.abs(slope) + root).clip(1e-300)
    return -np.where(slope >= 0, 1.0, -1.0) * way


def _dual(
    margin: Margin, at_x: Enclosed, slope: Enclosed, multiplier: np.ndarray, delta: np.ndarray
) -> np.ndarray:
    """A float below L(δ₀) - ‖∇L(δ₀)‖²/(4m), for every point."""
    column = multiplier[:, None]
    curved = enclosed(delta) @ margin.Q
    value = multiplier * (at_x + _rows(slope * delta) - 0.5 * _rows(delta * curved))
    value = value + _rows(enclosed(delta) * delta)
    gradient = column * slope + 2.0 * enclosed(delta) - column * curved
    convexity = down(1 - up(multiplier * margin.largest / 2)) * (1 - 4 * U)
    rest = _rows(Enclosed(gradient.size, np.zeros_like(delta)) * gradient.size).high / (4 * convexity)
    return np.where(convexity > 0, down(value.low - up(rest * (1 + 4 * U))), 0.0)


def _flips(margin: Margin, at_x: Enclosed, slope: Enclosed, delta: np.ndarray) -> np.ndarray:
    """δ, made longer until its enclosed margin is at most 0; NaN where it never is."""
    flips = np.full_like(delta, np.nan)
    for share in BEYOND:
        longer = delta * (1 + share)
        change = _rows(slope * longer) - 0.5 * _rows(longer * (enclosed(longer) @ margin.Q))
        surely = ((at_x + change).high <= 0) & np.isnan(flips[:, 0])
        flips[surely] = longer[surely]
    return flips
