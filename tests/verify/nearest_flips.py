"""The truth for small networks, by ways that share nothing with the search: all linear pieces one by one, or a global solver.

A network that is linear in pieces is a list of steps. Its pieces are walked in depth: every piece of every neuron adds linear
constraints on δ, and the least norm under the constraints so far prunes what cannot be nearer than the best flip. For powers of
neurons and for quadratic scores SCIP minimises the norm under a polynomial constraint.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog, nnls

scip = pytest.importorskip("pyscipopt")
GAP = 1e-4  # relative, of the solver

HALF_LINES = {  # (from, to, slope, offset) of every piece
    "relu": lambda _: ((-inf, 0, 0, 0), (0, inf, 1, 0)),
    "leaky": lambda a: ((-inf, 0, a, 0), (0, inf, 1, 0)),
    "hardtanh": lambda _: ((-inf, -1, 0, -1), (-1, 1, 1, 0), (1, inf, 0, 1)),
    "relu6": lambda _: ((-inf, 0, 0, 0), (0, 6, 1, 0), (6, inf, 0, 6)),
}


@dataclass(frozen=True, eq=False)
class Affine:
    """W z + b."""

    W: np.ndarray
    b: np.ndarray


@dataclass(frozen=True)
class Pieces:
    """An activation that is linear in pieces, at every coordinate."""

    kind: str
    slope: float = 0.0

    @property
    def parts(self) -> tuple[tuple[float, float, float, float], ...]:
        return HALF_LINES[self.kind](self.slope)


class Keep:
    """Remember the present vector."""


class Add:
    """Add the vector that was remembered."""


Step = Affine | Pieces | Keep | Add


@dataclass(frozen=True, eq=False)
class _Node:
    """Linear constraints Gδ ≥ g on the way, and the shortest δ that meets them."""

    G: np.ndarray
    g: np.ndarray
    delta: np.ndarray
    norm: float

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.delta, ord=self.norm))

    def cut(self, row: np.ndarray, level: float) -> "_Node | None":
        """With ⟨row, δ⟩ ≥ level as well; None where nothing is left."""
        G, g = np.vstack([self.G, row]), np.append(self.g, level)
        if row @ self.delta >= level:
            return _Node(G, g, self.delta, self.norm)
        delta = shortest_l2(G, g) if self.norm == 2 else shortest_linf(G, g)
        return None if delta is None else _Node(G, g, delta, self.norm)


def shortest_l2(G: np.ndarray, g: np.ndarray) -> np.ndarray | None:
    """argmin ‖δ‖₂ s.t. Gδ ≥ g. Source: Lawson & Hanson, Solving Least Squares Problems, 1974, ch. 23."""
    scale = np.linalg.norm(np.column_stack([G, g]), axis=1).clip(1e-300)
    G, g = G / scale[:, None], g / scale
    E = np.vstack([G.T, g])
    f = np.append(np.zeros(G.shape[1]), 1.0)
    u, _ = nnls(E, f, maxiter=2000)
    r = E @ u - f
    delta = -r[:-1] / r[-1] if r[-1] < -1e-14 else None
    return delta if delta is not None and (G @ delta >= g - 1e-8).all() else None


def shortest_linf(G: np.ndarray, g: np.ndarray) -> np.ndarray | None:
    """argmin ‖δ‖∞ s.t. Gδ ≥ g, a linear programme in (δ, r)."""
    d = G.shape[1]
    within = np.vstack([np.hstack([sign * np.eye(d), -np.ones((d, 1))]) for sign in (1, -1)])
    A = np.vstack([np.hstack([-G, np.zeros((len(G), 1))]), within])
    found = linprog(
        np.append(np.zeros(d), 1.0),
        A_ub=A,
        b_ub=np.append(-g, np.zeros(2 * d)),
        bounds=[(None, None)] * (d + 1),
    )
    return found.x[:d] if found.status == 0 else None


def nearest_flip(
    steps: list[Step], x: np.ndarray, label: int, norm: float, bounds: tuple[float, float] | None
) -> float:
    """The least norm of a δ with another score at least that of the label, inf if there is none."""
    d = len(x)
    node = _Node(np.zeros((0, d)), np.zeros(0), np.zeros(d), norm)
    for row, value in zip(np.eye(d), x, strict=True) if bounds is not None else ():
        node = node.cut(row, bounds[0] - value).cut(-row, value - bounds[1])  # type: ignore[index]
    return _walk(steps, node, np.eye(d), x, label, inf, None)


def _walk(
    steps: list[Step], node: _Node, A: np.ndarray, o: np.ndarray, label: int, best: float, kept: Any
) -> float:
    """The least norm of a flip below a node, or `best`; the present vector is Aδ + o."""
    if not steps:
        for target in set(range(len(o))) - {label}:
            flip = node.cut(A[target] - A[label], o[label] - o[target])
            best = min(best, flip.length) if flip is not None else best
        return best
    step, rest = steps[0], steps[1:]
    match step:
        case Affine(W, b):
            return _walk(rest, node, W @ A, W @ o + b, label, best, kept)
        case Keep():
            return _walk(rest, node, A, o, label, best, (A, o))
        case Add():
            return _walk(rest, node, A + kept[0], o + kept[1], label, best, None)
        case Pieces():
            return _branch(step, rest, node, (A, o), 0, label, best, kept)


def _branch(
    step: Pieces, rest: list[Step], node: _Node, at: Any, neuron: int, label: int, best: float, kept: Any
) -> float:
    """The same, with the pieces of one neuron after the other; those that hold the present δ come first."""
    A, o = at
    if neuron == len(o):
        return _walk(rest, node, A, o, label, best, kept)
    row, offset, children = A[neuron], o[neuron], []
    for low, high, slope, shift in step.parts:
        part: _Node | None = node
        if np.isfinite(low):
            part = part.cut(row, low - offset)
        if part is not None and np.isfinite(high):
            part = part.cut(-row, offset - high)
        if part is not None:
            children.append((part.length, slope, shift, part))
    for length, slope, shift, part in sorted(children, key=lambda child: child[0]):
        if length < best:
            B, p = A.copy(), o.copy()
            B[neuron], p[neuron] = slope * row, slope * offset + shift
            best = _branch(step, rest, part, (B, p), neuron + 1, label, best, kept)
    return best


Margin = Callable[[Any, list], Any]  # (SCIP's model, its variables δ) to an expression


def solved_radius(
    margins: list[Margin], x: np.ndarray, norm: float, bounds: tuple[float, float] | None, reach: float
) -> tuple[float, list[np.ndarray]]:
    """SCIP's lower bound of the least norm of a δ with a margin ≤ 0 up to `reach`, and the δ that it found, one for each margin."""
    least, found = inf, []
    for margin in margins:
        model = scip.Model()
        model.hideOutput()
        model.setParam("limits/gap", GAP)
        model.setParam("limits/time", 20)
        low, high = (np.full_like(x, side) for side in (-reach, reach))
        if bounds is not None:
            low, high = np.maximum(low, bounds[0] - x), np.minimum(high, bounds[1] - x)
        delta = [model.addVar(lb=a, ub=b) for a, b in zip(low, high, strict=True)]
        radius = model.addVar(lb=0, ub=reach)
        if norm == 2:
            model.addCons(scip.quicksum(v * v for v in delta) <= radius * radius)
        else:
            for v in delta:
                model.addCons(v <= radius)
                model.addCons(-v <= radius)
        model.addCons(margin(model, delta) <= 0)
        model.setObjective(radius)
        model.optimize()
        if model.getStatus() != "infeasible":
            least = min(least, model.getDualbound())
        if model.getNSols():
            found.append(np.array([model.getVal(v) for v in delta]))
    return least, found


def hinge(model: Any, t: Any, size: float) -> Any:
    """max(t, 0) for an expression with |t| ≤ size."""
    h, on = model.addVar(lb=0, ub=size), model.addVar(vtype="B")
    model.addCons(h >= t)
    model.addCons(h <= t + size * (1 - on))
    model.addCons(h <= size * on)
    return h
