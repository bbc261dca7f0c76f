"""Quadratic inequalities of several layers of ReLU over a region, as matrices that enclose every rounding (see deep.py)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from featureprism.checker.enclosed import Enclosed, down, enclosed, outward, up
from featureprism.checker.layers import Layers, Neurons, Region

RIDGE = 1e-10  # relative, of the first layer's Gram matrix before it is inverted: any would be sound


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Matrices of quadratic forms of (1, y): the margin, the ball, and products left ∘ right of affine functions, one for each row."""

    margin: Enclosed  # (1 + n,) an affine function
    ball: Enclosed  # (1 + n, 1 + n)
    left: Enclosed  # (N, 1 + n)
    right: Enclosed  # (N, 1 + n)
    kind: np.ndarray  # (N,) which multiplier it has: 0 κ, 1 τ, 2 σ
    neuron: np.ndarray  # (N,) and of which hidden neuron

    def weights(self, multipliers: dict[str, Any]) -> np.ndarray:
        """(N,) The multipliers of the products."""
        table = np.stack([multipliers[name] for name in ("kappa", "tau", "sigma")])
        return table[self.kind, self.neuron]

    def form(self, multipliers: dict[str, Any]) -> Enclosed:
        """The matrix of L."""
        products = transposed(self.left) @ (self.right * self.weights(multipliers)[:, None])
        n = len(self.margin.mid)
        first = np.zeros((n, 1))
        first[0] = 1.0
        linear = enclosed(first) * Enclosed(self.margin.mid[None], self.margin.rad[None])
        total = linear - enclosed(multipliers["ball"]) * self.ball - products
        return 0.5 * (total + transposed(total))


def transposed(matrix: Enclosed) -> Enclosed:
    """Aᵀ."""
    return Enclosed(matrix.mid.T, np.broadcast_to(matrix.rad, matrix.mid.shape).T)


def relaxation(
    model: Layers,
    x: np.ndarray,
    pair: tuple[int, int],
    region: Region,
    known: list[Neurons],
    signs: dict[int, float],
    side: np.ndarray,
) -> Relaxation | None:
    """The relaxation of f_own - f_rival over a region; None where the ellipsoid of `side` is none, or not known well enough."""
    used = first_values(model, known, signs)
    first = _first_layer(model, x, used)
    forms = _Forms(model, known, first)
    s0, s = side[0] if region.norm == 2 else 0.0, side[1:]
    inner = _ball(region, s0, s) if used is None else _ball_of_values(model, x, region, s0, s, used)
    if inner is None:
        return None
    count = first.mid.shape[1]
    ball = enclosed(np.zeros((forms.size, forms.size)))
    ball.mid[:count, :count], ball.rad[:count, :count] = inner.mid, inner.rad
    own, rival = pair
    margin = forms.affine(*model.margins(own), len(known))[rival]
    left, right, kind, neuron = forms.products(signs)
    return Relaxation(margin, ball, left, right, kind, neuron)


def first_values(model: Layers, known: list[Neurons], signs: dict[int, float]) -> np.ndarray | None:
    """The neurons of the first layer whose values y holds: those that may be on, and those that a cut speaks of.

    Of neurons with the same weights, or with weights of the opposite sign, y holds the first alone: the values of the others follow
    exactly. None where these are more than the inputs: then y holds the perturbation in their place.
    """
    matters = known[0].high > 0
    matters[[j for j in signs if j < len(matters)]] = True
    used = np.unique(model.parallel[0][matters])
    return used if len(used) <= model.weights[0].shape[1] else None


def _first_layer(model: Layers, x: np.ndarray, used: np.ndarray | None) -> Enclosed:
    """The first layer's values as affine functions of some of them, or of the perturbation; zeros where they do not matter."""
    W, b = model.weights[0], model.biases[0]
    if used is None:
        c = enclosed(W) @ x + b
        return Enclosed(
            np.concatenate([c.mid[:, None], W], axis=1),
            np.concatenate([c.rad[:, None], np.zeros_like(W)], axis=1),
        )
    leader, sign = model.parallel
    known = np.flatnonzero(np.isin(leader, used))
    z = enclosed(np.zeros((len(W), 1 + len(used))))
    z.mid[known, 1 + np.searchsorted(used, leader[known])] = sign[known]
    offset = enclosed(b[known]) - sign[known] * b[leader[known]]  # 0 for the first ones themselves
    z.mid[known, 0], z.rad[known, 0] = offset.mid, np.where(leader[known] == known, 0.0, offset.rad)
    return z


class _Forms:
    """Affine functions of y as rows (1 + n,): the constant, the first layer's values or the perturbation, unstable neurons."""

    def __init__(self, model: Layers, known: list[Neurons], first: Enclosed) -> None:
        self.known, self.starts = known, np.concatenate([[0], np.cumsum(model.widths)])
        place = first.mid.shape[1]
        self.size = place + sum(int(layer.unstable.sum()) for layer in known)
        z = enclosed(np.zeros((model.widths[0], self.size)))
        z.mid[:, :place], z.rad[:, :place] = first.mid, first.rad
        self.z, self.h = [z], []
        for k, layer in enumerate(known):
            h = Enclosed(
                np.where(layer.active[:, None], self.z[k].mid, 0.0),
                np.where(layer.active[:, None], self.z[k].rad, 0.0),
            )
            count = int(layer.unstable.sum())
            h.mid[layer.unstable, place + np.arange(count)] = 1.0
            place += count
            self.h.append(h)
            if k + 1 < len(known):
                self.z.append(
                    self.affine(enclosed(model.weights[k + 1]), enclosed(model.biases[k + 1]), k + 1)
                )

    def affine(self, rows: Enclosed, offset: Enclosed, layer: int) -> Enclosed:
        """rows·h + offset, h of the layer before."""
        result = rows @ self.h[layer - 1]
        constant = np.zeros((len(rows.mid), self.size))
        constant[:, 0] = 1.0
        return (
            result
            + Enclosed(offset.mid[:, None], np.broadcast_to(offset.rad, offset.mid.shape)[:, None]) * constant
        )

    def products(self, signs: dict[int, float]) -> tuple[Enclosed, Enclosed, np.ndarray, np.ndarray]:
        """h n = 0, h (high - h) ≥ 0, n (-low - n) ≥ 0 of unstable neurons; c (end - c) ≥ 0, c = ±z ≤ end, where a cut says so (τ)."""
        left, right, kind, neuron = [], [], [], []

        def add(a: Enclosed, b: Enclosed, which: int, j: np.ndarray) -> None:
            left.append(a)
            right.append(b)
            kind.append(np.full(len(j), which))
            neuron.append(j)

        for k, layer in enumerate(self.known):
            some = np.flatnonzero(layer.unstable)
            z, h, number = self.z[k][some], self.h[k][some], self.starts[k] + some
            n = h - z
            add(h, n, 0, number)
            add(h, self._constants(layer.high[some]) - h, 1, number)
            add(n, self._constants(-layer.low[some]) - n, 2, number)
            cut = np.array([j for j in signs if self.starts[k] <= j < self.starts[k + 1]], dtype=int)
            if len(cut):
                place, toward = cut - self.starts[k], np.array([signs[j] for j in cut])
                kept = self.z[k][place] * toward[:, None]
                end = np.where(toward > 0, layer.high[place], -layer.low[place])
                add(kept, self._constants(end) - kept, 1, cut)
        stack = [
            Enclosed(np.concatenate([e.mid for e in part]), np.concatenate([e.rad for e in part]))
            for part in (left, right)
        ]
        return stack[0], stack[1], np.concatenate(kind), np.concatenate(neuron)

    def _constants(self, values: np.ndarray) -> Enclosed:
        rows = np.zeros((len(values), self.size))
        rows[:, 0] = values
        return enclosed(rows)


def _ball(region: Region, s0: float, s: np.ndarray) -> Enclosed:
    """The matrix of s₀(radius² - ‖δ‖²) + Σ s_i (δ_i - low_i)(high_i - δ_i), a form of (1, δ) that is not negative in the region."""
    low, high = enclosed(region.low), enclosed(region.high)
    linear, squares = 0.5 * (enclosed(s) * (low + high)), -(enclosed(s) + s0)
    corner = enclosed(s0) * region.radius * region.radius - (enclosed(s) * low * high).sum()
    ball = enclosed(np.zeros((1 + len(s), 1 + len(s))))
    for place, entries in (((0, 0), corner), ((0, slice(1, None)), linear), ((slice(1, None), 0), linear)):
        ball.mid[place], ball.rad[place] = entries.mid, entries.rad
    every = np.arange(1, 1 + len(s))
    ball.mid[every, every], ball.rad[every, every] = squares.mid, squares.rad
    return ball


def _ball_of_values(
    model: Layers, x: np.ndarray, region: Region, s0: float, s: np.ndarray, used: np.ndarray
) -> Enclosed | None:
    """The matrix of ρ² - ‖R(z - z_c)‖², ρ the ellipsoid's radius, a form of (1, z) that is not negative in the region.

    The ellipsoid: Σ D_i (δ_i - c_i)² ≤ s₀ radius² - Σ s_i low_i high_i + Σ D_i c_i², D = s₀ + s, c = s (low + high)/(2D). With G =
    W D⁻¹ Wᵀ every R has ‖R W δ‖² ≤ ‖R G Rᵀ‖ Σ D_i δ_i²; the norm of a symmetric matrix is at most its largest sum of a row, and R is
    divided by its root. Then ‖R W δ‖² ≤ Σ D_i δ_i²: a form of (1, δ) with the ellipsoid itself is positive wherever this one is.
    """
    D = enclosed(s) + s0
    if not (D.low > 0).all():
        return None
    inverse = Enclosed(1 / D.mid, outward(D.rad / (D.mid * D.low) + 2.0**-52 / D.mid))
    low, high = enclosed(region.low), enclosed(region.high)
    c = 0.5 * (enclosed(s) * (low + high)) * inverse
    square = (
        enclosed(s0) * region.radius * region.radius - (enclosed(s) * low * high).sum() + (D * c * c).sum()
    )
    W = model.weights[0][used]
    centre = enclosed(W) @ (enclosed(x) + c) + model.biases[0][used]
    G = (enclosed(W) * Enclosed(inverse.mid[None], inverse.rad[None])) @ W.T
    try:
        ridge = RIDGE * np.trace(G.mid) / max(1, len(used)) * np.eye(len(used))
        R = np.linalg.inv(np.linalg.cholesky(G.mid + ridge))
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(R).all():
        return None
    stretch = (enclosed(R) @ G @ R.T).size
    longest = float(outward(stretch.sum(axis=1), len(stretch)).max(initial=0.0))
    moved = enclosed(R) @ centre
    forms = Enclosed(
        np.concatenate([-moved.mid[:, None], R], axis=1),
        np.concatenate([moved.rad[:, None], np.zeros_like(R)], axis=1),
    )
    if longest > 0:
        forms = forms * down(1 / up(np.sqrt(longest)))
    corner = np.zeros((1 + len(used), 1 + len(used)))
    corner[0, 0] = square.high
    return enclosed(corner) - transposed(forms) @ forms
