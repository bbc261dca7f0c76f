"""ℓ∞ radii of ReLU networks by ellipsoids: the ℓ2 proof of hinges.py in the lengths of an ellipsoid around the box.

An ellipsoid with weights |v_i|/half_i is as far as the box in the direction v; a floor keeps it from being long where v is small. A
proof that falls short tells which coordinates it would move beyond the box: their weights grow, the others' fall. What an ellipsoid
proves, it proves at one radius: the one asked for, or a little less, as far as the tries fell short.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.checker.certificate import Certificate
from featureprism.models.one_layer import PowerForm
from featureprism.verify.one_layer import newton
from featureprism.verify.one_layer.branch_and_bound import Node, prove_within
from featureprism.verify.one_layer.cells import Cells, Problem, Proof, envelope
from featureprism.verify.one_layer.certify import cells_certificate
from featureprism.verify.one_layer.linear_cells import BoxProblem, whole_box
from featureprism.verify.query import Limits

FLOOR = 0.1  # of the mean weight, at the start
LEAST_WEIGHT = 1e-3  # of the mean
STEPS = 40  # of Newton
TRIES = 5  # ellipsoids and radii
SAME_RADIUS = 3  # of these, those at the radius asked for
POWER = 0.25  # of (mean square of δ_i)/half_i², by which weights move
SHORTER = 1.5  # times what a try fell short by: how much less the next one asks
NEARLY, FEW_CELLS = (
    0.997,
    4,
)  # an ellipsoid that proves this share of itself is cut into so many cells at most
LEAST_SHARE = 0.5  # of the radius asked for: below that nothing is tried


def box_certificates(
    problem: BoxProblem,
    force: Float[Tensor, "m d"],
    asked: Iterable[tuple[PowerForm, Tensor, float]],
    claim: Certificate,
    limits: Limits,
) -> Iterator[Certificate]:
    """The best certificate found for one point (or pair) after the other, as long as the limits allow; radius 0 if none.

    `problem`: its reach is what to prove; `force`: directions of the margins near their flips; `asked`: networks, points, labels.
    """
    for k, about in enumerate(asked):
        if not limits.allow():
            return
        yield _certificate(problem.rows(torch.tensor([k])), force[k], about, claim)


def _certificate(
    problem: BoxProblem, force: Tensor, about: tuple[PowerForm, Tensor, float], claim: Certificate
) -> Certificate:
    """The best certificate found for a problem of one row."""
    claim, reach = replace(claim, kind="ellipsoid", radius=0.0), float(problem.reach)
    _, half = _middle_and_half(problem)
    weights = force.abs() / half
    weights = weights / weights.mean().clamp_min(1e-300) + FLOOR
    best = None
    for k in range(TRIES):
        stretched, cells = _stretched(problem, weights)
        goal = (1 + 1e-6) * stretched.reach
        proof = newton.improve(stretched, cells, None, goal, STEPS)
        share = float(proof.bound / stretched.reach)
        if best is None or share > best[0]:
            best = share, weights, stretched, cells, proof
        if share >= 1 or (k + 1 >= SAME_RADIUS and best[0] >= NEARLY):
            found = _written(problem, best, about, claim)
            if found.radius > 0:
                return found
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
    return Problem(gram, t0, problem.size, problem.own, rho * (1 + 1e-7), problem.p), whole_box(problem)


def _reweighted(
    problem: BoxProblem, stretched: Problem, cells: Cells, proof: Proof, weights: Tensor
) -> Float[Tensor, " d"]:
    """Weights moved by how far the relaxed minimum goes in every coordinate: its mean, and a spread that fills the ellipsoid."""
    q = envelope(stretched, cells, proof)
    weight = proof.tau.unsqueeze(1) * torch.where(stretched.own, stretched.size, -stretched.size)
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
