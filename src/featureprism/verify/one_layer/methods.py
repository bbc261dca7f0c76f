"""Proofs about one hidden layer of powers of ReLU: Lipschitz constant, linear relaxation, ellipsoids, branch and bound."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.attacks.gradient import margin_gradient
from featureprism.checker.certificate import Certificate
from featureprism.models.model import Model
from featureprism.models.one_layer import PowerForm
from featureprism.verify.bounds import crown_radius, lipschitz_radius
from featureprism.verify.method import Method
from featureprism.verify.one_layer.branch_and_bound import Node, prove, prove_box
from featureprism.verify.one_layer.cells import Problem, relaxed_minimum
from featureprism.verify.one_layer.certify import (
    box_problem,
    cells_certificate,
    crown_certificate,
    lines_claim,
    lipschitz_certificate,
)
from featureprism.verify.one_layer.ellipsoids import ball_certificates, box_certificates
from featureprism.verify.pairs import Pairs
from featureprism.verify.query import OVERSHOOT, Limits, Query

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
        asked = ((pair, point, pair.sign) for _, pair, point in _of_pairs(pairs, rows))
        if is_l2:
            certificates = ball_certificates(problem, (delta, force), goal, asked, query.bounds, limits)
        else:
            certificates = box_certificates(problem, force, asked, lines_claim(query.bounds), limits)
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
