"""Brackets of classifiers with many scores: every rival of every point, attacked and proven together.

The radius of a point is the least over its rivals r of that of the margin f_y - f_r. Rivals need no attack of their own once they are
proven to be farther than the shortest witness: all proofs of a point speak of perturbations up to that one.
"""

import time
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.attacks import Along, Start, minimal_radius
from featureprism.attacks.boundary import shortened
from featureprism.attacks.gradient import descend, margin_gradient
from featureprism.attacks.rivals import AlongEach, NeuronMargins, pair_margins, towards_rivals
from featureprism.attacks.starts import FAN, fan
from featureprism.certificates.bracket import (
    BEYOND,
    HAIR,
    INTERRUPTED,
    check_radius,
    check_request,
    default_reach,
)
from featureprism.certificates.canonical import PowerForm
from featureprism.certificates.cells import Problem
from featureprism.certificates.deep import MOST_INPUTS, Asked, as_layers, farthest_proofs, proofs_at
from featureprism.certificates.ellipsoids import box_certificate
from featureprism.certificates.quadratics import nearest_flips
from featureprism.certificates.record import box_problem, cells_certificate, lines_claim, proven
from featureprism.certificates.rungs import crown_radius
from featureprism.certificates.search import Node, prove, prove_box
from featureprism.checker import linear as checker
from featureprism.checker.certificate import Certificate
from featureprism.checker.deep import granted
from featureprism.checker.models import Scores
from featureprism.geometry import Box, LpBall, check_domain
from featureprism.networks import LinearScores, QuadraticScores, ScoreNet, Tanh
from featureprism.records import Progress, RadiusBracket, silent
from featureprism.threads import one_thread

BATCH = 32  # points that are attacked and proven together
QUADRATIC_BATCH = 2048  # the same where each pair of classes needs its eigenvectors
TRIED = 3  # rivals of each point that are attacked before anything is proven: those nearest by a first-order estimate
STEPS = 40  # of descent at a radius in question
KNOWN = 1000  # points that may serve as targets of rays
JUST_BEFORE = 0.999  # share of the witness at which tangents are taken
ROUNDING = 1e-9  # relative, taken off bounds before the checker sees them, and off closed forms
SHARES = (1.0, 1 - 1e-6, 0.999, 0.9, 0.5)  # of a CROWN bound, until the checker grants one


@dataclass(frozen=True)
class Effort:
    """When a bracket is closed, and when to give up."""

    norm: float = 2
    gap: float = 0.01
    seconds_per_point: float = 1.0
    max_cells: int = 500
    upper: float | None = None
    domain: tuple[float, float] | None = None  # of every coordinate of a perturbed point
    at: float | None = None  # the one radius in question; None: how far each point holds

    def __post_init__(self) -> None:
        check_request(self.norm, self.gap, self.seconds_per_point)
        check_radius("upper", self.upper)
        check_radius("at", self.at)

    def goal(self, attacked: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """What has to be proven of each point: `attacked` up to the gap, or a hair more than `at`; 0 where nothing is left to ask."""
        if self.at is None:
            return torch.where(torch.isfinite(attacked), (1 - self.gap) * attacked, 0.0)
        return torch.where(attacked > self.at, HAIR * self.at, torch.zeros_like(attacked))

    def reach(self, attacked: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """How far proofs look: up to the witness, and hardly beyond the radius in question."""
        return attacked if self.at is None else attacked.clamp_max(BEYOND * self.at)


@dataclass
class _Pairs:
    """What is known of some points and their rivals: one row for each pair, filled in as attacks and proofs go on."""

    net: Any
    x: Float[Tensor, "n d"]
    own: Int[Tensor, " n"]
    point: Int[Tensor, " m"]
    rival: Int[Tensor, " m"]
    delta: Float[Tensor, "m d"]  # the shortest flip of each pair, or what came near; 0 where nothing is known
    length: Float[Tensor, " m"]  # the norm of a flip, inf where none is known
    certificates: list[Certificate]

    @classmethod
    def of(cls, net: Any, x: Tensor, own: Tensor, norm: float) -> "_Pairs":
        every = torch.ones(len(x), net.num_classes, dtype=torch.bool)
        every[torch.arange(len(x)), own] = False
        point, rival = torch.nonzero(every, as_tuple=True)
        m = len(point)
        nothing = [Certificate(0.0, "not certified", norm)] * m
        return cls(net, x, own, point, rival, x.new_zeros(m, x.shape[1]), x.new_full((m,), inf), nothing)

    def margins(self, rows: Tensor) -> nn.Module:
        """The margins of some pairs."""
        return pair_margins(self.net, self.own[self.point[rows]], self.rival[rows])

    def shortest(self) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """For each point the norm of its shortest flip, and the pair that it belongs to."""
        table = self.length.reshape(len(self.x), -1)
        least, column = table.min(dim=1)
        return least, torch.arange(len(self.x)) * table.shape[1] + column

    def bounds(self) -> Float[Tensor, " m"]:
        """What is proven of each pair."""
        return torch.tensor([c.radius for c in self.certificates], dtype=torch.float64)


@torch.no_grad()
@one_thread()
def class_radius(
    net: Any,
    x: Float[Tensor, "n d"],
    own: Int[Tensor, " n"],
    effort: Effort,
    *,
    targets: Float[Tensor, "t d"] | None = None,
    progress: Progress = silent,
) -> RadiusBracket:
    """Brackets of min{‖δ‖ : some other class scores at least as much as `own` at x + δ}; 0 where it does so already.

    `net` gives scores (n, k); with effort.domain = (lo, hi) every coordinate of x + δ stays between the two. One hidden layer of ReLU
    powers: attacks, CROWN and cells, every proof checked; several layers of ReLU: attacks, CROWN and quadratic proofs; of tanh:
    attacks and the product of norms; linear and quadratic scores: closed forms; any other module: attacks. Rays go towards `targets`
    (default: the points themselves) that the network takes for the rival. An interrupt keeps what is finished; the rest has the
    method "interrupted".
    """
    x = x.double()
    if effort.domain is not None:
        check_domain(x, effort.domain)
    scores = net(x)
    if wild := int((~torch.isfinite(scores)).any(dim=1).sum()):
        raise ValueError(
            f"The model gives NaN or infinite scores on {wild} of {len(x)} points; scale its weights or the points down."
        )
    ahead = scores.gather(1, own.unsqueeze(1)).squeeze(1)
    others = scores.scatter(1, own.unsqueeze(1), -inf)
    second = others.argmax(dim=1)
    right = ahead > others.amax(dim=1)
    targets = (x if targets is None else targets.double())[:KNOWN]
    known = targets, net(targets).argmax(dim=1)
    n = len(x)
    result = _Result.empty(x, second, ["misclassified" if not r else INTERRUPTED for r in right])
    result.attacked[~right] = 0.0
    left = torch.nonzero(right)[:, 0]
    progress((n - len(left)) / n)
    try:
        size = QUADRATIC_BATCH if isinstance(net, QuadraticScores) and effort.norm == 2 else BATCH
        for first in range(0, len(left), size):
            index = left[first : first + size]
            result.put(index, _bracketed(net, x[index], own[index], effort, known))
            progress((n - len(left) + first + len(index)) / n)
    except KeyboardInterrupt:
        pass  # what is done stays; the rest says so
    return replace(result.bracket(), label=own, predicted=torch.where(right, own, second))


@dataclass
class _Result:
    certified: Tensor
    attacked: Tensor
    witness: Tensor
    rival: Tensor
    method: list[str]
    certificates: list[dict[int, Certificate]]

    @classmethod
    def empty(cls, x: Tensor, rival: Tensor, method: list[str]) -> "_Result":
        zero = x.new_zeros(len(x))
        return cls(
            zero, torch.full_like(zero, inf), torch.zeros_like(x), rival.clone(), method, [{} for _ in x]
        )

    def put(self, index: Tensor, pairs: _Pairs) -> None:
        """Take over what is known of some points."""
        attacked, best = pairs.shortest()
        bounds = pairs.bounds().reshape(len(index), -1)
        least, weakest = bounds.min(dim=1)
        self.certified[index], self.attacked[index] = torch.minimum(least, attacked), attacked
        found = torch.isfinite(attacked)
        self.witness[index[found]] = pairs.delta[best[found]]
        self.rival[index[found]] = pairs.rival[best[found]]
        for row, i in enumerate(index.tolist()):
            of_point = range(row * bounds.shape[1], (row + 1) * bounds.shape[1])
            self.certificates[i] = {int(pairs.rival[j]): pairs.certificates[j] for j in of_point}
            self.method[i] = pairs.certificates[of_point[int(weakest[row])]].kind
            if any(
                pairs.certificates[j].kind == "deep" and bounds[row].min() == pairs.certificates[j].radius
                for j in of_point
            ):
                self.method[i] = "deep"  # all rivals are proven at one radius, the nearest by this

    def bracket(self) -> RadiusBracket:
        """The same as a bracket."""
        return RadiusBracket(
            self.certified,
            self.attacked,
            tuple(self.method),
            self.witness,
            tuple(self.certificates),
            rival=self.rival,
        )


def _bracketed(net: Any, x: Tensor, own: Tensor, effort: Effort, known: tuple[Tensor, Tensor]) -> _Pairs:
    """A batch of points that are classified correctly."""
    pairs = _Pairs.of(net, x, own, effort.norm)
    if isinstance(net, LinearScores):
        _closed_forms(pairs, effort.norm)
        if effort.domain is None:
            return pairs
        pairs.length = torch.full_like(pairs.length, inf)  # those witnesses may lie outside
    if isinstance(net, QuadraticScores) and effort.norm == 2 and effort.domain is None:
        return _secular_forms(pairs)
    estimate = _first_order(pairs, effort.norm).reshape(len(x), -1)
    rank = estimate.argsort(dim=1).argsort(dim=1).flatten()
    nearest = torch.nonzero(rank < TRIED)[:, 0]
    if effort.at is not None:
        _flip_within(pairs, nearest, effort, known)
    else:
        _attack(pairs, nearest, effort, known, rounds=0)
        _attack(pairs, pairs.shortest()[1], effort, known, rounds=8)
    if isinstance(net, QuadraticScores):  # ‖δ‖_∞ ≥ ‖δ‖₂/√d, and within a domain everything is farther
        _secular_forms(pairs, attacked=True)
        return pairs
    form = _form(net)
    if form is None:
        if not isinstance(net, LinearScores):
            _norm_products(pairs, effort.norm)
            _layers(pairs, effort)
        if effort.at is not None:
            _attack(pairs, _still_open(pairs, effort), effort, known, rounds=8)
        return pairs
    deadline = time.perf_counter() + effort.seconds_per_point * len(x)
    _crown(pairs, form, effort)
    _cells(pairs, form, effort, deadline)
    left = _still_open(pairs, effort)
    if effort.at is not None:
        _attack(pairs, left, effort, known, rounds=8)
    elif len(
        untried := left[rank[left] >= TRIED]
    ):  # a proof that fails may do so because there is a shorter witness
        before, _ = pairs.shortest()
        _attack(pairs, untried, effort, known, rounds=0)
        if bool((pairs.shortest()[0] < before).any()):
            _cells(pairs, form, effort, deadline)
    return pairs


def _first_order(pairs: _Pairs, norm: float) -> Float[Tensor, " m"]:
    """margin/‖∇margin‖ of every pair, in the dual norm."""
    every = torch.arange(len(pairs.point))
    margin, gradient = margin_gradient(
        pairs.margins(every), pairs.x[pairs.point], torch.ones(len(every)).double()
    )
    return margin / torch.linalg.vector_norm(gradient, ord=2 if norm == 2 else 1, dim=1).clamp_min(1e-300)


def _flip_within(pairs: _Pairs, rows: Tensor, effort: Effort, known: tuple[Tensor, Tensor]) -> None:
    """Projected descent at the radius in question; what flips is shortened to the boundary."""
    net, x = pairs.margins(rows), pairs.x[pairs.point[rows]]
    assert effort.at is not None
    ball = LpBall(effort.norm, effort.at, Box.around(x, effort.domain))
    ones = torch.ones(len(x)).double()
    delta, margin, _ = descend(net, x, ones, ball, [towards_rivals(x, pairs.rival[rows], *known)], STEPS)
    flipped = torch.nonzero(margin <= 0)[:, 0]
    if len(flipped):
        few = pairs.margins(rows[flipped])
        delta[flipped] = shortened(few, x[flipped], ones[flipped], delta[flipped])
    length = torch.linalg.vector_norm(delta, ord=effort.norm, dim=1)
    pairs.delta[rows], pairs.length[rows] = (
        delta,
        torch.where(margin <= 0, length, torch.full_like(length, inf)),
    )


def _attack(
    pairs: _Pairs,
    rows: Tensor,
    effort: Effort,
    known: tuple[Tensor, Tensor],
    rounds: int,
) -> None:
    """Look for shorter flips of some pairs; those of the pair itself are starts too."""
    if not len(rows):
        return
    net, x = pairs.margins(rows), pairs.x[pairs.point[rows]]
    own_starts: list[Start] = [
        towards_rivals(x, pairs.rival[rows], *known),
        AlongEach(pairs.delta[rows].unsqueeze(0)),
    ]
    if isinstance(net, NeuronMargins):
        own_starts.append(AlongEach(net.strong_directions()))
    if x.shape[1] in FAN:
        own_starts.append(Along(fan(x.shape[1])))
    reach = effort.at or effort.upper or default_reach(pairs.net, x, effort.norm)
    found = minimal_radius(
        net,
        x,
        torch.ones(len(x)).double(),
        starts=own_starts,
        upper=reach,
        norm=effort.norm,
        rounds=rounds,
        domain=effort.domain,
    )
    shorter = found.radius < pairs.length[rows]
    pairs.length[rows[shorter]], pairs.delta[rows[shorter]] = found.radius[shorter], found.delta[shorter]


def _form(net: Any) -> PowerForm | None:
    """The neurons of all margins, for networks that certificates speak of; the weights are those of each pair."""
    if not isinstance(net, ScoreNet) or isinstance(net.activation, Tanh):
        return None
    W, V, b = net.with_bias_neuron()
    p = float(net.activation.p)
    given, offsets, votes, shifts = (t.detach().numpy().copy() for t in (net.W, net.b, net.V, net.c))
    scores = Scores(given, offsets, votes, shifts, p)
    return PowerForm(W, b, V.new_zeros(len(W)), p, scores.margin(0, 1)[0], scores)


def _votes(pairs: _Pairs, rows: Tensor) -> Float[Tensor, "m h"]:
    votes = pairs.margins(rows)
    assert isinstance(votes, NeuronMargins)
    return votes.votes


def _crown(pairs: _Pairs, form: PowerForm, effort: Effort) -> None:
    """CROWN for every pair, as the checker grants it, no farther than the shortest flip of the point."""
    norm, attacked = effort.norm, effort.reach(pairs.shortest()[0])[pairs.point]
    reach = torch.where(torch.isfinite(attacked), attacked, attacked.new_tensor(1e6))
    every = torch.arange(len(pairs.point))
    t = pairs.x[pairs.point] @ form.W.T + form.b
    bounds = crown_radius(form, t, _votes(pairs, every), norm, reach) * (1 - ROUNDING)
    for j, bound in enumerate(bounds.tolist()):
        own = int(pairs.own[pairs.point[j]])
        for share in SHARES if bound > 0 else ():
            claim = Certificate(share * bound, "crown", norm)
            if proven(claim, form.of_pair(own, int(pairs.rival[j])), pairs.x[pairs.point[j]], 1.0) > 0:
                pairs.certificates[j] = claim
                break


def _still_open(pairs: _Pairs, effort: Effort) -> Int[Tensor, " o"]:
    """The pairs that are not proven as far as is asked of their point."""
    goal = effort.goal(pairs.shortest()[0])[pairs.point]
    return torch.nonzero(pairs.bounds() < goal)[:, 0]


def _cells(pairs: _Pairs, form: PowerForm, effort: Effort, deadline: float) -> None:
    """Branch and bound on every open pair, about perturbations up to the shortest flip of its point."""
    rows = _still_open(pairs, effort)
    if not len(rows):
        return
    attacked = pairs.shortest()[0][pairs.point[rows]]
    reach, goal = effort.reach(attacked), HAIR * effort.goal(attacked)
    if effort.norm != 2 and form.p == 1:
        _ellipsoids(pairs, form, rows, goal, effort, deadline)
        closed = pairs.bounds()[rows] >= effort.goal(attacked)
        rows, reach, goal = rows[~closed], reach[~closed], goal[~closed]
        if not len(rows):
            return
    limits = {"max_cells": effort.max_cells, "deadline": deadline}
    search = _cells_trees if effort.norm == 2 else _lines_trees
    trees, reach = search(pairs, form, rows, reach, goal, effort, limits)
    claim = Certificate(0.0, "cells") if effort.norm == 2 else lines_claim(effort.domain)
    for j, tree, limit in zip(rows.tolist(), trees, reach.tolist(), strict=True):
        pair = form.of_pair(int(pairs.own[pairs.point[j]]), int(pairs.rival[j]))
        found = cells_certificate(tree, pair, limit, pairs.x[pairs.point[j]], 1.0, claim)
        if found.radius > pairs.certificates[j].radius:
            pairs.certificates[j] = found


def _ellipsoids(
    pairs: _Pairs, form: PowerForm, rows: Tensor, goal: Tensor, effort: Effort, deadline: float
) -> None:
    """ℓ∞: one ellipsoid for each pair, at the radius asked for or a little below."""
    x, delta = pairs.x[pairs.point[rows]], _near_witness(pairs, rows, goal, inf)
    _, force = margin_gradient(pairs.margins(rows), x + delta, torch.ones(len(rows)).double())
    problem = box_problem(form, x, _votes(pairs, rows), goal, effort.domain)
    for k, j in enumerate(rows.tolist()):
        if time.perf_counter() > deadline:
            break
        pair = form.of_pair(int(pairs.own[pairs.point[j]]), int(pairs.rival[j]))
        one = problem.rows(torch.tensor([k]))
        found = box_certificate(pair, one, force[k], x[k], 1.0, lines_claim(effort.domain))
        if found.radius > pairs.certificates[j].radius:
            pairs.certificates[j] = found


def _near_witness(pairs: _Pairs, rows: Tensor, reach: Tensor, norm: float) -> Float[Tensor, "m d"]:
    """A little before the best try at each pair, or where it has none before that of its point; no farther than `reach`."""
    _, best = pairs.shortest()
    of_pair = pairs.delta[rows].any(dim=1, keepdim=True)
    delta = torch.where(of_pair, pairs.delta[rows], pairs.delta[best][pairs.point[rows]])
    length = torch.linalg.vector_norm(delta, ord=norm, dim=1)
    return JUST_BEFORE * delta * (reach / length).clamp_max(1).unsqueeze(1)


def _cells_trees(
    pairs: _Pairs, form: PowerForm, rows: Tensor, reach: Tensor, goal: Tensor, _effort: Effort, limits: Any
) -> tuple[list[Node], Tensor]:
    x, votes, delta = pairs.x[pairs.point[rows]], _votes(pairs, rows), _near_witness(pairs, rows, reach, 2)
    _, gradient = margin_gradient(pairs.margins(rows), x + delta, torch.ones(len(rows)).double())
    tau = reach / torch.linalg.vector_norm(gradient, dim=1).clamp_min(1e-300)
    problem = Problem(form.gram, x @ form.W.T + form.b, votes.abs(), votes > 0, reach, form.p)
    return prove(problem, (x + delta) @ form.W.T + form.b, tau, goal, **limits), reach


def _lines_trees(
    pairs: _Pairs, form: PowerForm, rows: Tensor, reach: Tensor, goal: Tensor, effort: Effort, limits: Any
) -> tuple[list[Node], Tensor]:
    x, delta = pairs.x[pairs.point[rows]], _near_witness(pairs, rows, reach, inf)
    problem = box_problem(form, x, _votes(pairs, rows), reach, effort.domain)
    return prove_box(problem, (x + delta) @ form.W.T + form.b, goal, **limits)


def _closed_forms(pairs: _Pairs, norm: float) -> None:
    """Linear scores: the margin over the dual norm of its gradient, as the checker grants it, and the witness just beyond."""
    net = pairs.net
    V, c = net.V.detach(), net.c.detach()
    checked = checker.LinearScores(V.numpy(), c.numpy())
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
    pairs.certificates = [
        Certificate(checked.radius(point.numpy(), int(o), int(r), norm), "closed form", norm)
        for point, o, r in zip(x, own, pairs.rival, strict=True)
    ]


def _secular_forms(pairs: _Pairs, *, attacked: bool = False) -> _Pairs:
    """Quadratic scores: the nearest point that each rival wins, as the checker grants it; ℓ∞ attacks are there already."""
    norm = pairs.certificates[0].norm
    own = pairs.own[pairs.point]
    radius, delta = nearest_flips(pairs.net, pairs.x[pairs.point], own, pairs.rival, norm)
    if not attacked:
        length = torch.linalg.vector_norm(delta, dim=1)
        pairs.length = torch.where(torch.isnan(length), inf, length * (1 + ROUNDING))
        pairs.delta = delta.nan_to_num(0.0)
    pairs.certificates = [Certificate(r, "closed form", norm) for r in radius.tolist()]
    return pairs


def _norm_products(pairs: _Pairs, norm: float) -> None:
    """margin/(‖v_y - v_r‖ Π‖W_l‖) for layers of slope at most 1, as the checker grants it; nothing for other modules."""
    model = as_layers(pairs.net)
    if model is None:
        return
    for j, (i, rival) in enumerate(zip(pairs.point.tolist(), pairs.rival.tolist(), strict=True)):
        claim = Certificate(1.0, "norm product", norm)
        pairs.certificates[j] = replace(
            claim, radius=granted(claim, model, pairs.x[i].numpy(), int(pairs.own[i]), rival)
        )


def _layers(pairs: _Pairs, effort: Effort) -> None:
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
            found = proofs_at(asked, float(goal[i])) or {}
        for j in torch.nonzero(pairs.point == i)[:, 0].tolist():
            better = found.get(int(pairs.rival[j]))
            if better is not None and better.radius > pairs.certificates[j].radius:
                pairs.certificates[j] = better
