"""The checker's word on ellipsoids: what a box leaves lies in one, and in its own lengths that is a ball, of which cells.py knows.

Perturbations have -below_i ≤ δ_i ≤ above_i, what the radius and the domain leave. For weights s > 0 and any middle m they satisfy
Σ s_i (δ_i - m_i)² ≤ ρ², with δ' = √s (δ - m) that is ‖δ'‖ ≤ ρ, the neurons are w/√s and their products those of the Gram matrix
W diag(1/s) Wᵀ. Every leaf proves that who flips has ‖δ'‖ ≥ some bound.

ℓ∞: ρ² = Σ s_i half_i². If all bounds are above ρ, nobody flips inside.
ℓ2, s ≥ 1: Σ s_i (δ_i - m_i)² = ‖δ‖² + Σ_i [(s_i - 1) δ_i² - 2 s_i m_i δ_i + s_i m_i²], and brackets are convex: largest at a face. With
extra, the sum of these, who flips has ‖δ‖² ≥ bound² - extra, and ρ² = radius² + extra.

Any weights would be sound.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from featureprism.checker.cells import Cell, Tree, between, leaf_radii, leaves, refuse_malformed, tightened
from featureprism.checker.enclosed import down, enclosed, outward, up
from featureprism.checker.lines import Room, whole_box
from featureprism.checker.scaled import Problem, is_array, refuse_unless

HALVINGS = 12  # towards the best split of a neuron; any split is sound


def proven_in_ellipsoid(tree: Tree, problem: Problem, room: Room) -> float:
    """problem.radius, if the tree proves that nothing within this ℓ∞ radius flips; else 0. Scaled, like the tree."""
    weights, middle = _weights_and_middle(tree, problem, 0.0)
    every, stretched = cells_in_box(tree, problem, room, weights, middle)
    return problem.radius if all(bound > stretched.radius for bound in leaf_radii(every, stretched)) else 0.0


def cells_in_box(
    tree: Tree, problem: Problem, room: Room, weights: np.ndarray, middle: np.ndarray
) -> tuple[Iterator[tuple[Tree, Cell]], Problem]:
    """The leaves of a tree over the ellipsoid around an ℓ∞ ball, each with its cell; and the problem in its lengths."""
    below, above = room.within(problem.radius)
    half = np.maximum(up(above - middle), up(below + middle))
    rho = float(up(np.sqrt(outward((weights * half * half).sum(), len(half)))))
    stretched = _stretched(problem, weights, middle, rho)
    return leaves(tree, whole_box(problem, room), partial(tightened, stretched)), stretched


def proven_in_ball(tree: Tree, problem: Problem, room: Room) -> float:
    """The ℓ2 radius below which no perturbation in the box flips, as far as the tree proves it (0: nothing). Scaled, like the tree."""
    weights, middle = _weights_and_middle(tree, problem, 1.0)
    every, stretched, extra = cells_in_ball(tree, problem, room, weights, middle)
    bound = min(leaf_radii(every, stretched), default=stretched.radius)
    left = down(down(bound * bound) - extra)
    return min(problem.radius, float(down(np.sqrt(left)))) if left > 0 else 0.0


def cells_in_ball(
    tree: Tree, problem: Problem, room: Room, weights: np.ndarray, middle: np.ndarray
) -> tuple[Iterator[tuple[Tree, Cell]], Problem, float]:
    """The same over the ellipsoid around an ℓ2 ball in a box, and what ‖δ'‖² may be more than ‖δ‖²."""
    below, above = room.within(problem.radius)
    square, tilt = enclosed(weights) - 1, 2.0 * (enclosed(weights) * middle)
    faces = square * below * below + tilt * below, square * above * above - tilt * above
    most = enclosed(np.maximum(faces[0].high, faces[1].high)) + enclosed(weights) * middle * middle
    extra = float(outward(np.maximum(most.high, 0).sum(), len(below)))
    rho = float(up(np.sqrt(up(up(problem.radius * problem.radius) + extra))))
    stretched = _stretched(problem, weights, middle, rho)
    whole = _in_ball_and_box(problem, below, above)
    return leaves(tree, whole, partial(tightened, stretched)), stretched, extra


def _stretched(problem: Problem, weights: np.ndarray, middle: np.ndarray, rho: float) -> Problem:
    """The problem in the lengths of an ellipsoid, whose radius is ρ."""
    c = problem.c + enclosed(problem.network.neurons) @ middle
    return replace(problem, network=replace(problem.network, weights=weights), c=c, radius=rho)


def _weights_and_middle(tree: Tree, problem: Problem, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Of a tree that is well formed."""
    refuse_malformed(tree, problem)
    d, numbers = problem.network.neurons.shape[1], tree.get("numbers")
    refuse_unless(is_array(numbers, (2 * d,)), f"weights and middle as a finite float64 array ({2 * d},)")
    assert isinstance(numbers, np.ndarray)
    weights, middle = numbers[:d], numbers[d:]
    refuse_unless(
        bool((weights > 0).all() and (weights >= least).all()), "positive weights, for ℓ2 of at least 1"
    )
    return weights, middle


def middle_of(weights: np.ndarray, room: Room, radius: float, norm: float) -> np.ndarray:
    """A good middle: that of the box, for ℓ2 as near to it as the weights pull."""
    below, above = room.within(radius)
    return (0.5 if norm == np.inf else (weights - 1) / (2 * weights)) * (above - below)


def _in_ball_and_box(problem: Problem, below: np.ndarray, above: np.ndarray) -> Cell:
    """Where t may be for ‖δ‖ ≤ problem.radius in the box."""
    W, c = problem.network.neurons, problem.c
    fall, rise = _farthest(-W, problem, below, above), _farthest(W, problem, below, above)
    return between(down(c.low - fall), up(c.high + rise))


def _farthest(W: np.ndarray, problem: Problem, below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Floats above max ⟨w, δ⟩: for any u it is at most radius·‖u‖ + Σ_i max((w - u)_i above_i, (u - w)_i below_i).

    The best u is θ·clip(w/θ, -below, above) with the θ at which the clipped vector is as long as the radius, 0 where none is.
    """
    r, n = problem.radius, W.shape[1]
    least, most = np.zeros((len(W), 1)), np.maximum(problem.network.norm / r, 1e-300)[:, None]
    for _ in range(HALVINGS):
        theta = 0.5 * (least + most)
        long = (np.clip(W / theta, -below, above) ** 2).sum(axis=1, keepdims=True) > r * r
        least, most = np.where(long, theta, least), np.where(long, most, theta)
    u = most * np.clip(W / most, -below, above)
    beside = np.maximum(up(W - u) * above, up(u - W) * below).sum(axis=1)
    length = np.sqrt(outward((u * u).sum(axis=1), n))
    return outward(r * length + beside, 2 * n)
