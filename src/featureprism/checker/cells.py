"""Quadratic relaxations of one hidden layer in a ball, on the cells of a tree of cuts.

Below y f lies g = Σ_j vote_j φ(t_j), φ(t) = [t]₊^p, t = c + Wδ (see scaled.py). A proof is a tree of cuts t_j ≤ value, t_j ≥ value. On
the cell of each leaf quadratics lie below φ (l, tangent with a given slope) and above it (q): g ≥ Σ_own A l(t) - Σ_other A q(t). For
multipliers τ, ν ≥ 0 every δ of the cell with g ≤ 0 then has

    ½‖δ‖² ≥ ½‖δ‖² + τ g + Σ ν_floor (floor - t) + Σ ν_ceiling (t - ceiling) ≥ F(δ) = ½‖δ‖² + Σ γ_j t_j - ½ Σ e_j t_j² + constant,

because what was added is not positive. The least value of F bounds ½‖δ‖² for all that flip. All parameters are free: a bad choice
proves little, never something false. The quadratics are those of power_bounds.py; every number is enclosed with its rounding
(see enclosed.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from featureprism.checker.enclosed import Enclosed, down, enclosed, outward, up, where
from featureprism.checker.power_bounds import quadratic_above, quadratic_below
from featureprism.checker.scaled import Problem, is_array, refuse_unless

PARAMETERS = (
    "low",
    "high",
    "line",
    "centre",
    "kappa",
    "nu_floor",
    "nu_ceiling",
)  # of a leaf, one number for each neuron
OF_LINES = ("low", "high", "line", "nu_floor", "nu_ceiling")  # of a leaf whose relaxation is linear
SIGNED = ("low", "high", "line", "centre")  # parameters that may be negative
MOST_CUTS, DEEPEST = 100_000, 5_000  # of a tree: a cut inside itself would never end
AT_ONCE = 64  # leaves whose quadratics are found together
NEARLY_TANGENT = 2.0**-50  # relative: a cut that only touches the ball gets a large multiplier, none infinite
Tree = dict[str, Any]
Quadratic = tuple[Any, ...]  # (q0, q1, q2)


@dataclass(frozen=True, eq=False)
class Cell:
    """Cuts t ≥ floor and t ≤ ceiling (infinite where there is none), and low ≤ t ≤ high, which they imply inside the ball."""

    low: np.ndarray
    high: np.ndarray
    floor: np.ndarray
    ceiling: np.ndarray


def proven_radius(tree: Tree, problem: Problem) -> float:
    """The radius below which no perturbation flips the label, as far as the tree proves it (0: nothing). Scaled, like the tree.

    Who flips beyond problem.radius is no concern of the tree; who flips within it lies in the cell of some leaf.
    """
    refuse_malformed(tree, problem)
    return min([problem.radius, *leaf_radii(cells_of(tree, problem), problem)])


def cells_of(tree: Tree, problem: Problem) -> Iterator[tuple[Tree, Cell]]:
    """The leaves of a tree over the ball of problem.radius, each with its cell."""
    return leaves(tree, whole_ball(problem), partial(tightened, problem))


def whole_ball(problem: Problem) -> Cell:
    """Where t may be: |t - c| ≤ ‖w‖‖δ‖."""
    span = up(problem.network.norm * problem.radius)
    return between(down(problem.c.low - span), up(problem.c.high + span))


def refuse_malformed(tree: Tree, problem: Problem, names: tuple[str, ...] = PARAMETERS) -> None:
    """A ValueError unless every node is a cut with both its sides, or a leaf with all its parameters."""
    waiting, cuts = [(tree, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        refuse_unless(isinstance(node, dict), "a tree of dictionaries")
        if "cut" not in node:
            _refuse_malformed_leaf(node, problem, names)
            continue
        cuts, j, value = cuts + 1, node["cut"], node.get("value")
        refuse_unless(depth < DEEPEST and cuts < MOST_CUTS, f"at most {MOST_CUTS} cuts, {DEEPEST} deep")
        refuse_unless(type(j) is int and 0 <= j < len(problem.vote), f"a cut at one of the neurons, not {j}")
        refuse_unless(isinstance(value, float) and bool(np.isfinite(value)), f"a finite cut, not {value}")
        refuse_unless("below" in node and "above" in node, "both sides of every cut")
        waiting += [(node["below"], depth + 1), (node["above"], depth + 1)]


def _refuse_malformed_leaf(leaf: Tree, problem: Problem, names: tuple[str, ...]) -> None:
    """Parameters must be there and finite; for p = 1 only slopes between 0 and 1 lie below φ, else tangents touch at a point ≥ 0."""
    tau, shape = leaf.get("tau"), problem.vote.shape
    refuse_unless(isinstance(tau, float) and 0 <= tau < np.inf, f"a finite tau ≥ 0, not {tau}")
    for name in names:
        refuse_unless(is_array(leaf.get(name), shape), f"{name} as a finite float64 array {shape}")
        refuse_unless(name in SIGNED or bool((leaf[name] >= 0).all()), f"{name} without negative numbers")
    lines = leaf["line"][problem.own]
    refuse_unless(bool((lines >= 0).all()), "lines below that do not fall")
    refuse_unless(problem.network.p > 1 or bool((lines <= 1).all()), "slopes up to 1 for p = 1")


def encloses(leaf: Tree, cell: Cell) -> bool:
    """Whether the bounds that a leaf stores enclose those of its cell; NaN encloses nothing."""
    return bool((leaf["low"] <= cell.low).all() and (cell.high <= leaf["high"]).all())


def between(low: np.ndarray, high: np.ndarray) -> Cell:
    """The cell without cuts."""
    free = np.full(len(low), np.inf)
    return Cell(low, high, -free, free)


def leaves(
    tree: Tree, whole: Cell, part: Callable[[Cell, int, float, float], Cell]
) -> Iterator[tuple[Tree, Cell]]:
    """All leaves whose cells are not empty, each with its cell; part(cell, j, value, side) is where side·(t_j - value) ≥ 0."""
    waiting = [(tree, whole)]
    while waiting:
        node, cell = waiting.pop()
        if (cell.low > cell.high).any():
            continue
        if "cut" not in node:
            yield node, cell
            continue
        for side, child in ((-1.0, "below"), (1.0, "above")):
            waiting.append((node[child], part(cell, node["cut"], node["value"], side)))


def half(cell: Cell, j: int, value: float, side: float) -> Cell:
    """The part of a cell where side·(t_j - value) ≥ 0."""
    low, high, floor, ceiling = (v.copy() for v in (cell.low, cell.high, cell.floor, cell.ceiling))
    if side > 0:
        floor[j], low[j] = max(floor[j], value), max(low[j], value)
    else:
        ceiling[j], high[j] = min(ceiling[j], value), min(high[j], value)
    return Cell(low, high, floor, ceiling)


def tightened(problem: Problem, cell: Cell, j: int, value: float, side: float) -> Cell:
    """The same part in the ball of problem.radius, with the bounds of all neurons drawn tighter.

    For all λ ≥ 0, ±t_i ≤ ±t_i + λ side (t_j - value) ≤ ±c_i + λ side (c_j - value) + radius·‖±w_i + λ side w_j‖.
    """
    c, bounds = problem.c, []
    for sign in (-1.0, 1.0):
        lean = side * _multiplier(problem, j, value, side, sign)
        farthest = enclosed(problem.radius) * _lengths(problem, j, sign * lean)
        bounds.append(sign * c + lean * (c[j] - value) + farthest)
    low, high = np.maximum(cell.low, -bounds[0].high), np.minimum(cell.high, bounds[1].high)
    return half(Cell(low, high, cell.floor, cell.ceiling), j, value, side)


def _lengths(problem: Problem, j: int, lean: np.ndarray) -> np.ndarray:
    """Floats above ‖w_i + lean_i w_j‖, from its square."""
    gram = problem.network.gram
    square = problem.network.squares + 2 * lean * gram[j] + (lean * gram[j, j]) * lean
    return up(np.sqrt(np.maximum(square.high, 0)))


def _multiplier(problem: Problem, j: int, value: float, side: float, sign: float) -> np.ndarray:
    """The best λ ≥ 0 up to rounding: the one at which the farthest point lies on the cut, at distance `at` from the centre."""
    gram, radius = problem.network.gram.mid, problem.radius
    norm, kappa = np.sqrt(gram[j, j]), gram[j] / gram[j, j]
    rest = np.sqrt(np.maximum(gram.diagonal() - kappa * gram[j], 0))  # ‖w_i - κ w_j‖
    at = (value - problem.c.mid[j]) / norm
    beside = radius * np.sqrt(max(1 - (at / radius) ** 2, NEARLY_TANGENT))
    best = side * (rest * at / (norm * beside) - sign * kappa)
    return np.where(np.isfinite(best), np.maximum(best, 0), 0.0)


def leaf_radii(every: Iterator[tuple[Tree, Cell]], problem: Problem) -> Iterator[float]:
    """The radius that each leaf proves."""
    p = problem.network.p
    while some := list(islice(every, AT_ONCE)):
        low, high, line, centre, kappa = (
            np.stack([leaf[name] for leaf, _ in some]) for name in PARAMETERS[:5]
        )
        below = quadratic_below(np.where(problem.own, line, 0.0), low, high, p)
        above = quadratic_above(line, centre, kappa, low, high, p)
        for i, (leaf, cell) in enumerate(some):
            quadratics = (tuple(part[i] for part in q) for q in (below, above))
            yield _leaf_radius(leaf, cell, problem, *quadratics) if encloses(leaf, cell) else 0.0


def _leaf_radius(leaf: Tree, cell: Cell, problem: Problem, below: Quadratic, above: Quadratic) -> float:
    """√(2 min F), rounded down; 0 where F is not proven convex.

    F is quadratic with curvature I - Σ e_j w_j w_jᵀ ≥ μ, so min F ≥ F(δ) - ‖∇F(δ)‖²/(2μ) at any δ = -Wᵀη, where t = c - Kη,
    K = WWᵀ, ‖δ‖² = ηᵀKη and ∇F = Wᵀ(γ - e∘t - η).
    """
    own, size, tau, c = problem.own, np.abs(problem.vote), leaf["tau"], problem.c
    (l0, l1, l2), (q0, q1, q2) = below, above
    has_floor, has_ceiling = np.isfinite(cell.floor), np.isfinite(cell.ceiling)
    nu_floor = np.where(has_floor, leaf["nu_floor"], 0)
    nu_ceiling = np.where(has_ceiling, leaf["nu_ceiling"], 0)
    weight = enclosed(tau) * size
    gamma = weight * where(own, l1, -q1) - nu_floor + nu_ceiling
    constant = (weight * where(own, l0, -q0)).sum()
    constant += (enclosed(nu_floor) * np.where(has_floor, cell.floor, 0)).sum()
    constant -= (enclosed(nu_ceiling) * np.where(has_ceiling, cell.ceiling, 0)).sum()
    # rounded up: -½ e t² only falls
    e = np.where(own, np.minimum(-(weight * l2).low, 0), np.where(q2 == 0, 0, (weight * q2).high))
    eta, mu = _minimiser(gamma.mid - e * c.mid, e, problem)
    gram_eta = problem.network.gram @ eta
    t = c - gram_eta
    value = 0.5 * (eta * gram_eta).sum() + (gamma * t).sum() - 0.5 * (e * t * t).sum() + constant
    slack = (gamma - e * t - eta).size * problem.network.norm  # ‖∇F‖ ≤ Σ |γ - e t - η|_j ‖w_j‖
    gradient = outward(slack.sum(), len(slack))
    least = down(value.low - up(up(gradient * gradient) / down(2 * mu))) if mu > 0 else 0.0
    return float(down(np.sqrt(down(2 * least)))) if least > 0 else 0.0  # NaN proves nothing


def _minimiser(g: np.ndarray, e: np.ndarray, problem: Problem) -> tuple[np.ndarray, float]:
    """(η, μ): nearly the η of the minimum, η = g + e∘Kη, and a number below every eigenvalue of I - Σ e_j w_j w_jᵀ, or 0."""
    curved = np.flatnonzero(e)
    gram, eta = problem.network.gram, g.copy()
    if not np.isfinite(e).all() or not np.isfinite(g).all():
        return eta, 0.0
    try:
        system = np.eye(len(curved)) - e[curved, None] * gram.mid[np.ix_(curved, curved)]
        eta[curved] += np.linalg.solve(system, e[curved] * (gram.mid[curved] @ g))
        return eta, _least_curvature(e, gram)
    except np.linalg.LinAlgError:
        return eta, 0.0


def _least_curvature(e: np.ndarray, gram: Enclosed) -> float:
    """A number below 1 and every eigenvalue of I - Σ e_j w_j w_jᵀ, at most 0 if none is found.

    With r = √e of the neurons with e > 0 and s = √-e of those with e < 0, B = I + Σ s² w wᵀ, these are at least the eigenvalues of
    S = I - r W B⁻¹ Wᵀ r, if positive, as B ≥ I. And vᵀB⁻¹v = min_z ‖v - Wᵀ(s z)‖² + ‖z‖²: any z = Yu for v = Wᵀ(r u) gives a matrix
    below S.
    """
    down_bent, up_bent = np.flatnonzero(e > 0), np.flatnonzero(e < 0)
    r, s = up(np.sqrt(e[down_bent])), down(np.sqrt(-e[up_bent]))  # the curvature only falls
    identity = np.eye(len(r))
    K = enclosed(r[:, None]) * gram[np.ix_(down_bent, down_bent)] * r
    if not np.isfinite(K.rad).all():
        return 0.0
    if not len(s) or not len(r):
        return least_eigenvalue(identity - K)
    across = enclosed(s[:, None]) * gram[np.ix_(up_bent, down_bent)] * r
    inner = np.eye(len(s)) + enclosed(s[:, None]) * gram[np.ix_(up_bent, up_bent)] * s
    if not np.isfinite(inner.rad).all() or not np.isfinite(across.rad).all():
        return least_eigenvalue(identity - K)
    Y = np.linalg.solve(inner.mid, across.mid)
    half = enclosed(Y.T) @ (across - 0.5 * (inner @ Y))
    return least_eigenvalue(identity - K + half + Enclosed(half.mid.T, half.rad.T))


def least_eigenvalue(S: Enclosed, guess: float | None = None) -> float:
    """A number below 1 and every eigenvalue of a symmetric S, at most 0 if none is found.

    S = RRᵀ + guess·I + E for any R, and RRᵀ has no negative eigenvalue: none of S is below guess - max_i Σ_j |E_ij|. Without a guess it
    is half of the least eigenvalue.
    """
    if not len(S.mid):
        return 1.0
    guess = min(1.0, 0.5 * float(np.linalg.eigvalsh(S.mid)[0]) if guess is None else guess)
    shift = guess * np.eye(len(S.mid))
    R = np.linalg.cholesky(S.mid - shift)
    error = (S - shift - enclosed(R) @ R.T).size
    return float(down(guess - outward(error.sum(axis=1), len(error)).max()))
