"""Proofs about pairs of a point and a rival class: closed forms, lines, cells, ellipsoids and layers, many pairs together."""

import time
from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.attacks.gradient import margin_gradient
from featureprism.attacks.rivals import NeuronMargins
from featureprism.certificates.ball_in_box import ball_certificates
from featureprism.certificates.canonical import PowerForm
from featureprism.certificates.cells import Problem
from featureprism.certificates.closing import HAIR, SHORTER
from featureprism.certificates.deep import (
    MOST_INPUTS,
    Asked,
    as_layers,
    farthest_proofs,
    norm_certificates,
    proofs_at,
)
from featureprism.certificates.ellipsoids import box_certificates
from featureprism.certificates.helped import attack_from, towards_leaves
from featureprism.certificates.pairs import Effort, Pairs
from featureprism.certificates.quadratics import nearest_flips
from featureprism.certificates.record import box_problem, cells_certificate, crown_certificate, lines_claim
from featureprism.certificates.rungs import crown_radius
from featureprism.certificates.search import Node, prove, prove_box
from featureprism.checker import linear as checker
from featureprism.checker.certificate import Certificate
from featureprism.checker.enclosed import SLACK, with_room
from featureprism.checker.models import Scores
from featureprism.networks import ScoreNet, Tanh

JUST_BEFORE = 0.999  # share of the witness at which tangents are taken
ROUNDING = 1e-9  # relative, taken off bounds before the checker sees them, and off closed forms


def form_of(net: Any) -> PowerForm | None:
    """The neurons of all margins, for networks that certificates speak of; the weights are those of each pair."""
    if not isinstance(net, ScoreNet) or isinstance(net.activation, Tanh):
        return None
    W, V, b = net.with_bias_neuron()
    p = float(net.activation.p)
    given, offsets, votes, shifts = (t.detach().numpy().copy() for t in (net.W, net.b, net.V, net.c))
    scores = Scores(given, offsets, votes, shifts, p)
    return PowerForm(W, b, V.new_zeros(len(W)), p, scores.margin(0, 1)[0], scores)


def _votes(pairs: Pairs, rows: Tensor) -> Float[Tensor, "m h"]:
    votes = pairs.margins(rows)
    assert isinstance(votes, NeuronMargins)
    return votes.votes


def crown(pairs: Pairs, form: PowerForm, effort: Effort) -> None:
    """CROWN for every pair, as the checker grants it, no farther than the shortest flip of the point."""
    norm, attacked = effort.norm, effort.reach(pairs.shortest()[0])[pairs.point]
    reach = torch.where(torch.isfinite(attacked), attacked, attacked.new_tensor(1e6))
    every = torch.arange(len(pairs.point))
    t = pairs.x[pairs.point] @ form.W.T + form.b
    bounds = crown_radius(form, t, _votes(pairs, every), norm, reach)
    for j, bound in enumerate(bounds.tolist()):
        own = int(pairs.own[pairs.point[j]])
        if bound > 0:
            pair = form.of_pair(own, int(pairs.rival[j]))
            found = crown_certificate(pair, pairs.x[pairs.point[j]], 1.0, bound, norm)
            if found.radius > 0:
                pairs.certificates[j] = found


def still_open(pairs: Pairs, effort: Effort) -> Int[Tensor, " o"]:
    """The pairs that are not proven as far as is asked of their point."""
    goal = effort.goal(pairs.shortest()[0])[pairs.point]
    return torch.nonzero(pairs.bounds() < goal)[:, 0]


def cells(pairs: Pairs, form: PowerForm, effort: Effort, deadline: float) -> None:
    """Branch and bound on every open pair, about perturbations up to the shortest flip of its point."""
    rows = still_open(pairs, effort)
    if not len(rows):
        return
    attacked = pairs.shortest()[0][pairs.point[rows]]
    reach, goal = effort.reach(attacked), HAIR * effort.goal(attacked)
    in_box = effort.norm == 2 and effort.domain is not None
    if in_box or (effort.norm != 2 and form.p == 1):
        _ellipsoids(pairs, form, rows, reach, goal, effort, deadline)
        closed = pairs.bounds()[rows] >= effort.goal(attacked)
        rows, reach, goal = rows[~closed], reach[~closed], goal[~closed]
        if in_box or not len(rows):
            return
    limits = {"max_cells": effort.max_cells, "deadline": deadline}
    search = _cells_trees if effort.norm == 2 else _lines_trees
    trees, reach = search(pairs, form, rows, reach, goal, effort, limits)
    claim = Certificate(0.0, "cells") if effort.norm == 2 else lines_claim(effort.domain)
    for j, tree, limit in zip(rows.tolist(), trees, reach.tolist(), strict=True):
        if tree.bound <= pairs.certificates[j].radius:
            continue
        pair = form.of_pair(int(pairs.own[pairs.point[j]]), int(pairs.rival[j]))
        found = cells_certificate(tree, pair, limit, pairs.x[pairs.point[j]], 1.0, claim)
        if found.radius > pairs.certificates[j].radius:
            pairs.certificates[j] = found
    if effort.norm == 2:
        _help_attack(pairs, form, rows, trees, effort)


def _help_attack(pairs: Pairs, form: PowerForm, rows: Tensor, trees: list[Node], effort: Effort) -> None:
    """Shorter witnesses near the worst leaves of trees that did not close."""
    attacked = pairs.shortest()[0][pairs.point[rows]]
    goal = effort.goal(attacked)
    left = torch.nonzero(pairs.bounds()[rows] < goal)[:, 0]
    if not len(left):
        return
    rows, goal, reach = rows[left], goal[left], effort.reach(attacked)[left]
    towards = towards_leaves(
        _problem(pairs, form, rows, reach), form.W, [trees[k] for k in left.tolist()], goal
    )
    x, ones = pairs.x[pairs.point[rows]], torch.ones(len(rows)).double()
    delta, length = attack_from(pairs.margins(rows), x, ones, pairs.delta[rows], towards)
    shorter = (length < SHORTER * attacked[left]) & (length <= (effort.at or inf))
    pairs.delta[rows[shorter]], pairs.length[rows[shorter]] = delta[shorter], length[shorter]


def _problem(pairs: Pairs, form: PowerForm, rows: Tensor, reach: Tensor) -> Problem:
    """Some pairs, as ℓ2 cells see them."""
    x, votes = pairs.x[pairs.point[rows]], _votes(pairs, rows)
    return Problem(form.gram, x @ form.W.T + form.b, votes.abs(), votes > 0, reach, form.p)


def _ellipsoids(
    pairs: Pairs,
    form: PowerForm,
    rows: Tensor,
    reach: Tensor,
    goal: Tensor,
    effort: Effort,
    deadline: float,
) -> None:
    """ℓ∞, and ℓ2 in a box: one ellipsoid for each pair."""
    x, ones = pairs.x[pairs.point[rows]], torch.ones(len(rows)).double()
    delta = _near_witness(pairs, rows, goal, effort.norm)
    _, force = margin_gradient(pairs.margins(rows), x + delta, ones)
    every, domain = rows.tolist(), effort.domain
    problem = box_problem(form, x, _votes(pairs, rows), reach if effort.norm == 2 else goal, domain)
    forms = (form.of_pair(int(pairs.own[pairs.point[j]]), int(pairs.rival[j])) for j in every)
    asked = ((pair, point, 1.0) for pair, point in zip(forms, x, strict=True))
    if effort.norm == 2:
        limits = effort.max_cells, deadline
        found = ball_certificates(problem, (delta, force), goal, asked, domain, limits)
    else:
        found = box_certificates(problem, force, asked, lines_claim(domain), deadline)
    for j, better in zip(every, found, strict=False):
        if better.radius > pairs.certificates[j].radius:
            pairs.certificates[j] = better


def _near_witness(pairs: Pairs, rows: Tensor, reach: Tensor, norm: float) -> Float[Tensor, "m d"]:
    """A little before the best try at each pair, or where it has none before that of its point; no farther than `reach`."""
    _, best = pairs.shortest()
    of_pair = pairs.delta[rows].any(dim=1, keepdim=True)
    delta = torch.where(of_pair, pairs.delta[rows], pairs.delta[best][pairs.point[rows]])
    length = torch.linalg.vector_norm(delta, ord=norm, dim=1)
    return JUST_BEFORE * delta * (reach / length).clamp_max(1).unsqueeze(1)


def _cells_trees(
    pairs: Pairs, form: PowerForm, rows: Tensor, reach: Tensor, goal: Tensor, _effort: Effort, limits: Any
) -> tuple[list[Node], Tensor]:
    x, delta = pairs.x[pairs.point[rows]], _near_witness(pairs, rows, reach, 2)
    _, gradient = margin_gradient(pairs.margins(rows), x + delta, torch.ones(len(rows)).double())
    tau = reach / torch.linalg.vector_norm(gradient, dim=1).clamp_min(1e-300)
    problem = _problem(pairs, form, rows, reach)
    return prove(problem, (x + delta) @ form.W.T + form.b, tau, goal, **limits), reach


def _lines_trees(
    pairs: Pairs, form: PowerForm, rows: Tensor, reach: Tensor, goal: Tensor, effort: Effort, limits: Any
) -> tuple[list[Node], Tensor]:
    x, delta = pairs.x[pairs.point[rows]], _near_witness(pairs, rows, reach, inf)
    problem = box_problem(form, x, _votes(pairs, rows), reach, effort.domain)
    return prove_box(problem, (x + delta) @ form.W.T + form.b, goal, pairs.bounds()[rows], **limits)


def closed_forms(pairs: Pairs, norm: float) -> None:
    """Linear scores: the margin over the dual norm of its gradient, as the checker grants it, and the witness just beyond."""
    net = pairs.net
    V, c = net.V.detach(), net.c.detach()
    checked = checker.LinearScores(np.ascontiguousarray(V.numpy()), c.numpy())
    own, x = pairs.own[pairs.point], pairs.x[pairs.point]
    v = V[own] - V[pairs.rival]
    terms = torch.cat([v * x, (c[own] - c[pairs.rival]).unsqueeze(1)], dim=1)
    # sums of floats of these sizes may be off by this; a witness goes farther
    slack = 4 * (x.shape[1] + 4) * torch.finfo(torch.float64).eps * terms.abs().sum(dim=1)
    dual = torch.linalg.vector_norm(v, ord=2 if norm == 2 else 1, dim=1)
    length = (terms.sum(dim=1) + slack) / dual * (1 + ROUNDING)
    step = -v / dual.unsqueeze(1) if norm == 2 else -torch.sign(v)
    pairs.length = torch.where(dual > 0, length, torch.full_like(length, inf))
    pairs.delta = torch.where((dual > 0).unsqueeze(1), length.unsqueeze(1) * step, torch.zeros_like(step))
    with with_room():
        pairs.certificates = [
            Certificate(
                checked.radius(point.numpy(), int(o), int(r), norm) * (1 - SLACK), "closed form", norm
            )
            for point, o, r in zip(x, own, pairs.rival, strict=True)
        ]


def secular_forms(pairs: Pairs, *, attacked: bool = False) -> Pairs:
    """Quadratic scores: the nearest point that each rival wins, as the checker grants it; ℓ∞ attacks are there already."""
    norm = pairs.certificates[0].norm
    own = pairs.own[pairs.point]
    certificates, delta = nearest_flips(pairs.net, pairs.x[pairs.point], own, pairs.rival, norm)
    if not attacked:
        length = torch.linalg.vector_norm(delta, dim=1)
        pairs.length = torch.where(torch.isnan(length), inf, length * (1 + ROUNDING))
        pairs.delta = delta.nan_to_num(0.0)
    pairs.certificates = certificates
    return pairs


def norm_products(pairs: Pairs, norm: float) -> None:
    """margin/(‖v_y - v_r‖ Π‖W_l‖) for layers of slope at most 1, as the checker verifies it; nothing for other modules."""
    model = as_layers(pairs.net)
    if model is None:
        return
    own, points = pairs.own[pairs.point].tolist(), pairs.x[pairs.point].numpy()
    pairs.certificates = norm_certificates(model, points, own, pairs.rival.tolist(), norm)


def layers(pairs: Pairs, effort: Effort) -> None:
    """Deep ReLU networks: all rivals of a point proven at one radius, where that says more than norms do."""
    model = as_layers(pairs.net)
    if model is None or model.activation != "relu" or pairs.x.shape[1] > MOST_INPUTS:
        return
    attacked, best = pairs.shortest()
    bounds, goal = pairs.bounds().reshape(len(pairs.x), -1), effort.goal(attacked)
    for i in range(len(pairs.x)):
        known = float(bounds[i].min())
        if known >= (float(goal[i]) if effort.at else (1 - effort.gap) * float(attacked[i])):
            continue
        asked = Asked(
            model,
            pairs.x[i].numpy(),
            int(pairs.own[i]),
            int(pairs.rival[best[i]]),
            effort.norm,
            effort.domain,
        )
        limits = time.perf_counter() + effort.seconds_per_point, effort.max_cells
        if effort.at is None:
            found = farthest_proofs(asked, float(attacked[i]), effort.gap, limits, known)
        else:
            found = proofs_at(asked, float(goal[i]), limits) or {}
        for j in torch.nonzero(pairs.point == i)[:, 0].tolist():
            better = found.get(int(pairs.rival[j]))
            if better is not None and better.radius > pairs.certificates[j].radius:
                pairs.certificates[j] = better
