"""The best proof of a cell of ReLUs (p = 1): all multipliers and envelopes at once, for many cells together.

Neurons that no perturbation of the cell turns on or off are linear; their
sum is one row of the system, the others have one unknown each:

    own neuron        its slope α in (0, 1)                 γ = τ A α
    other neuron      log c, the place of its quadratic     γ = -τ A q1, e = τ A q2
    cut neuron        n > 0, the cut's multiplier over τ    γ = ± τ n

Cuts of ReLUs are at 0. newton.py finds the best unknowns.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featureprism.verify.one_layer.cells import Cells, Problem, Proof, evaluate
from featureprism.verify.one_layer.envelopes import Quadratic

LEAST_CENTRE = 0.3  # share of ‖w‖·reach, at the start
INSIDE = 0.02  # how far slopes that are taken over stay away from 0 and 1


@dataclass(frozen=True)
class Hinges:
    """Cells in terms of the neurons that are not linear in them: first the others, then own and cut ones, last the linear sum."""

    K: Float[Tensor, "m u1 u1"]
    t0: Float[Tensor, "m u1"]
    size: Float[Tensor, "m u"]  # A_j
    low: Float[Tensor, "m u"]
    high: Float[Tensor, "m u"]
    other: Bool[Tensor, "m u"]
    own: Bool[Tensor, "m u"]
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
    other, own = loose & ~problem.own, loose & problem.own
    side = torch.isfinite(cells.ceiling).to(problem.t0.dtype) - torch.isfinite(cells.floor).to(
        problem.t0.dtype
    )
    rank = 2.0 * other + 1.0 * (own | ((side != 0) & ~other))
    curved = int(other.sum(dim=1).max())
    rest = int((rank == 1).sum(dim=1).max())
    first = (rank == 2).to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :curved]
    second = (rank == 1).to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :rest]
    neuron = torch.cat([first, second], dim=1)
    valid = torch.cat([rank.gather(1, first) == 2, rank.gather(1, second) == 1], dim=1)

    def taken(values: Tensor, otherwise: float | bool = 0.0) -> Tensor:
        return torch.where(valid, values.gather(1, neuron), torch.full_like(values[:, :1], otherwise))

    linear = torch.where(cells.low >= 0, problem.size, torch.zeros_like(problem.size))
    linear = torch.where(problem.own, linear, -linear)
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
        taken(own, False),
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
    each = torch.where(hinges.other, centre.log(), torch.where(hinges.own, slope, 0.1 * mean + 1e-300))
    q, _ = quadratics(torch.where(hinges.other, each, torch.zeros_like(each)), hinges.low, hinges.high)
    lines = torch.where(hinges.other, -size * q.q1, torch.where(hinges.own, size * slope, 0.0))
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
    each = torch.where(hinges.own, taken(proof.slope).clamp(INSIDE, 1 - INSIDE), start_each)
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
        put((cells.low >= 0).to(zero.dtype), each, hinges.own),
        put(torch.ones_like(zero), centre, hinges.other),
        put(zero, bend, hinges.other),
        put(zero, nu, hinges.side < 0),
        put(zero, nu, hinges.side > 0),
        torch.zeros_like(tau),
        problem.t0,
    )
    return evaluate(problem, cells, proof)


def overestimate(problem: Problem, cells: Cells, proof: Proof) -> Float[Tensor, "m h"]:
    """What a cut at each neuron could gain: A_j (chord - ReLU)(t_j), the chord between the places where its quadratic touches.

    t_j is a mean: the relaxed problem may give a neuron both values at once. -1 for neurons that no cut helps.
    """
    reaches = proof.centre.abs().nan_to_num(torch.inf)
    low, high = torch.maximum(cells.low, -reaches), torch.minimum(cells.high, reaches)
    t = torch.minimum(torch.maximum(proof.t, low), high)
    gap = high * (t - low) / (high - low).clamp_min(1e-300) - t.clamp_min(0)
    helps = ~problem.own & (problem.size > 0) & (cells.low < 0) & (cells.high > 0)
    return torch.where(helps, problem.size * gap.clamp_min(0), torch.full_like(gap, -1.0))
