"""Pairs of a point and a rival class: what is known of them, and attacks on many of them together."""

from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.attacks import Along, Start, minimal_radius
from featureprism.attacks.minimum_norm import RESTARTS, minimum_norm
from featureprism.attacks.rivals import AlongEach, NeuronMargins, pair_margins
from featureprism.attacks.starts import FAN, fan
from featureprism.certificates.bracket import (
    BEYOND,
    check_numbers,
    check_radius,
    check_request,
    default_reach,
)
from featureprism.certificates.closing import HAIR
from featureprism.checker.certificate import Certificate


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
        check_numbers(
            norm=self.norm,
            gap=self.gap,
            seconds_per_point=self.seconds_per_point,
            max_cells=self.max_cells,
            upper=self.upper,
            at=self.at,
        )
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
class Pairs:
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
    def of(cls, net: Any, x: Tensor, own: Tensor, norm: float) -> "Pairs":
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


def attack_targets(pairs: Pairs, effort: Effort) -> None:
    """The minimum-norm attack on every pair; with `at` a point is finished with its first flip within that radius."""
    x, own = pairs.x[pairs.point], pairs.own[pairs.point]
    flips = minimum_norm(
        pairs.net,
        x,
        own,
        pairs.rival,
        pairs.point,
        norm=effort.norm,
        domain=effort.domain,
        reach=_reach(pairs, x, effort),
        enough=effort.at or 0.0,
        restarts=2 if effort.norm == 2 else RESTARTS,  # ℓ2 flips are drawn in by convex-concave steps as well
    )
    pairs.length, pairs.delta = flips.length, flips.delta


def _reach(pairs: Pairs, x: Tensor, effort: Effort) -> Float[Tensor, " m"]:
    if effort.upper is None:
        return default_reach(pairs.net, x, effort.norm)
    return x.new_full((len(x),), effort.upper)


def attack(
    pairs: Pairs,
    rows: Tensor,
    effort: Effort,
    rounds: int,
) -> None:
    """Look for shorter flips of some pairs; those of the pair itself are starts too."""
    if not len(rows):
        return
    net, x = pairs.margins(rows), pairs.x[pairs.point[rows]]
    own_starts: list[Start] = [AlongEach(pairs.delta[rows].unsqueeze(0))]
    if isinstance(net, NeuronMargins):
        own_starts.append(AlongEach(net.strong_directions()))
    if x.shape[1] in FAN:
        own_starts.append(Along(fan(x.shape[1])))
    found = minimal_radius(
        net,
        x,
        torch.ones(len(x)).double(),
        starts=own_starts,
        upper=_reach(pairs, x, effort),
        norm=effort.norm,
        rounds=rounds,
        domain=effort.domain,
    )
    shorter = found.radius < pairs.length[rows]
    pairs.length[rows[shorter]], pairs.delta[rows[shorter]] = found.radius[shorter], found.delta[shorter]
