"""The products of a quadratic proof as the interior-point method needs them: three for each neuron, never a matrix for each.

A neuron with values z in [low, high], h = [z]₊ and n = h - z has h n = 0, h (high - h) ≥ 0 and n (-low - n) ≥ 0, each measured in its
usual size; cuts add some affine functions that are not negative. With h a coordinate of its own all sums over products are products
of a few matrices.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from featureprism.checker.relaxations import Relaxation

SIDES = 3  # the kind of products of a box's sides, beside κ, τ and σ
DEEPEST = 4  # hidden layers that values are drawn through
SHARE = 0.2  # of its width: the least that a neuron's values are measured by
PAIRS = (("h", "n"), ("h", "a"), ("n", "b"))  # a = high - h, b = -low - n


@dataclass(frozen=True, eq=False)
class Products:
    """Multipliers come as κ, τ, σ of all neurons, then those of cuts; matrices are in coordinates of usual size."""

    usual: np.ndarray  # (1 + n, 1 + n) the matrix that gives (1, y) from numbers of usual size
    first: np.ndarray  # coordinates of the first layer's values
    place: np.ndarray  # (m,) the coordinate of h
    unit: np.ndarray  # (m,) and what one of it means
    z: np.ndarray  # (m, 1 + n)
    low: np.ndarray
    high: np.ndarray
    cuts: np.ndarray  # (q, 1 + n)
    ends: np.ndarray  # (q,)
    order: np.ndarray  # of the relaxation's products, where each of ours is

    @classmethod
    def of(cls, relaxed: Relaxation) -> "Products":
        """Read from a relaxation."""
        left, right, kind = relaxed.left.mid, relaxed.right.mid, relaxed.kind
        hinge = np.flatnonzero(kind == 0)
        is_cut = ((kind == 1) & ~np.isin(relaxed.neuron, relaxed.neuron[hinge])) | (kind == SIDES)
        above, under, cut = (np.flatnonzero(k) for k in ((kind == 1) & ~is_cut, kind == 2, is_cut))
        h, n = left[hinge], right[hinge]
        place = h.argmax(axis=1) if len(h) else np.zeros(0, dtype=int)
        first = np.flatnonzero(np.diagonal(relaxed.ball.mid)[1:] < 0) + 1
        high = np.maximum(right[above, 0], 1e-100)
        low = -np.maximum(right[under, 0] + n[:, 0], 1e-100)
        T = _usual(relaxed, first, place, np.maximum(high, SHARE * (high - low)))
        order = np.concatenate([hinge, above, under, cut])
        ends = np.maximum(right[cut, 0] + left[cut, 0], 1e-100)
        return cls(T, first, place, T[place, place], (h - n) @ T, low, high, left[cut] @ T, ends, order)

    @cached_property
    def above(self) -> np.ndarray:
        """What h (high - h) is divided by: not too little, for ellipsoids reach out of the region."""
        return np.maximum(self.high, SHARE * (self.high - self.low)) ** 2

    @cached_property
    def under(self) -> np.ndarray:
        """The same for n (-low - n)."""
        return np.maximum(-self.low, SHARE * (self.high - self.low)) ** 2

    @cached_property
    def positive(self) -> np.ndarray:
        """Which multipliers must be."""
        m = len(self.place)
        return np.concatenate([np.zeros(m, dtype=bool), np.ones(2 * m + len(self.cuts), dtype=bool)])

    def weights(self, theta: np.ndarray) -> np.ndarray:
        """The multipliers in the order, and in the units, of the relaxation."""
        m, result = len(self.place), np.empty(len(theta))
        size = np.concatenate([np.ones(m), self.above, self.under, self.ends**2])
        result[self.order] = theta / size
        return result

    def matrix(self, theta: np.ndarray) -> np.ndarray:
        """(1 + n, 1 + n) Σ θ_i product_i."""
        m = len(self.place)
        kappa, tau, sigma = theta[:m], theta[m : 2 * m] / self.above, theta[2 * m : 3 * m] / self.under
        of_cuts = theta[3 * m :] / self.ends**2
        result = self.z.T @ (-sigma[:, None] * self.z) - self.cuts.T @ (of_cuts[:, None] * self.cuts)
        mixed = np.zeros_like(result)
        mixed[self.place] = ((2 * sigma - kappa) * self.unit)[:, None] * self.z
        mixed[0] += (sigma * self.low) @ self.z + (of_cuts * self.ends) @ self.cuts
        mixed[0, self.place] += (tau * self.high - sigma * self.low) * self.unit
        result[self.place, self.place] += (kappa - tau - sigma) * self.unit**2
        return result + 0.5 * (mixed + mixed.T)

    def values(self, X: np.ndarray) -> np.ndarray:
        """What every product is worth on a symmetric matrix."""
        m, place = len(self.place), self.place
        zX = self.z @ X
        hh, h1, z1 = self.unit**2 * X[place, place], self.unit * X[place, 0], zX[:, 0]
        hz, zz = self.unit * zX[np.arange(m), place], (zX * self.z).sum(axis=1)
        above = (self.high * h1 - hh) / self.above
        under = (-self.low * (h1 - z1) - (hh - 2 * hz + zz)) / self.under
        cX = self.cuts @ X
        of_cuts = (self.ends * cX[:, 0] - (cX * self.cuts).sum(axis=1)) / self.ends**2
        return np.concatenate([hh - hz, above, under, of_cuts])

    def system(self, X: np.ndarray, P: np.ndarray) -> np.ndarray:
        """(N, N) tr(A_i X A_j P), A = (left rightᵀ + right leftᵀ)/2, block by block."""
        m, q = len(self.place), len(self.cuts)
        gx, gp = self._gram(X), self._gram(P)
        kinds = [*PAIRS, ("cut", "rest")]
        ends = [0, m, 2 * m, 3 * m, 3 * m + q]
        system = np.empty((ends[-1], ends[-1]))
        for i, (a, b) in enumerate(kinds):
            for j, (c, d) in enumerate(kinds[: i + 1]):
                block = gx[a, c] * gp[b, d] + gx[b, d] * gp[a, c] + gx[a, d] * gp[b, c] + gx[b, c] * gp[a, d]
                system[ends[i] : ends[i + 1], ends[j] : ends[j + 1]] = block
                system[ends[j] : ends[j + 1], ends[i] : ends[i + 1]] = block.T
        size = np.concatenate([np.ones(m), 1 / self.above, 1 / self.under, 1 / self.ends**2])
        return 0.25 * size[:, None] * system * size

    def _gram(self, X: np.ndarray) -> dict[tuple[str, str], np.ndarray]:
        """⟨left, X right⟩ of all kinds of factors."""
        place, unit = self.place, self.unit[:, None]
        zX = self.z @ X
        g = {
            ("one", "one"): X[:1, :1],
            ("h", "one"): unit * X[place, :1],
            ("z", "one"): zX[:, :1],
            ("h", "h"): unit * X[np.ix_(place, place)] * unit.T,
            ("h", "z"): (zX[:, place] * unit.T).T,
            ("z", "z"): zX @ self.z.T,
        }
        g["n", "one"] = g["h", "one"] - g["z", "one"]
        g["h", "n"] = g["h", "h"] - g["h", "z"]
        g["n", "n"] = g["h", "n"] - g["h", "z"].T + g["z", "z"]
        for far, near, others in (("a", "h", ("h", "n")), ("b", "n", ("h", "n", "a"))):
            end = (self.high if far == "a" else -self.low)[:, None]
            g[far, "one"] = end * X[0, 0] - g[near, "one"]
            for other in (*others, far):
                mirrored = g[near, other] if (near, other) in g else g[other, near].T
                g[far, other] = end * g[other, "one"].T - mirrored
        cX = self.cuts @ X
        g["cut", "one"], g["cut", "cut"] = cX[:, :1], cX @ self.cuts.T
        g["cut", "h"], g["cut", "z"] = cX[:, place] * unit.T, cX @ self.z.T
        g["cut", "n"] = g["cut", "h"] - g["cut", "z"]
        g["cut", "a"] = g["cut", "one"] * self.high - g["cut", "h"]
        g["cut", "b"] = -g["cut", "one"] * self.low - g["cut", "n"]
        end = self.ends[:, None]
        g["cut", "rest"] = g["cut", "one"] * end.T - g["cut", "cut"]
        g["rest", "one"] = end * X[0, 0] - g["cut", "one"]
        for other in ("h", "n", "a", "b", "rest"):
            g["rest", other] = (
                end * (g["rest", "one"] if other == "rest" else g[other, "one"]).T - g["cut", other]
            )
        return g | {(b, a): v.T for (a, b), v in g.items() if (b, a) not in g}

    def activate(self, usual: np.ndarray) -> None:
        """Set the coordinates h of points, in usual units, to [z]₊ in place, layer after layer."""
        for _ in range(DEEPEST):
            usual[:, self.place] = np.maximum(usual @ self.z.T, 0) / self.unit


def _usual(relaxed: Relaxation, first: np.ndarray, place: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(1 + n, 1 + n) The first layer from the ellipsoid's centre in its axes, neurons in their own size."""
    ball, T = relaxed.ball.mid, np.eye(len(relaxed.margin.mid))
    inner = ball[np.ix_(first, first)]
    centre = -np.linalg.solve(inner, ball[first, 0])
    square = max(float(ball[0, 0] + ball[0, first] @ centre), 1e-300)
    T[first, 0] = centre
    T[np.ix_(first, first)] = np.sqrt(square) * np.linalg.inv(np.linalg.cholesky(-inner)).T
    T[place, place] = np.maximum(size, 1e-12)
    return T
