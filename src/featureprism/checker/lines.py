"""The checker's word on ℓ∞ trees: a network that lies below y f (see scaled.py), cells of cuts, and lines on each.

Perturbations have |δ_i| ≤ r, and in a box lo ≤ x_i + δ_i ≤ hi. On the cell of a leaf lines lie below the own neurons and above the
others; for τ, ν ≥ 0 every δ of the cell then has

    τ g ≥ τ g - Σ ν_floor (t - floor) - Σ ν_ceiling (ceiling - t) ≥ h + ⟨v, δ⟩ ≥ h - Σ_i max(v_i down_i, -v_i up_i),

down_i and up_i the room of δ_i. Where that is positive nothing of the cell flips. All parameters are free: a bad choice proves
little, never something false.
"""

from dataclasses import dataclass

import numpy as np

from featureprism.checker.cells import Cell, Tree, between, half, leaves, refuse_malformed
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


@dataclass(frozen=True, eq=False)
class Room:
    """Floats above the way from a point to the lower and upper faces of its box, in scaled lengths (infinite: no box)."""

    below: np.ndarray
    above: np.ndarray

    @classmethod
    def around(cls, x: np.ndarray, box: tuple[float, float], length: int) -> "Room":
        """Of the point x in the box (lo, hi); lengths are divided by 2^length."""
        lo, hi = box
        refuse_unless(
            is_array(x, x.shape) and bool(((lo <= x) & (x <= hi)).all()), f"x between {lo} and {hi}"
        )
        point = scaled_by(x, -length)
        faces = [np.ldexp(face, -length) for face in (lo, hi)]
        refuse_unless(all(np.ldexp(f, length) == face for f, face in zip(faces, box, strict=True)), "a box")
        return cls(up(point - faces[0]), up(faces[1] - point))

    def within(self, radius: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(down, up) of all perturbations up to a radius."""
        return np.minimum(self.below, radius), np.minimum(self.above, radius)


def proven_box_radius(tree: Tree, problem: Problem, room: Room) -> float:
    """The ℓ∞ radius below which no perturbation flips the label, as far as the tree proves it (0: nothing). Scaled, like the tree."""
    refuse_malformed(tree, problem)
    found = [_line(leaf, cell, problem) for leaf, cell in leaves(tree, whole_box(problem, room), half)]
    if not found:  # the cuts leave nothing of the ball
        return problem.radius
    along = Enclosed(*(np.array([getattr(line, side) for line, _ in found]) for side in ("mid", "rad")))
    W = problem.network.neurons
    unknown = gamma(len(W.T)) * np.abs(along.mid) + along.rad
    v = Enclosed(along.mid @ W, outward(unknown @ np.abs(W), len(W)))  # (leaves, d)
    return _least_radius(np.array([h for _, h in found]), v, problem.radius, room)


def whole_box(problem: Problem, room: Room) -> Cell:
    """Where t may be for perturbations up to problem.radius."""
    W, (below, above) = problem.network.neurons, room.within(problem.radius)
    rising, falling, n = np.maximum(W, 0), np.maximum(-W, 0), W.shape[1] * 2
    least = outward(rising @ below + falling @ above, n)
    most = outward(rising @ above + falling @ below, n)
    return between(down(problem.c.low - least), up(problem.c.high + most))


def _line(leaf: Tree, cell: Cell, problem: Problem) -> tuple[Enclosed, float]:
    """What the line of a leaf makes of each t, and a float below h."""
    p, own = problem.network.p, problem.own
    below, touched = line_below(leaf["slope"], p)
    offset, chord = line_above(cell.low, cell.high, p)
    has_floor, has_ceiling = np.isfinite(cell.floor), np.isfinite(cell.ceiling)
    nu_floor = np.where(has_floor, leaf["nu_floor"], 0)
    nu_ceiling = np.where(has_ceiling, leaf["nu_ceiling"], 0)
    vote = enclosed(leaf["tau"]) * problem.vote
    along = vote * where(own, below, chord) - nu_floor + nu_ceiling
    h = (along * problem.c + vote * where(own, -touched, offset)).sum()
    h = h + (enclosed(nu_floor) * np.where(has_floor, cell.floor, 0)).sum()
    h = h - (enclosed(nu_ceiling) * np.where(has_ceiling, cell.ceiling, 0)).sum()
    return along, float(h.low)


def _least_radius(h: np.ndarray, v: Enclosed, most: float, room: Room) -> float:
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
