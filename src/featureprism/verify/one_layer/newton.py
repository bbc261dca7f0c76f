"""Newton's method for cells of ReLUs (p = 1): all multipliers and envelopes at once, for many cells together.

Neurons that no perturbation of the cell turns on or off are linear; their sum is one row of the system, the others have one unknown
each:

    neuron for the true class      its slope α in (0, 1)                 γ = τ A α
    neuron for the target class    log c, the place of its quadratic     γ = -τ A q1, e = τ A q2
    cut neuron                     n > 0, the cut's multiplier over τ    γ = ± τ n

Cuts of ReLUs are at 0. The bound D of cells.py is a concave function of what the multipliers make of each neuron. A barrier, μ log det
of the quadratic form and μ log of every distance to an edge, makes it smooth: t then has a mean and a variance at the minimum, and the
quadratic of a neuron is best where it touches ReLU at the two values that such a t would take. μ falls once a Newton step promises
little; every step ends with multipliers that prove something.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featureprism.verify.one_layer.cells import Cells, Problem, Proof
from featureprism.verify.one_layer.cells import evaluate as evaluate_proof
from featureprism.verify.one_layer.envelopes import Quadratic

LEAST_CENTRE = 0.3  # share of ‖w‖·reach, at the start
INSIDE = 0.02  # how far slopes that are taken over stay away from 0 and 1
BARRIER, LAST_BARRIER = 1e-3, 1e-7  # of reach²: its weight at the start, and at the end
FALL = 0.1  # of the barrier's weight, once the Newton step gains less than SHORT times that weight
SHORT = 3.0
RIDGE = 1e-10  # relative, of the system that is solved
TO_EDGE = 0.95  # of the way to where a slope or multiplier would leave its interval
LONGEST = 1.5  # a step of log c or log τ
BACK = (1.0, 0.5, 0.2, 0.05)  # shares of a step that are tried
ENTRIES = 2_000_000  # of the matrices of all cells that are solved together


@dataclass(frozen=True)
class Hinges:
    """Cells in terms of the neurons that are not linear in them: others, those of the label and cut ones, last the linear sum."""

    K: Float[Tensor, "m u1 u1"]
    t0: Float[Tensor, "m u1"]
    size: Float[Tensor, "m u"]  # A_j
    low: Float[Tensor, "m u"]
    high: Float[Tensor, "m u"]
    other: Bool[Tensor, "m u"]
    for_label: Bool[Tensor, "m u"]
    side: Float[Tensor, "m u"]  # of a cut: -1 t ≥ 0, +1 t ≤ 0, 0 none
    num_curved: int  # others stand before this place
    neuron: Int[Tensor, "m u"]
    reach: Float[Tensor, " m"]

    def rows(self, index: Tensor) -> "Hinges":
        """Some of the cells."""
        parts: dict[str, Any] = {n: v if isinstance(v, int) else v[index] for n, v in self.__dict__.items()}
        return Hinges(**parts)


@dataclass(frozen=True)
class Unknowns:
    """log τ, and α, log c or n of each neuron."""

    log_tau: Float[Tensor, " m"]
    each: Float[Tensor, "m u"]

    def rows(self, index: Tensor) -> "Unknowns":
        """Those of some cells."""
        return Unknowns(self.log_tau[index], self.each[index])


def quadratics(log_c: Tensor, low: Tensor, high: Tensor) -> tuple[Quadratic, Quadratic]:
    """(q0, q1, q2) above ReLU on [low, high], low < 0 < high, and their derivatives by log c.

    The quadratic touches at c, or through the end of the interval if that comes first, and at -c likewise; beyond both ends its
    curvature falls like 1/c, down to the chord.
    """
    c, left = log_c.exp(), -low
    width = high + left
    inside_high, inside_low = c <= high, c <= left
    # t + ½k(t - c)²: k from the other side, at -c or at low;  ½k(t + c)²: k at c or at high
    at = torch.where(inside_high, torch.minimum(c, left), torch.minimum(c, high))
    k = 2 * at / (c + at) ** 2
    dk = torch.where(inside_high & inside_low, -k, -2 * k * c / (c + at))
    sign = torch.where(inside_high, -1.0, 1.0)
    tangent = k * c**2 / 2, torch.where(inside_high, 1.0, 0.0) + sign * k * c, k
    slope = dk * c**2 / 2 + k * c**2, sign * (dk + k) * c, dk
    most = 2 * torch.minimum(high, left) / width**2
    bend = most * torch.maximum(high, left) / c
    chord = high / width
    ends = chord * left - bend * left * high / 2, chord - bend * (high - left) / 2, bend
    falls = bend * left * high / 2, bend * (high - left) / 2, -bend
    by_ends = ~inside_high & ~inside_low
    return (
        Quadratic(*(torch.where(by_ends, a, b) for a, b in zip(ends, tangent, strict=True))),
        Quadratic(*(torch.where(by_ends, a, b) for a, b in zip(falls, slope, strict=True))),
    )


def reduced(problem: Problem, cells: Cells) -> Hinges:
    """The neurons that count one by one, and the sum of those that are linear on the cell."""
    has_say = problem.size > 0
    loose = (cells.low < 0) & (cells.high > 0) & has_say
    other, for_label = loose & ~problem.for_label, loose & problem.for_label
    side = torch.isfinite(cells.ceiling).to(problem.t0.dtype) - torch.isfinite(cells.floor).to(
        problem.t0.dtype
    )
    rank = 2.0 * other + 1.0 * (for_label | ((side != 0) & ~other))
    curved = int(other.sum(dim=1).max())
    rest = int((rank == 1).sum(dim=1).max())
    first = (rank == 2).to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :curved]
    second = (rank == 1).to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :rest]
    neuron = torch.cat([first, second], dim=1)
    valid = torch.cat([rank.gather(1, first) == 2, rank.gather(1, second) == 1], dim=1)

    def taken(values: Tensor, otherwise: float | bool = 0.0) -> Tensor:
        return torch.where(valid, values.gather(1, neuron), torch.full_like(values[:, :1], otherwise))

    linear = torch.where(cells.low >= 0, problem.size, torch.zeros_like(problem.size))
    linear = torch.where(problem.for_label, linear, -linear)
    along = linear @ problem.gram
    u = neuron.shape[1]
    K = problem.t0.new_zeros(len(neuron), u + 1, u + 1)
    K[:, :u, :u] = problem.gram[neuron.unsqueeze(2), neuron.unsqueeze(1)]
    K[:, :u, :u] *= valid.unsqueeze(2) & valid.unsqueeze(1)
    K[:, u, :u] = K[:, :u, u] = taken(along)
    K[:, u, u] = (along * linear).sum(dim=1)
    t0 = torch.cat([taken(problem.t0), (linear * problem.t0).sum(dim=1, keepdim=True)], dim=1)
    return Hinges(
        K,
        t0,
        taken(problem.size),
        taken(cells.low, -1.0),
        taken(cells.high, 1.0),
        taken(other, False),
        taken(for_label, False),
        torch.where(taken(loose, False), 0.0, taken(side)),
        curved,
        neuron,
        problem.reach,
    )


def start(hinges: Hinges) -> Unknowns:
    """Quadratics about where the neurons stand, slopes of the chords, and a τ at which lines alone would go half as far."""
    spread = hinges.K.diagonal(dim1=1, dim2=2)[:, :-1].sqrt()
    t, reach, size = hinges.t0[:, :-1], hinges.reach.unsqueeze(1), hinges.size
    centre = torch.maximum(t.abs(), LEAST_CENTRE * spread * reach).clamp_min(1e-12)
    slope = (hinges.high / (hinges.high - hinges.low)).clamp(0.05, 0.95)
    mean = size.sum(dim=1, keepdim=True) / (size > 0).sum(dim=1, keepdim=True).clamp_min(1)
    each = torch.where(hinges.other, centre.log(), torch.where(hinges.for_label, slope, 0.1 * mean + 1e-300))
    q, _ = quadratics(torch.where(hinges.other, each, torch.zeros_like(each)), hinges.low, hinges.high)
    lines = torch.where(hinges.other, -size * q.q1, torch.where(hinges.for_label, size * slope, 0.0))
    lines = torch.cat([lines, torch.ones_like(reach)], dim=1).unsqueeze(2)
    length = (lines.transpose(1, 2) @ hinges.K @ lines).flatten().clamp_min(0).sqrt()
    root = torch.where(hinges.other, size * q.q2, torch.zeros_like(size)).sqrt().unsqueeze(2)
    curvature = (root * hinges.K[:, :-1, :-1] * root.transpose(1, 2)).abs().sum(dim=2)
    steepest = torch.cat([curvature, length.unsqueeze(1) / reach], dim=1).amax(dim=1)
    return Unknowns((0.5 / steepest.clamp_min(1e-12)).log(), each)


def from_proof(hinges: Hinges, proof: Proof) -> Unknowns:
    """The unknowns of a proof of a larger cell."""
    start_each = start(hinges).each

    def taken(values: Tensor) -> Tensor:
        return values.gather(1, hinges.neuron)

    left = -hinges.low
    most = 2 * torch.minimum(hinges.high, left) * torch.maximum(hinges.high, left) / (hinges.high + left) ** 2
    by_ends = most / taken(proof.kappa).clamp_min(1e-300)
    centre = taken(proof.centre).abs()
    centre = torch.where(torch.isnan(centre), by_ends, centre).clamp(1e-12, 1e12)
    nu = torch.where(hinges.side > 0, taken(proof.nu_ceiling), taken(proof.nu_floor)) / proof.tau.unsqueeze(1)
    each = torch.where(hinges.for_label, taken(proof.slope).clamp(INSIDE, 1 - INSIDE), start_each)
    each = torch.where(hinges.other, centre.log(), torch.where((hinges.side != 0) & (nu > 0), nu, each))
    return Unknowns(proof.tau.log(), each)


def as_proof(problem: Problem, cells: Cells, hinges: Hinges, unknowns: Unknowns) -> Proof:
    """The same as slopes, centres and multipliers of all neurons, with the bound that they prove."""
    each, tau = unknowns.each, unknowns.log_tau.exp()
    c = torch.where(hinges.other, each, torch.zeros_like(each)).exp()
    left = -hinges.low
    by_ends = (c > hinges.high) & (c > left)
    most = 2 * torch.minimum(hinges.high, left) / (hinges.high + left) ** 2
    bend = torch.where(by_ends, most * torch.maximum(hinges.high, left) / c, torch.zeros_like(c))
    centre = torch.where(by_ends, torch.nan, torch.where(c <= hinges.high, c, -c))
    nu = torch.where(hinges.side != 0, tau.unsqueeze(1) * each, torch.zeros_like(each))
    zero = torch.zeros_like(problem.t0)

    def put(base: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        padded = torch.cat([base, zero[:, :1]], dim=1)  # what is not meant goes beyond the end
        place = torch.where(mask, hinges.neuron, torch.full_like(hinges.neuron, base.shape[1]))
        return padded.scatter(1, place, values)[:, :-1]

    proof = Proof(
        tau,
        put((cells.low >= 0).to(zero.dtype), each, hinges.for_label),
        put(torch.ones_like(zero), centre, hinges.other),
        put(zero, bend, hinges.other),
        put(zero, nu, hinges.side < 0),
        put(zero, nu, hinges.side > 0),
        torch.zeros_like(tau),
        problem.t0,
    )
    return evaluate_proof(problem, cells, proof)


def overestimate(problem: Problem, cells: Cells, proof: Proof) -> Float[Tensor, "m h"]:
    """What a cut at each neuron could gain: A_j (chord - ReLU)(t_j), the chord between the places where its quadratic touches.

    t_j is a mean: the relaxed problem may give a neuron both values at once. -1 for neurons that no cut helps.
    """
    reaches = proof.centre.abs().nan_to_num(torch.inf)
    low, high = torch.maximum(cells.low, -reaches), torch.minimum(cells.high, reaches)
    t = torch.minimum(torch.maximum(proof.t, low), high)
    gap = high * (t - low) / (high - low).clamp_min(1e-300) - t.clamp_min(0)
    helps = ~problem.for_label & (problem.size > 0) & (cells.low < 0) & (cells.high > 0)
    return torch.where(helps, problem.size * gap.clamp_min(0), torch.full_like(gap, -1.0))


@dataclass(frozen=True)
class Point:
    """What unknowns prove, D, the barrier's sum, and all that a Newton step needs; nothing of it where `good` is False."""

    good: Bool[Tensor, " m"]
    value: Float[Tensor, " m"]
    barrier: Float[Tensor, " m"]
    t: Float[Tensor, "m u1"]
    gamma: Float[Tensor, "m u1"]
    e: Float[Tensor, "m u"]
    half: Float[Tensor, "m a u1"]  # S = K + halfᵀ half
    q: Quadratic
    dq: Quadratic  # by log c

    def rows(self, index: Tensor) -> "Point":
        """Those of some cells."""
        return Point(**{n: _each(lambda part: part[index], v) for n, v in self.__dict__.items()})

    def where(self, chosen: Tensor, other: "Point") -> "Point":
        """Row by row one of two."""

        def pick(a: Tensor, b: Tensor) -> Tensor:
            return torch.where(chosen.reshape(-1, *([1] * (a.ndim - 1))), a, b)

        return Point(**{n: _each(pick, v, getattr(other, n)) for n, v in self.__dict__.items()})


def _each(change: Callable[..., Tensor], *values: Any) -> Any:
    """The same change of tensors and of quadratics."""
    if isinstance(values[0], Quadratic):
        return Quadratic(*(change(*parts) for parts in zip(*values, strict=True)))
    return change(*values)


def evaluate(hinges: Hinges, unknowns: Unknowns, mu: Tensor) -> Point:
    """D and the barrier at some unknowns."""
    tau, each = unknowns.log_tau.exp().unsqueeze(1), unknowns.each
    size, other, for_label, a = hinges.size, hinges.other, hinges.for_label, hinges.num_curved
    zero = torch.zeros_like(each)
    q, dq = quadratics(torch.where(other, each, zero), hinges.low, hinges.high)
    gamma = torch.where(other, -size * q.q1, torch.where(for_label, size * each, hinges.side * each))
    gamma = torch.cat([tau * gamma, tau], dim=1)
    e = torch.where(other, tau * size * q.q2, zero)
    right = hinges.t0 - (hinges.K @ gamma.unsqueeze(2)).squeeze(2)
    root = e[:, :a].sqrt()
    form = torch.eye(a, dtype=e.dtype) - hinges.K[:, :a, :a] * root.unsqueeze(2) * root.unsqueeze(1)
    factor, failed = torch.linalg.cholesky_ex(form)
    columns = torch.cat([hinges.K[:, :a] * root.unsqueeze(2), (root * right[:, :a]).unsqueeze(2)], dim=2)
    half = torch.linalg.solve_triangular(factor, columns, upper=False)
    t = right + (half[:, :, :-1].transpose(1, 2) @ half[:, :, -1:]).squeeze(2)
    eta = gamma.clone()
    eta[:, :-1] -= e * t[:, :-1]
    square = ((hinges.t0 - t) * eta).sum(dim=1)  # ηᵀKη
    constant = -(tau * size * torch.where(other, q.q0, zero)).sum(dim=1)
    value = square / 2 - (e * t[:, :-1] ** 2).sum(dim=1) / 2 + (gamma * t).sum(dim=1) + constant
    inside = torch.where(
        for_label, each * (1 - each), torch.where(hinges.side != 0, each, torch.ones_like(each))
    )
    barrier = 2 * factor.diagonal(dim1=1, dim2=2).log().sum(dim=1) + inside.log().sum(dim=1)
    good = (failed == 0) & torch.isfinite(value) & torch.isfinite(barrier)
    return Point(good, value, value + mu * barrier, t, gamma, e, half[:, :, :-1], q, dq)


def newton(hinges: Hinges, unknowns: Unknowns, at: Point, mu: Tensor) -> tuple[Unknowns, Tensor]:
    """The Newton step of D and its barrier, and what it promises."""
    size, other, for_label, t = hinges.size, hinges.other, hinges.for_label, at.t[:, :-1]
    tau, each = unknowns.log_tau.exp().unsqueeze(1), unknowns.each
    weight, mu = tau * size, mu.unsqueeze(1)
    S = hinges.K + at.half.transpose(1, 2) @ at.half
    second = t**2 + 2 * mu * S.diagonal(dim1=1, dim2=2)[:, :-1]  # what t² is on average
    zero = torch.zeros_like(t)
    bounded = for_label | (hinges.side != 0)
    up = torch.where(for_label, 1 / each - 1 / (1 - each), torch.where(bounded, 1 / each, zero))
    bend = torch.where(for_label, 1 / each**2 + 1 / (1 - each) ** 2, torch.where(bounded, 1 / each**2, zero))
    dgamma = torch.where(other, -weight * at.dq.q1, torch.where(for_label, weight, tau * hinges.side))
    de = torch.where(other, weight * at.dq.q2, zero)
    gain = dgamma * t + mu * up - torch.where(other, weight * at.dq.q0 + de * second / 2, zero)
    of_tau = (at.gamma * at.t).sum(dim=1) - (at.e * second).sum(dim=1) / 2
    of_tau = of_tau - torch.where(other, weight * at.q.q0, zero).sum(dim=1)
    gradient = torch.cat([of_tau.unsqueeze(1), gain], dim=1)
    system = _curvature(hinges, at, S, dgamma - t * de, de, mu)
    own_bend = mu * bend + torch.where(other, de.abs() * second / 2, zero) + 1.0 * ~(other | bounded)
    system.diagonal(dim1=1, dim2=2).add_(torch.cat([of_tau.abs().unsqueeze(1), own_bend], dim=1))
    scale = system.diagonal(dim1=1, dim2=2).clamp_min(1e-300).rsqrt()
    system.mul_(scale.unsqueeze(2)).mul_(scale.unsqueeze(1))
    system.diagonal(dim1=1, dim2=2).add_(RIDGE)
    factor, _ = torch.linalg.cholesky_ex(system)
    step = scale * torch.cholesky_solve((scale * gradient).unsqueeze(2), factor).squeeze(2)
    promise = (step * gradient).sum(dim=1)
    return Unknowns(*_shortened(hinges, unknowns, step)), promise


def _curvature(hinges: Hinges, at: Point, S: Tensor, x: Tensor, z: Tensor, mu: Tensor) -> Tensor:
    """Minus the second derivatives of D and log det by log τ and the unknowns, along which γ - t e moves by x and e by z.

    They are xᵀSx + μ zᵀS²z, S² entry by entry.
    """
    a, e = hinges.num_curved, at.e[:, : hinges.num_curved]
    x_tau = at.gamma.clone()
    x_tau[:, :-1] -= at.t[:, :-1] * at.e
    border = (S @ x_tau.unsqueeze(2)).squeeze(2)
    squared = S[:, :a, :a] ** 2
    border_e = mu * (squared @ e.unsqueeze(2)).squeeze(2)
    system = torch.empty_like(S)
    inner = system[:, 1:, 1:]
    torch.mul(S[:, :-1, :-1], x.unsqueeze(2), out=inner)
    inner.mul_(x.unsqueeze(1))
    z = z[:, :a]
    inner[:, :a, :a].add_(squared.mul_((mu * z).unsqueeze(2)).mul_(z.unsqueeze(1)))
    side = border[:, :-1] * x
    side[:, :a] += border_e * z
    system[:, 0, 1:] = system[:, 1:, 0] = side
    system[:, 0, 0] = (border * x_tau).sum(dim=1) + (border_e * e).sum(dim=1)
    return system


def _shortened(hinges: Hinges, unknowns: Unknowns, step: Tensor) -> tuple[Tensor, Tensor]:
    """The step, no farther than TO_EDGE of the way to the edge of an interval, and than LONGEST in a logarithm."""
    each, move = unknowns.each, step[:, 1:]
    bounded = hinges.for_label | (hinges.side != 0)
    size = step.abs().clamp_min(1e-300)
    limit = torch.where(
        move < 0, each, torch.where(hinges.for_label, 1 - each, torch.full_like(each, torch.inf))
    )
    limit = torch.where(bounded, TO_EDGE * limit, torch.where(hinges.other, LONGEST, torch.inf))
    limit = torch.cat([torch.full_like(step[:, :1], LONGEST), limit], dim=1)
    share = (limit / size).amin(dim=1).clamp_max(1)
    move = torch.where(hinges.other | bounded, move, torch.zeros_like(move))
    return share * step[:, 0], share.unsqueeze(1) * move


def ascend(hinges: Hinges, unknowns: Unknowns, goal: Tensor, steps: int) -> Unknowns:
    """Newton steps until √(2D) reaches the goal; the best unknowns seen are kept."""
    mu = BARRIER * hinges.reach**2
    at = evaluate(hinges, unknowns, mu)
    for _ in range(12):  # a smaller τ makes every quadratic form positive
        if bool(at.good.all()):
            break
        unknowns = replace(unknowns, log_tau=unknowns.log_tau - 0.7 * (~at.good))
        at = evaluate(hinges, unknowns, mu)
    best, most = unknowns, torch.where(at.good, at.value, torch.full_like(at.value, -torch.inf))
    going = torch.nonzero(at.good & (2 * most < goal**2))[:, 0]
    hinges, unknowns, at, mu = hinges.rows(going), unknowns.rows(going), at.rows(going), mu[going]
    for _ in range(steps):
        if not len(going):
            break
        step, promise = newton(hinges, unknowns, at, mu)
        unknowns, at, moved = _searched(hinges, unknowns, at, step, mu)
        better = at.value > most[going]
        rows = going[better]
        most[rows] = at.value[better]
        best.log_tau[rows], best.each[rows] = unknowns.log_tau[better], unknowns.each[better]
        settled = (promise < SHORT * mu) | ~moved
        lower = torch.where(settled, FALL * mu, mu)
        at = replace(at, barrier=at.value + (at.barrier - at.value) / mu * lower)
        mu = lower
        on = (2 * most[going] < goal[going] ** 2) & (mu > LAST_BARRIER * hinges.reach**2)
        if not bool(on.all()):
            going, hinges, unknowns, at, mu = (
                going[on],
                hinges.rows(on),
                unknowns.rows(on),
                at.rows(on),
                mu[on],
            )
    return best


def _searched(
    hinges: Hinges, unknowns: Unknowns, at: Point, step: Unknowns, mu: Tensor
) -> tuple[Unknowns, Point, Tensor]:
    """The first share of a step, of a few, that does not lower the barrier's sum; where none is, nothing moves."""
    moved = torch.zeros_like(at.good)
    result = unknowns
    for share in BACK:
        tried = Unknowns(unknowns.log_tau + share * step.log_tau, unknowns.each + share * step.each)
        new = evaluate(hinges, tried, mu)
        takes = ~moved & new.good & (new.barrier >= at.barrier)
        if bool(takes.any()):
            at = new.where(takes, at)
            result = Unknowns(
                torch.where(takes, tried.log_tau, result.log_tau),
                torch.where(takes.unsqueeze(1), tried.each, result.each),
            )
        moved = moved | takes
        if bool(moved.all()):
            break
    return result, at, moved


def improve(problem: Problem, cells: Cells, proof: Proof | None, goal: Tensor, steps: int) -> Proof:
    """The proofs of some cells, as good as the steps make them; `proof`: that of a larger cell, from which to start."""
    loose = ((cells.low < 0) & (cells.high > 0) & (problem.size > 0)).sum(dim=1)
    parts: list[Proof] = []
    order = loose.argsort()
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * int(loose[order[last]] + 1) ** 2 <= ENTRIES:
            last += 1
        rows = order[first:last]
        parts.append(
            _improved(problem.rows(rows), cells.rows(rows), proof and proof.rows(rows), goal[rows], steps)
        )
        first = last
    back = order.argsort()
    return Proof(**{n: torch.cat([getattr(p, n) for p in parts])[back] for n in Proof.__dataclass_fields__})


def _improved(problem: Problem, cells: Cells, proof: Proof | None, goal: Tensor, steps: int) -> Proof:
    hinges = reduced(problem, cells)
    if proof is None:
        return as_proof(problem, cells, hinges, ascend(hinges, start(hinges), goal, steps))
    unknowns = ascend(hinges, from_proof(hinges, proof), goal, steps)
    return evaluate_proof(problem, cells, proof).better_of(as_proof(problem, cells, hinges, unknowns))
