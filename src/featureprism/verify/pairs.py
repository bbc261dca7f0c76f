"""Pairs of a point and a target class: what attacks and proofs have shown of each so far, and what a method of proof is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from math import floor, frexp, inf, isfinite, ldexp, nan

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.brackets import NOT_CERTIFIED
from featureprism.checker.certificate import Certificate
from featureprism.models.model import Model
from featureprism.verify.query import Limits, Query

BITS = (
    36  # of a certified radius; products of matrices round the others differently for other numbers of points
)


def _rounded_down(radius: float) -> float:
    mantissa, exponent = frexp(radius)
    return ldexp(floor(ldexp(mantissa, BITS)), exponent - BITS) if isfinite(radius) else radius


@dataclass
class Pairs:
    """One row for each point and each class that is not its own, filled in as attacks and proofs go on."""

    model: Model
    query: Query
    x: Float[Tensor, "n d"]
    label: Int[Tensor, " n"]
    point: Int[Tensor, " m"]
    target: Int[Tensor, " m"]
    delta: Float[Tensor, "m d"]  # the shortest flip of each pair, or what came near; 0 where nothing is known
    length: Float[Tensor, " m"]  # the norm of a flip, inf where none is known
    certificates: list[Certificate]
    zero_gradient_share: float = nan  # what the attack says of itself, where it was measured
    blind_share: float = nan

    @classmethod
    def of(cls, model: Model, query: Query, x: Tensor, label: Tensor) -> "Pairs":
        """All pairs of some points, of which nothing is known."""
        every = torch.ones(len(x), model.num_classes, dtype=torch.bool)
        every[torch.arange(len(x)), label] = False
        point, target = torch.nonzero(every, as_tuple=True)
        m = len(point)
        nothing = [Certificate(0.0, NOT_CERTIFIED, query.norm)] * m
        unknown = x.new_full((m,), inf)
        return cls(model, query, x, label, point, target, x.new_zeros(m, x.shape[1]), unknown, nothing)

    def points(self, rows: Tensor) -> Float[Tensor, "r d"]:
        """The points of some pairs."""
        return self.x[self.point[rows]]

    def margins(self, rows: Tensor) -> nn.Module:
        """A network whose row i is the margin of pair i."""
        return self.model.margins(self.label[self.point[rows]], self.target[rows])

    def shortest(self) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """For each point the norm of its shortest flip, and the pair that it belongs to."""
        table = self.length.reshape(len(self.x), self.model.num_classes - 1)
        least, column = table.min(dim=1)
        return least, torch.arange(len(self.x)) * table.shape[1] + column

    def verified(self) -> Float[Tensor, " m"]:
        """The radius that is proven of each pair."""
        return torch.tensor([c.radius for c in self.certificates], dtype=torch.float64)

    def goal(self) -> Float[Tensor, " n"]:
        """The radius to prove for each point."""
        return self.query.goal(self.shortest()[0])

    def reach(self) -> Float[Tensor, " n"]:
        """How far proofs about each point look."""
        return self.query.reach(self.shortest()[0])

    def open(self) -> Int[Tensor, " o"]:
        """The pairs that are not proven as far as is asked of their point."""
        return torch.nonzero(self.verified() < self.goal()[self.point])[:, 0]

    def keep(self, row: int, certificate: Certificate) -> None:
        """Take a certificate if it proves more than the one before; its last bits, which depend on the other points, are cut off."""
        radius = _rounded_down(certificate.radius)
        if radius > self.certificates[row].radius:
            self.certificates[row] = replace(certificate, radius=radius)

    def keep_flips(self, rows: Tensor, length: Tensor, delta: Tensor) -> None:
        """Take flips that are shorter than those before, and within eps where that is asked."""
        shorter = (length < self.length[rows]) & (length <= (self.query.eps or inf))
        self.length[rows[shorter]], self.delta[rows[shorter]] = length[shorter], delta[shorter]


class Method(ABC):
    """A way to prove radii; abstract. The driver asks methods in the order of their cost."""

    is_closed_form = False  # it leaves nothing to attack or to prove
    is_cheap = False  # it is tried before the attack takes its time
    norms: tuple[float, ...] = (2, inf)  # that it knows

    @abstractmethod
    def applies(self, model: Model, query: Query) -> bool:
        """Whether it can say anything."""

    @abstractmethod
    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> Float[Tensor, "s r d"] | None:
        """Put certificates into some pairs; returns perturbations near which shorter flips may be, if it knows any."""
