"""Closing the brackets of one hidden layer with one output: cheap rungs, then branch and bound where they leave a bracket open."""

import time
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from featureprism.attacks import AttackedRadius
from featureprism.attacks.gradient import margin_gradient
from featureprism.certificates.ball_in_box import ball_certificates
from featureprism.certificates.canonical import PowerForm
from featureprism.certificates.cells import Problem
from featureprism.certificates.ellipsoids import box_certificates
from featureprism.certificates.helped import attack_from, towards_leaves
from featureprism.certificates.record import (
    box_problem,
    cells_certificate,
    crown_certificate,
    lines_claim,
    lipschitz_certificate,
)
from featureprism.certificates.rungs import crown_radius, lipschitz_radius
from featureprism.certificates.search import Node, prove, prove_box
from featureprism.checker.certificate import Certificate
from featureprism.networks import TwoLayerNet
from featureprism.records import Progress

BATCH = 32  # points that are proven together
JUST_BEFORE = 0.999  # share of the witness where slopes are read: on it, own ReLUs that the attack switched off are dead
SHORTER = 1 - 1e-6  # of a witness: what counts
HAIR = 1 + 1e-6  # more than asked, so that rounding in the checker does not reopen a bracket


def rungs(
    form: PowerForm, x: Tensor, y: Tensor, margin: Tensor, norm: float, attacked: Tensor
) -> list[Certificate]:
    """The better of the Lipschitz bound and CROWN for every point, as the checker verifies it."""
    right = margin > 0
    reach = torch.where(torch.isfinite(attacked), attacked, attacked.new_tensor(1e6))
    crown = crown_radius(form, x @ form.W.T + form.b, y.unsqueeze(1) * form.weight, norm, reach)
    smooth = lipschitz_radius(form, margin) if norm == 2 else torch.zeros_like(margin)
    certificates = []
    for i in range(len(x)):
        certificate, bound = lipschitz_certificate, float(smooth[i])
        if not smooth[i] > crown[i]:
            certificate, bound = partial(crown_certificate, norm=norm), float(crown[i])
        found = Certificate(0.0, "crown", norm)
        if right[i] and bound > 0:
            found = certificate(form, x[i], float(y[i]), bound)
        certificates.append(replace(found, radius=min(found.radius, float(attacked[i]))))
    return certificates


def close(
    net: TwoLayerNet,
    form: PowerForm,
    x: Tensor,
    y: Tensor,
    attacked: AttackedRadius,
    certificates: list[Certificate],
    gap: float,
    effort: tuple[float, tuple[float, float] | None, float, int],
    progress: Progress,
) -> list[int]:
    """Branch and bound on every point whose bracket is still open; certificates are replaced where it proves more.

    Returns the points that an interrupt left untried.
    """
    goal = (1 - gap) * attacked.radius
    witnessed = torch.isfinite(attacked.radius) & (attacked.radius > 0)
    is_open = [bool(witnessed[i]) and c.radius < float(goal[i]) for i, c in enumerate(certificates)]
    left = [i for i, still in enumerate(is_open) if still]
    done = len(x) - len(left)
    progress(done / len(x))
    first = 0
    try:
        for first in range(0, len(left), BATCH):
            batch = left[first : first + BATCH]
            in_box = effort[0] == 2 and effort[1] is not None
            if in_box or (effort[0] != 2 and form.p == 1):
                _ellipsoids(net, form, x, y, attacked, certificates, goal, batch, effort)
            if not in_box:
                shorter = _by_trees(net, form, x, y, attacked, certificates, goal, batch, effort)
                goal[shorter] = (1 - gap) * attacked.radius[shorter]
                _by_trees(net, form, x, y, attacked, certificates, goal, shorter, effort)
            done += len(batch)
            progress(done / len(x))
    except KeyboardInterrupt:
        return left[first:]
    return []


def _by_trees(
    net: TwoLayerNet,
    form: PowerForm,
    x: Tensor,
    y: Tensor,
    attacked: AttackedRadius,
    certificates: list[Certificate],
    goal: Tensor,
    batch: list[int],
    effort: tuple[float, tuple[float, float] | None, float, int],
) -> list[int]:
    """A tree for every point of a batch that is still open; certificates are replaced where it proves more.

    Returns the points that stayed open and whose witness (ℓ2) became shorter because of their trees.
    """
    claim = Certificate(0.0, "cells") if effort[0] == 2 else lines_claim(effort[1])
    batch = [i for i in batch if certificates[i].radius < float(goal[i])]
    if not batch:
        return []
    index = torch.tensor(batch)
    known = torch.tensor([certificates[i].radius for i in batch], dtype=torch.float64)
    asked = goal[index], known
    trees, reach = _trees(net, form, x[index], y[index], attacked, index, asked, effort)
    for i, tree, limit in zip(batch, trees, reach.tolist(), strict=True):
        if tree.bound <= certificates[i].radius:
            continue
        found = cells_certificate(tree, form, limit, x[i], float(y[i]), claim)
        if found.radius > certificates[i].radius:
            certificates[i] = found
    left = [k for k, i in enumerate(batch) if certificates[i].radius < float(goal[i])]
    if effort[0] != 2 or not left:
        return []
    return _helped(net, form, x, y, attacked, goal, index[left], [trees[k] for k in left])


def _helped(
    net: TwoLayerNet,
    form: PowerForm,
    x: Tensor,
    y: Tensor,
    attacked: AttackedRadius,
    goal: Tensor,
    index: Tensor,
    trees: list[Node],
) -> list[int]:
    """The points that have a shorter witness near the worst leaves of their trees; it takes the place of the one before."""
    problem = _problem(form, x[index], y[index], attacked.radius[index])
    towards = towards_leaves(problem, form.W, trees, goal[index])
    delta, radius = attack_from(net, x[index], y[index], attacked.delta[index], towards)
    shorter = radius < SHORTER * attacked.radius[index]
    rows = index[shorter]
    # the flip first: an interrupt leaves a radius too long, none too short
    attacked.delta[rows], attacked.radius[rows] = delta[shorter], radius[shorter]
    return rows.tolist()


def _ellipsoids(
    net: TwoLayerNet,
    form: PowerForm,
    x: Tensor,
    y: Tensor,
    attacked: AttackedRadius,
    certificates: list[Certificate],
    goal: Tensor,
    batch: list[int],
    effort: tuple[float, tuple[float, float] | None, float, int],
) -> None:
    """ℓ∞ of ReLUs, and ℓ2 in a box: one ellipsoid for each open point; certificates are replaced where it proves more."""
    norm, domain, seconds, max_cells = effort
    index, goal = torch.tensor(batch), HAIR * goal[batch]
    delta = JUST_BEFORE * attacked.delta[index]
    _, force = margin_gradient(net, x[index] + delta, y[index])
    votes = y[index].unsqueeze(1) * form.weight
    problem = box_problem(form, x[index], votes, goal if norm != 2 else attacked.radius[index], domain)
    deadline = time.perf_counter() + seconds * len(batch)
    asked = ((form, x[i], float(y[i])) for i in batch)
    if norm == 2:
        found = ball_certificates(problem, (delta, force), goal, asked, domain, (max_cells, deadline))
    else:
        found = box_certificates(problem, force, asked, lines_claim(domain), deadline)
    for i, better in zip(batch, found, strict=False):
        if better.radius > certificates[i].radius:
            certificates[i] = better


def _trees(
    net: TwoLayerNet,
    form: PowerForm,
    x: Tensor,
    y: Tensor,
    attacked: AttackedRadius,
    index: Tensor,
    asked: tuple[Tensor, Tensor],
    effort: tuple[float, tuple[float, float] | None, float, int],
) -> tuple[list[Any], Tensor]:
    """A tree for every point, and how far it speaks; `asked`: the radii to prove, and those that are proven already."""
    norm, domain, seconds_per_point, max_cells = effort
    limits: Any = {
        "max_cells": max_cells,
        "deadline": time.perf_counter() + seconds_per_point * len(x),
    }
    radius, delta = attacked.radius[index], JUST_BEFORE * attacked.delta[index]
    at_witness = (x + delta) @ form.W.T + form.b
    goal = HAIR * asked[0]
    if norm != 2:
        problem = box_problem(form, x, y.unsqueeze(1) * form.weight, radius, domain)
        return prove_box(problem, at_witness, goal, asked[1], **limits)
    _, gradient = margin_gradient(net, x + delta, y)
    tau = radius / torch.linalg.vector_norm(gradient, dim=1).clamp_min(1e-300)
    return prove(_problem(form, x, y, radius), at_witness, tau, goal, **limits), radius


def _problem(form: PowerForm, x: Tensor, y: Tensor, reach: Tensor) -> Problem:
    """Points before their network, as ℓ2 cells see them."""
    own = y.unsqueeze(1) * form.weight > 0
    return Problem(form.gram, x @ form.W.T + form.b, form.weight.abs().expand_as(own), own, reach, form.p)
