"""The units of a search: the reach is 1, neurons have length 1, the largest weight is 1. What is found does not depend on scales."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.verify.one_layer.cells import Cells, Problem, Proof


@dataclass(frozen=True)
class Units:
    """Row by row the reach, one unit of each pre-activation, and one of y f."""

    reach: Float[Tensor, " m"]
    t: Float[Tensor, "m h"]  # ‖w_j‖·reach; for a constant neuron its value
    height: Float[Tensor, " m"]

    @classmethod
    def of(cls, problem: Problem) -> "Units":
        """The units in which a problem is of usual size."""
        t = problem.gram.diagonal().sqrt() * problem.reach.unsqueeze(1)
        t = torch.where(t > 0, t, problem.t0.abs())
        t = torch.where(t > 0, t, torch.ones_like(t))
        height = (problem.size * t**problem.p).amax(dim=1)
        return cls(problem.reach, t, torch.where(height > 0, height, torch.ones_like(height)))

    def scaled(self, problem: Problem) -> Problem:
        """The problem in these units."""
        norm = problem.gram.diagonal().sqrt()
        norm = torch.where(norm > 0, norm, torch.ones_like(norm))
        return replace(
            problem,
            gram=problem.gram / norm / norm.unsqueeze(1),
            t0=problem.t0 / self.t,
            size=problem.size * (self.t**problem.p / self.height.unsqueeze(1)),
            reach=torch.ones_like(self.reach),
        )

    def scaled_cells(self, cells: Cells) -> Cells:
        """Cells in these units."""
        return Cells(*(getattr(cells, name) / self.t for name in Cells.__dataclass_fields__))

    def unscaled_cells(self, cells: Cells, row: int) -> Cells:
        """A cell of one row, as it is without units."""
        return Cells(*(getattr(cells, name) * self.t[row] for name in Cells.__dataclass_fields__))

    def unscaled_proof(self, proof: Proof, row: int, p: float) -> Proof:
        """A proof of one row, as it is without units."""
        t, square = self.t[row], self.reach[row] ** 2
        return Proof(
            tau=proof.tau * square / self.height[row],
            slope=proof.slope * t ** (p - 1),
            centre=proof.centre * t,
            kappa=proof.kappa * t ** (p - 2),
            nu_floor=proof.nu_floor * square / t,
            nu_ceiling=proof.nu_ceiling * square / t,
            bound=proof.bound * self.reach[row],
            t=proof.t * t,
        )
