"""Linear relaxations of one hidden layer (CROWN), for ℓ2 and ℓ∞, on the cells of a tree of cuts.

On the cell of a leaf lines lie below the supporting neurons and above the others; for τ, ν ≥ 0 every δ of the cell then has

    τ g ≥ τ g - Σ ν_floor (t - floor) - Σ ν_ceiling (ceiling - t) ≥ h + ⟨v, δ⟩ ≥ h - lost,

for ℓ2 lost = radius·‖v‖, for ℓ∞ Σ_i max(v_i down_i, -v_i up_i), down_i and up_i the room of δ_i. Where that is positive nothing of
the cell flips. All parameters are free: a bad choice proves little, never something false.
Source: Zhang et al., Efficient neural network robustness certification with general activation functions, 2018.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from featureprism.checker.cells import (
    OF_LINES,
    Cell,
    Tree,
    between,
    encloses,
    half,
    leaves,
    refuse_malformed,
    whole_ball,
)
from featureprism.checker.enclosed import Enclosed, down, enclosed, gamma, outward, up, where
from featureprism.checker.power_bounds import line_above, line_below
from featureprism.checker.scaled import Problem, is_array, refuse_unless, scaled_by

NEWTON_STEPS = 8  # towards the radius of a leaf; without a box one is enough
SHARES = (
    1.0,
    1 - 1e-14,
    1 - 1e-12,
    1 - 1e-9,
    1 - 1e-6,
    0.999,
    0.9,
    0.5,
)  # of it, until one holds with all roundings
Bounds = tuple[float | np.ndarray, float | np.ndarray]  # lower and upper, for all coordinates or for each


def room(x: np.ndarray, reach: float, bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """(d,) Floats above the way from a point to the lower and upper bounds, none above the reach."""
    lower, upper = (np.broadcast_to(np.asarray(b, dtype=np.float64), x.shape) for b in bounds)
    inside = bool(((lower <= x) & (x <= upper)).all())
    refuse_unless(is_array(x, x.shape) and inside, "a point within its bounds")
    return np.minimum(up(x - lower), reach), np.minimum(up(upper - x), reach)


@dataclass(frozen=True, eq=False)
class Room:
    """Floats above the way from a point to the lower and upper faces of its box, in scaled lengths, at most the reach."""

    below: np.ndarray
    above: np.ndarray

    @classmethod
    def around(cls, x: np.ndarray, reach: float, bounds: Bounds, length: int) -> "Room":
        """Of the point x; lengths are divided by 2^length."""
        return cls(*(scaled_by(side, -length) for side in room(x, reach, bounds)))

    def within(self, radius: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(down, up) of all perturbations up to a radius."""
        return np.minimum(self.below, radius), np.minimum(self.above, radius)


def proven_by_lines(tree: Tree, problem: Problem, room: Room | None) -> float:
    """The radius below which no perturbation flips the label, as far as the tree proves it (0: nothing). Scaled, like the tree.

    ℓ∞ with a room, ℓ2 without.
    """
    refuse_malformed(tree, problem, OF_LINES)
    every = list(cells_of_lines(tree, problem, room))
    if not all(encloses(leaf, cell) for leaf, cell in every):
        return 0.0
    found = [_line(leaf, cell, problem) for leaf, cell in every]
    if not found:  # the cuts leave nothing of the ball
        return problem.radius
    along = Enclosed(*(np.array([getattr(line, side) for line, _ in found]) for side in ("mid", "rad")))
    W = problem.network.neurons
    unknown = gamma(len(W)) * np.abs(along.mid) + along.rad
    v = Enclosed(along.mid @ W, outward(unknown @ np.abs(W), len(W)))  # (leaves, d)
    h = np.array([least for _, least in found])
    if room is None:
        return _least_in_ball(h, v, problem.radius)
    return _least_in_box(h, v, problem.radius, room)


def cells_of_lines(tree: Tree, problem: Problem, room: Room | None) -> Iterator[tuple[Tree, Cell]]:
    """The leaves of a tree over the ball, or over the box of a room, each with its cell."""
    return leaves(tree, whole_ball(problem) if room is None else whole_box(problem, room), half)


def whole_box(problem: Problem, room: Room) -> Cell:
    """Where t may be for ‖δ‖_∞ ≤ problem.radius in the room."""
    W, (below, above) = problem.network.neurons, room.within(problem.radius)
    rising, falling, n = np.maximum(W, 0), np.maximum(-W, 0), W.shape[1] * 2
    least = outward(rising @ below + falling @ above, n)
    most = outward(rising @ above + falling @ below, n)
    return between(down(problem.c.low - least), up(problem.c.high + most))


def _line(leaf: Tree, cell: Cell, problem: Problem) -> tuple[Enclosed, float]:
    """What the line of a leaf makes of each t, and a float below h."""
    p, own = problem.network.p, problem.own
    below, touched = line_below(np.where(own, leaf["line"], 0.0), p)
    offset = line_above(leaf["line"], leaf["low"], leaf["high"], p)
    has_floor, has_ceiling = np.isfinite(cell.floor), np.isfinite(cell.ceiling)
    nu_floor = np.where(has_floor, leaf["nu_floor"], 0)
    nu_ceiling = np.where(has_ceiling, leaf["nu_ceiling"], 0)
    vote = enclosed(leaf["tau"]) * problem.vote
    along = vote * where(own, below, leaf["line"]) - nu_floor + nu_ceiling
    h = (along * problem.c + vote * where(own, -touched, offset)).sum()
    h = h + (enclosed(nu_floor) * np.where(has_floor, cell.floor, 0)).sum()
    h = h - (enclosed(nu_ceiling) * np.where(has_ceiling, cell.ceiling, 0)).sum()
    return along, float(h.low)


def _least_in_ball(h: np.ndarray, v: Enclosed, most: float) -> float:
    """The largest r ≤ most with h > r‖v‖ on all leaves, rounded down; 0 where there is none."""
    size = v.size
    lengths = up(np.sqrt(outward((size * size).sum(axis=1), size.shape[1])))
    radii = down(down(h / lengths))
    return float(min(most, radii.min())) if (radii > 0).all() else 0.0


def _least_in_box(h: np.ndarray, v: Enclosed, most: float, room: Room) -> float:
    """Some r ≤ most with h > Σ_i max(v_i down_i, -v_i up_i) on all leaves: the candidates of Newton's method, if they hold; else 0."""
    falls, rises = np.maximum(v.high, 0), np.maximum(-v.low, 0)

    def lost(r: np.ndarray) -> np.ndarray:
        below, above = room.within(r)
        terms = np.maximum(up(falls * below), up(rises * above))
        return outward(terms.sum(axis=1), terms.shape[1])

    r = np.zeros((len(h), 1))
    for _ in range(NEWTON_STEPS):  # no rounding is counted on the way
        rate = np.maximum(falls * (room.below > r), rises * (room.above > r)).sum(axis=1)
        r[:, 0] = np.minimum(r[:, 0] + np.maximum(h - lost(r), 0) / np.maximum(rate, 1e-300), most)
    for share in SHARES:
        if (h > lost(share * r)).all():
            return float(share * r.min())
    return 0.0
