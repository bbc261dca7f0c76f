"""ℓ2 radii in a box (pixels in [0, 1]): cells in the lengths of an ellipsoid around what the ball and the box have in common.

Who is in the ball and in the box has ‖δ‖² + Σ_i λ_i (δ_i + down_i)(δ_i - up_i) ≤ reach² for all λ ≥ 0, an ellipsoid with weights 1 + λ.
At the shortest flip -δ_i is the force τ ∂(y f)/∂δ_i, but for coordinates that a face holds back: there λ_i is what the face has to
hold, over half the width of the box. The first force is that of the witness, the next ones go halfway to that of the relaxed problem.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.checker.certificate import EVERYWHERE, Certificate
from featureprism.geometry import Sides
from featureprism.models.one_layer import PowerForm
from featureprism.verify.one_layer.branch_and_bound import Node, prove
from featureprism.verify.one_layer.cells import Cells, Problem, relaxed_minimum
from featureprism.verify.one_layer.certify import cells_certificate
from featureprism.verify.one_layer.linear_cells import BoxProblem
from featureprism.verify.query import Limits

TRIES = 8  # forces
AT_FACE = 0.99  # of the way to a face: a coordinate that goes farther is held by it
HALVINGS = 20


class Ellipsoid(NamedTuple):
    """A problem of one row in the lengths of an ellipsoid, its whole cell, and by how much ρ² is more than reach²."""

    weights: Float[Tensor, " d"]
    stretched: Problem
    whole: Cells
    extra: float


def ball_certificates(
    problem: BoxProblem,
    witness: tuple[Float[Tensor, "m d"], Float[Tensor, "m d"]],
    goal: Float[Tensor, " m"],
    asked: Iterable[tuple[PowerForm, Tensor, float]],
    domain: Sides | None,
    limits: Limits,
) -> Iterator[Certificate]:
    """The best certificate found for one point (or pair) after the other, as long as the limits allow; radius 0 if none.

    `witness`: short flips and the gradients of the margins there; `asked`: networks, points, labels.
    """
    claim = Certificate(0.0, "ellipsoid", domain=domain or EVERYWHERE)
    for k, (form, x, y) in enumerate(asked):
        if not limits.allow():
            return
        row = problem.rows(torch.tensor([k]))
        tree, weights = _tree(row, witness[0][k], witness[1][k], float(goal[k]), limits)
        yield cells_certificate(tree, form, float(row.reach), x, y, claim, weights.numpy().copy())


def _tree(
    problem: BoxProblem, delta: Tensor, gradient: Tensor, goal: float, limits: Limits
) -> tuple[Node, Float[Tensor, " d"]]:
    """The tree of the best weights found for a problem of one row, and these."""
    t, tau, whole = problem.t0 + problem.W @ delta, _multiplier(problem, delta, gradient), _whole(problem)
    force, best = tau * gradient, None
    for _ in range(TRIES):
        ellipsoid = _around(problem, force, whole)
        tree = _grown(ellipsoid, t, tau, goal, Limits(1, limits.deadline))
        if best is None or _radius(tree, ellipsoid) > best[0]:
            best = _radius(tree, ellipsoid), tree, ellipsoid
        if best[0] >= goal:
            return tree, ellipsoid.weights
        force = (force + relaxed_minimum(ellipsoid.stretched, tree.cells, tree.proof)[0] @ problem.W) / 2
    assert best is not None
    return _grown(best[2], t, tau, goal, limits), best[2].weights


def _multiplier(problem: BoxProblem, delta: Tensor, gradient: Tensor) -> Float[Tensor, " 1"]:
    """The τ that makes -τ·gradient the witness, as well as it can, in coordinates that no face holds."""
    down, up = _room(problem)
    free = (delta > -AT_FACE * down) & (delta < AT_FACE * up)
    tau = -(delta * gradient)[free].sum() / (gradient[free] ** 2).sum().clamp_min(1e-300)
    length = torch.linalg.vector_norm(gradient).clamp_min(1e-300)
    return torch.where(tau > 0, tau, problem.reach / length)


def _grown(ellipsoid: Ellipsoid, t: Tensor, tau: Tensor, goal: float, limits: Limits) -> Node:
    asked = ellipsoid.stretched.reach.new_tensor([(goal**2 + ellipsoid.extra) ** 0.5])
    (tree,) = prove(ellipsoid.stretched, t, tau, asked, limits=limits, whole=ellipsoid.whole)
    return tree


def _radius(tree: Node, ellipsoid: Ellipsoid) -> float:
    """The radius that a tree proves."""
    return max(tree.bound**2 - ellipsoid.extra, 0.0) ** 0.5


def _room(problem: BoxProblem) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    """How far δ may go down and up in every coordinate."""
    assert problem.down is not None
    assert problem.up is not None
    return torch.minimum(problem.down[0], problem.reach), torch.minimum(problem.up[0], problem.reach)


def _around(problem: BoxProblem, force: Float[Tensor, " d"], whole: Cells) -> Ellipsoid:
    """The ellipsoid whose faces hold what a force pushes out of the box."""
    down, up = _room(problem)
    held = (-force - up).clamp_min(0) + (force - down).clamp_min(0)
    weights = 1 + held / ((up + down) / 2).clamp_min(1e-9 * problem.reach)
    middle = (weights - 1) * (up - down) / (2 * weights)
    extra = float(((weights - 1) * up * down + weights * middle**2).sum())
    rho = (problem.reach**2 + extra).sqrt()
    t0 = problem.t0 + problem.W @ middle
    gram = (problem.W / weights) @ problem.W.T
    stretched = Problem(gram, t0, problem.size, problem.own, rho * (1 + 1e-9), problem.p)
    return Ellipsoid(weights, stretched, whole, extra)


def _whole(problem: BoxProblem) -> Cells:
    """Where pre-activations may be in the ball and the box."""
    nothing = torch.full_like(problem.t0, torch.inf)
    fall, rise = _farthest(-problem.W, problem), _farthest(problem.W, problem)
    return Cells(-nothing, nothing, problem.t0 - fall, problem.t0 + rise)


def _farthest(W: Float[Tensor, "h d"], problem: BoxProblem) -> Float[Tensor, " h"]:
    """max ⟨w, δ⟩ in the ball and the box, attained at clip(w/θ): see the checker."""
    (down, up), reach = _room(problem), problem.reach
    least = W.new_zeros(len(W), 1)
    most = (torch.linalg.vector_norm(W, dim=1, keepdim=True) / reach).clamp_min(1e-300)
    for _ in range(HALVINGS):
        theta = (least + most) / 2
        long = torch.linalg.vector_norm((W / theta).clamp(-down, up), dim=1, keepdim=True) > reach
        least, most = torch.where(long, theta, least), torch.where(long, most, theta)
    u = most * (W / most).clamp(-down, up)
    beside = torch.maximum((W - u) * up, (u - W) * down).sum(dim=1)
    return reach * torch.linalg.vector_norm(u, dim=1) + beside
