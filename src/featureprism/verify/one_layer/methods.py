"""Proofs about one hidden layer of powers of ReLU: Lipschitz constant, linear relaxation, ellipsoids, branch and bound.

Ellipsoids, ℓ2 within bounds. The intersection of ball and box lies in an ellipsoid whose weights are the multipliers of the faces:
‖δ‖² + Σ_i λ_i (δ_i + down_i)(δ_i - up_i) ≤ reach² for all λ ≥ 0, with weights 1 + λ. At the shortest flip -δ_i is the force
τ ∂(y f)/∂δ_i, but for coordinates that a face holds back: there λ_i is what the face has to hold, over half the width of the box. The
first force is that of the witness, the next ones go halfway to that of the relaxed problem.

Ellipsoids, ℓ∞. An ellipsoid with weights |v_i|/half_i is as far as the box in the direction v; a floor keeps it from being long where
v is small. A proof that falls short tells which coordinates it would move beyond the box: their weights grow, the others' fall. What
an ellipsoid proves, it proves at one radius: the one asked for, or a little less, as far as the tries fell short.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.attacks.gradient import margin_gradient
from featureprism.checker.certificate import EVERYWHERE, Certificate
from featureprism.geometry import Sides
from featureprism.models.model import Model
from featureprism.models.one_layer import PowerForm
from featureprism.verify.bounds import crown_radius, lipschitz_radius
from featureprism.verify.one_layer import newton
from featureprism.verify.one_layer.branch_and_bound import Node, prove, prove_box, prove_within
from featureprism.verify.one_layer.cells import Cells, Problem, Proof, envelope, relaxed_minimum
from featureprism.verify.one_layer.certify import (
    box_problem,
    cells_certificate,
    crown_certificate,
    lines_claim,
    lipschitz_certificate,
)
from featureprism.verify.one_layer.linear_cells import BoxProblem, whole_box
from featureprism.verify.pairs import Method, Pairs
from featureprism.verify.query import OVERSHOOT, Limits, Query

FORCES = 8  # forces
AT_FACE = 0.99  # of the way to a face: a coordinate that goes farther is held by it
HALVINGS = 20
FLOOR = 0.1  # of the mean weight, at the start
LEAST_WEIGHT = 1e-3  # of the mean
STEPS = 40  # of Newton
ELLIPSOIDS = 5  # ellipsoids and radii
SAME_RADIUS = 3  # of these, those at the radius asked for
POWER = 0.25  # of (mean square of δ_i)/half_i², by which weights move
SHORTER = 1.5  # times what a try fell short by: how much less the next one asks
NEARLY, FEW_CELLS = (
    0.997,
    4,
)  # an ellipsoid that proves this share of itself is cut into so many cells at most
LEAST_SHARE = 0.5  # of the radius asked for: below that nothing is tried


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
    pairs: Iterable[tuple[PowerForm, Tensor, float]],
    domain: Sides | None,
    limits: Limits,
) -> Iterator[Certificate]:
    """The best certificate found for one point (or pair) after the other, as long as the limits allow; radius 0 if none.

    `witness`: short flips and the gradients of the margins there; `pairs`: networks, points, labels.
    """
    claim = Certificate(0.0, "ellipsoid", domain=domain or EVERYWHERE)
    for k, (form, x, y) in enumerate(pairs):
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
    for _ in range(FORCES):
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
    down, up = _faces(problem)
    free = (delta > -AT_FACE * down) & (delta < AT_FACE * up)
    tau = -(delta * gradient)[free].sum() / (gradient[free] ** 2).sum().clamp_min(1e-300)
    length = torch.linalg.vector_norm(gradient).clamp_min(1e-300)
    return torch.where(tau > 0, tau, problem.reach / length)


def _grown(ellipsoid: Ellipsoid, t: Tensor, tau: Tensor, goal: float, limits: Limits) -> Node:
    radius = ellipsoid.stretched.reach.new_tensor([(goal**2 + ellipsoid.extra) ** 0.5])
    (tree,) = prove(ellipsoid.stretched, t, tau, radius, limits=limits, whole=ellipsoid.whole)
    return tree


def _radius(tree: Node, ellipsoid: Ellipsoid) -> float:
    """The radius that a tree proves."""
    return max(tree.bound**2 - ellipsoid.extra, 0.0) ** 0.5


def _faces(problem: BoxProblem) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    """How far δ may go down and up in every coordinate."""
    assert problem.down is not None
    assert problem.up is not None
    return torch.minimum(problem.down[0], problem.reach), torch.minimum(problem.up[0], problem.reach)


def _around(problem: BoxProblem, force: Float[Tensor, " d"], whole: Cells) -> Ellipsoid:
    """The ellipsoid whose faces hold what a force pushes out of the box."""
    down, up = _faces(problem)
    held = (-force - up).clamp_min(0) + (force - down).clamp_min(0)
    weights = 1 + held / ((up + down) / 2).clamp_min(1e-9 * problem.reach)
    middle = (weights - 1) * (up - down) / (2 * weights)
    extra = float(((weights - 1) * up * down + weights * middle**2).sum())
    rho = (problem.reach**2 + extra).sqrt()
    t0 = problem.t0 + problem.W @ middle
    gram = (problem.W / weights) @ problem.W.T
    stretched = Problem(gram, t0, problem.size, problem.for_label, rho * (1 + 1e-9), problem.p)
    return Ellipsoid(weights, stretched, whole, extra)


def _whole(problem: BoxProblem) -> Cells:
    """Where pre-activations may be in the ball and the box."""
    nothing = torch.full_like(problem.t0, torch.inf)
    fall, rise = _farthest(-problem.W, problem), _farthest(problem.W, problem)
    return Cells(-nothing, nothing, problem.t0 - fall, problem.t0 + rise)


def _farthest(W: Float[Tensor, "h d"], problem: BoxProblem) -> Float[Tensor, " h"]:
    """max ⟨w, δ⟩ in the ball and the box, attained at clip(w/θ): see the checker."""
    (down, up), reach = _faces(problem), problem.reach
    least = W.new_zeros(len(W), 1)
    most = (torch.linalg.vector_norm(W, dim=1, keepdim=True) / reach).clamp_min(1e-300)
    for _ in range(HALVINGS):
        theta = (least + most) / 2
        long = torch.linalg.vector_norm((W / theta).clamp(-down, up), dim=1, keepdim=True) > reach
        least, most = torch.where(long, theta, least), torch.where(long, most, theta)
    u = most * (W / most).clamp(-down, up)
    beside = torch.maximum((W - u) * up, (u - W) * down).sum(dim=1)
    return reach * torch.linalg.vector_norm(u, dim=1) + beside


def box_certificates(
    problem: BoxProblem,
    force: Float[Tensor, "m d"],
    pairs: Iterable[tuple[PowerForm, Tensor, float]],
    claim: Certificate,
    limits: Limits,
) -> Iterator[Certificate]:
    """The best certificate found for one point (or pair) after the other, as long as the limits allow; radius 0 if none.

    `problem`: its reach is what to prove; `force`: directions of the margins near their flips; `pairs`: networks, points, labels.
    """
    for k, about in enumerate(pairs):
        if not limits.allow():
            return
        yield _certificate(problem.rows(torch.tensor([k])), force[k], about, claim)


def _certificate(
    problem: BoxProblem, force: Tensor, about: tuple[PowerForm, Tensor, float], claim: Certificate
) -> Certificate:
    """The best certificate certificate for a problem of one row."""
    claim, reach = replace(claim, kind="ellipsoid", radius=0.0), float(problem.reach)
    _, half = _middle_and_half(problem)
    weights = force.abs() / half
    weights = weights / weights.mean().clamp_min(1e-300) + FLOOR
    best = None
    for k in range(ELLIPSOIDS):
        stretched, cells = _stretched(problem, weights)
        goal = (1 + 1e-6) * stretched.reach
        proof = newton.improve(stretched, cells, None, goal, STEPS)
        share = float(proof.bound / stretched.reach)
        if best is None or share > best[0]:
            best = share, weights, stretched, cells, proof
        if share >= 1 or (k + 1 >= SAME_RADIUS and best[0] >= NEARLY):
            certificate = _written(problem, best, about, claim)
            if certificate.radius > 0:
                return certificate
        if k + 1 < SAME_RADIUS:
            weights = _reweighted(problem, stretched, cells, proof, weights)
            continue
        shorter = 1 - SHORTER * max(1 - best[0], 1e-3)
        if shorter * float(problem.reach) < LEAST_SHARE * reach:
            break
        problem, weights, best = replace(problem, reach=shorter * problem.reach), best[1], None
    return claim


def _written(
    problem: BoxProblem,
    best: tuple[float, Tensor, Problem, Cells, Proof],
    about: tuple[PowerForm, Tensor, float],
    claim: Certificate,
) -> Certificate:
    """What an ellipsoid proves with a few cells; radius 0 where that is not all of it."""
    share, weights, stretched, cells, proof = best
    goal, tree = (1 + 1e-6) * stretched.reach, Node(cells, proof)
    if share < 1:
        (tree,) = prove_within(stretched, cells, proof, goal, limits=Limits(FEW_CELLS))
    if tree.bound < float(stretched.reach):
        return claim
    form, x, y = about
    return cells_certificate(tree, form, float(problem.reach), x, y, claim, weights.numpy().copy())


def _middle_and_half(problem: BoxProblem) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    """The middle of the box of all perturbations and half its widths."""
    reach = problem.reach.expand(problem.W.shape[1])
    down = reach if problem.down is None else torch.minimum(problem.down[0], reach)
    up = reach if problem.up is None else torch.minimum(problem.up[0], reach)
    return (up - down) / 2, ((up + down) / 2).clamp_min(1e-9 * float(problem.reach))


def _stretched(problem: BoxProblem, weights: Tensor) -> tuple[Problem, Cells]:
    """The ℓ2 problem of an ellipsoid around the box, with what the box says of every neuron."""
    middle, half = _middle_and_half(problem)
    rho = (weights * half**2).sum().sqrt().unsqueeze(0)
    gram = (problem.W / weights) @ problem.W.T
    t0 = problem.t0 + problem.W @ middle
    return Problem(gram, t0, problem.size, problem.for_label, rho * (1 + 1e-7), problem.p), whole_box(problem)


def _reweighted(
    problem: BoxProblem, stretched: Problem, cells: Cells, proof: Proof, weights: Tensor
) -> Float[Tensor, " d"]:
    """Weights moved by how far the relaxed minimum goes in every coordinate: its mean, and a spread that fills the ellipsoid."""
    q = envelope(stretched, cells, proof)
    weight = proof.tau.unsqueeze(1) * torch.where(stretched.for_label, stretched.size, -stretched.size)
    e = -(weight * q.q2)[0]
    eta = (weight * q.q1)[0] - e * proof.t[0]
    mean = (eta @ problem.W) / weights
    curved = torch.nonzero(e > 0)[:, 0]
    root = e[curved].sqrt().unsqueeze(1)
    form = torch.eye(len(curved), dtype=e.dtype) - root * stretched.gram[curved][:, curved] * root.T
    factor, failed = torch.linalg.cholesky_ex(form)
    if int(failed):
        return weights
    spread = torch.linalg.solve_triangular(factor, root * problem.W[curved], upper=False).square().sum(dim=0)
    spread = spread / weights**2
    left = (stretched.reach**2 - (weights * mean**2).sum()).clamp_min(0)
    square = mean**2 + spread * left / (weights * spread).sum().clamp_min(1e-300)
    _, half = _middle_and_half(problem)
    moved = weights * (square / half**2).clamp(1e-3, 1e3) ** POWER
    return (moved / moved.mean()).clamp_min(LEAST_WEIGHT)


SHRINK = 0.999  # share of a flip at which slopes are read: on the flip itself neurons that it switched off are silent
FARTHEST = 1e6  # where no flip says how far to look
LEAVES = 4  # of a tree, those with the least bounds, near which shorter flips are looked for


def _form(pairs: Pairs) -> PowerForm:
    form = pairs.model.one_layer
    assert form is not None
    return form


def _votes(pairs: Pairs, rows: Tensor) -> Float[Tensor, "r h"]:
    return _form(pairs).votes(pairs.label[pairs.point[rows]], pairs.target[rows])


def _of_pairs(pairs: Pairs, rows: Tensor) -> Iterator[tuple[int, PowerForm, Tensor]]:
    """Every pair with the network of its margin and its point."""
    for j in rows.tolist():
        i = int(pairs.point[j])
        yield j, _form(pairs).of_pair(int(pairs.label[i]), int(pairs.target[j])), pairs.x[i]


def _before_flips(pairs: Pairs, rows: Tensor, reach: Tensor) -> Float[Tensor, "r d"]:
    """A little before the shortest flip of each pair, or where it has none of its point; no farther than `reach`."""
    _, best = pairs.shortest()
    has_flip = pairs.delta[rows].any(dim=1, keepdim=True)
    delta = torch.where(has_flip, pairs.delta[rows], pairs.delta[best][pairs.point[rows]])
    length = torch.linalg.vector_norm(delta, ord=pairs.query.norm, dim=1).clamp_min(1e-300)
    return SHRINK * delta * (reach / length).clamp_max(1).unsqueeze(1)


class CheapBounds(Method):
    """The better of a Lipschitz constant from the Gram matrix (p = 1, ℓ2) and the linear relaxation (CROWN, Zhang et al. 2018)."""

    is_cheap = True

    def applies(self, model: Model, query: Query) -> bool:
        return model.one_layer is not None

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        form, norm, x = _form(pairs), pairs.query.norm, pairs.points(rows)
        reach = pairs.reach()[pairs.point[rows]]
        reach = torch.where(torch.isfinite(reach), reach, reach.new_tensor(FARTHEST))
        votes, t = _votes(pairs, rows), x @ form.W.T + form.b
        crown = crown_radius(form, t, votes, norm, reach)
        smooth = lipschitz_radius(form, t, votes) if norm == 2 else torch.zeros_like(crown)
        for k, (j, pair, point) in enumerate(_of_pairs(pairs, rows)):
            if smooth[k] > crown[k]:
                pairs.keep(j, lipschitz_certificate(pair, point, pair.sign, float(smooth[k])))
            elif crown[k] > 0:
                pairs.keep(j, crown_certificate(pair, point, pair.sign, float(crown[k]), norm))


class Ellipsoids(Method):
    """ℓ∞ of ReLU networks, and ℓ2 within bounds: quadratic cells in the lengths of an ellipsoid around the region."""

    def applies(self, model: Model, query: Query) -> bool:
        form = model.one_layer
        return form is not None and (query.bounds is not None if query.norm == 2 else form.p == 1)

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        form, query, x = _form(pairs), pairs.query, pairs.points(rows)
        reach, goal = (v[pairs.point[rows]] for v in (pairs.reach(), OVERSHOOT * pairs.goal()))
        rows, x, reach, goal = (v[torch.isfinite(reach)] for v in (rows, x, reach, goal))
        if not len(rows):
            return
        delta = _before_flips(pairs, rows, reach)
        _, force = margin_gradient(pairs.margins(rows), x + delta, torch.ones(len(rows)).double())
        is_l2 = query.norm == 2
        problem = box_problem(form, x, _votes(pairs, rows), reach if is_l2 else goal, query.bounds)
        each = ((pair, point, pair.sign) for _, pair, point in _of_pairs(pairs, rows))
        if is_l2:
            certificates = ball_certificates(problem, (delta, force), goal, each, query.bounds, limits)
        else:
            certificates = box_certificates(problem, force, each, lines_claim(query.bounds), limits)
        for j, certificate in zip(rows.tolist(), certificates, strict=False):
            pairs.keep(j, certificate)


class BranchAndBound(Method):
    """Cells of the region, cut at neurons: quadratic relaxations for ℓ2 without bounds, linear ones for ℓ∞."""

    def applies(self, model: Model, query: Query) -> bool:
        return model.one_layer is not None and not (query.norm == 2 and query.bounds is not None)

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> Float[Tensor, "s r d"] | None:
        reach = pairs.reach()[pairs.point[rows]]
        looked, rows, reach = rows, rows[torch.isfinite(reach)], reach[torch.isfinite(reach)]
        if not len(rows):
            return None
        goal = OVERSHOOT * pairs.goal()[pairs.point[rows]]
        is_l2 = pairs.query.norm == 2
        trees, limit = (_l2_trees if is_l2 else _linf_trees)(pairs, rows, reach, goal, limits)
        claim = Certificate(0.0, "cells") if is_l2 else lines_claim(pairs.query.bounds)
        for (j, pair, point), tree, r in zip(_of_pairs(pairs, rows), trees, limit.tolist(), strict=True):
            if tree.bound > pairs.certificates[j].radius:
                pairs.keep(j, cells_certificate(tree, pair, r, point, pair.sign, claim))
        if not is_l2:
            return None
        towards = pairs.x.new_zeros(LEAVES, len(looked), pairs.x.shape[1])
        towards[:, torch.isin(looked, rows)] = _towards_leaves(pairs, rows, reach, trees, goal)
        return towards


def _l2_problem(pairs: Pairs, rows: Tensor, reach: Tensor) -> Problem:
    form, votes = _form(pairs), _votes(pairs, rows)
    return Problem(form.gram, pairs.points(rows) @ form.W.T + form.b, votes.abs(), votes > 0, reach, form.p)


def _l2_trees(
    pairs: Pairs, rows: Tensor, reach: Tensor, goal: Tensor, limits: Limits
) -> tuple[list[Node], Tensor]:
    form, x, delta = _form(pairs), pairs.points(rows), _before_flips(pairs, rows, reach)
    _, gradient = margin_gradient(pairs.margins(rows), x + delta, torch.ones(len(rows)).double())
    tau = reach / torch.linalg.vector_norm(gradient, dim=1).clamp_min(1e-300)
    problem = _l2_problem(pairs, rows, reach)
    return prove(problem, (x + delta) @ form.W.T + form.b, tau, goal, limits=limits), reach


def _linf_trees(
    pairs: Pairs, rows: Tensor, reach: Tensor, goal: Tensor, limits: Limits
) -> tuple[list[Node], Tensor]:
    form, x, delta = _form(pairs), pairs.points(rows), _before_flips(pairs, rows, reach)
    problem = box_problem(form, x, _votes(pairs, rows), reach, pairs.query.bounds)
    known = pairs.verified()[rows]
    return prove_box(problem, (x + delta) @ form.W.T + form.b, goal, known, limits=limits)


def _towards_leaves(
    pairs: Pairs, rows: Tensor, reach: Tensor, trees: list[Node], goal: Tensor
) -> Float[Tensor, "s r d"]:
    """Minima of the relaxed problems of the worst open leaves: a shorter flip, if there is one, lies in such a leaf."""
    W, problem = _form(pairs).W, _l2_problem(pairs, rows, reach)
    towards = W.new_zeros(LEAVES, len(trees), W.shape[1])
    for i, tree in enumerate(trees):
        part = problem.rows(torch.tensor([i]))
        left = [leaf for leaf in tree.leaves() if float(leaf.proof.bound) < float(goal[i])]
        for k, leaf in enumerate(sorted(left, key=lambda leaf: float(leaf.proof.bound))[:LEAVES]):
            towards[k, i] = (-relaxed_minimum(part, leaf.cells, leaf.proof)[0] @ W).nan_to_num(0.0, 0.0, 0.0)
    return towards
