"""The neurons that decide, where a wide network has few of them: the others are bounded by lines, and searches see these as a constant.

Below neurons that vote for the label lies 0, above those that vote against it their chords. The sum of the chords is one line: the
constant is its largest value in the ball.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.models.activations import relu_power
from featureprism.verify.one_layer.cells import Cells, Problem, Proof, whole_space
from featureprism.verify.one_layer.envelopes import Quadratic, end_quadratic

LOSS = 1e-3  # of the margin at the point, at most: what is given up for a smaller search


@dataclass(frozen=True)
class Strong:
    """Which neurons a search keeps, of a problem in its units."""

    whole: Problem
    neuron: Int[Tensor, " k"]

    @classmethod
    def of(cls, problem: Problem, t: Float[Tensor, "m h"]) -> "Strong":
        """As few neurons as lose at most LOSS of the margin; `t`: pre-activations at the witness."""
        value = problem.size * relu_power(problem.t0, problem.p)
        margin = torch.where(problem.own, value, -value).sum(dim=1, keepdim=True)
        lost = problem.size * torch.where(problem.own, relu_power(t, problem.p), _chords(problem).at(t))
        lost = lost / margin.clamp_min(1e-300)
        order = lost.amax(dim=0).argsort()
        weak = int((lost[:, order].cumsum(dim=1).amax(dim=0) <= LOSS).sum())
        return cls(problem, order[weak:].sort().values)

    def problem(self) -> Problem:
        """The search's problem: the kept neurons, and last a constant one for all others."""
        whole, kept = self.whole, self.neuron
        q = _chords(whole)
        size = torch.where(whole.own, torch.zeros_like(whole.size), whole.size).index_fill(1, kept, 0.0)
        line = size * q.q1
        most = (size * q.at(whole.t0)).sum(dim=1) + ((line @ whole.gram) * line).sum(dim=1).clamp_min(
            0
        ).sqrt()
        gram = torch.zeros(len(kept) + 1, len(kept) + 1, dtype=line.dtype)
        gram[:-1, :-1] = whole.gram[kept][:, kept]
        return replace(
            whole,
            gram=gram,
            t0=self.taken(whole.t0),
            size=torch.cat([whole.size[:, kept], most.unsqueeze(1)], dim=1),
            own=torch.cat([whole.own[:, kept], torch.zeros_like(whole.own[:, :1])], dim=1),
        )

    def taken(self, t: Float[Tensor, "m h"]) -> Float[Tensor, "m k1"]:
        """Pre-activations of the kept neurons and of the constant one."""
        return torch.cat([t[:, self.neuron], torch.ones_like(t[:, :1])], dim=1)

    def lifted(self, row: int) -> Callable[[Cells, Proof], tuple[Cells, Proof]]:
        """How a cell of one row and its proof are written among all neurons: with lines for those that were left out."""
        whole, t0 = whole_space(self.whole.rows(torch.tensor([row]))), self.whole.t0[[row]]
        zero = torch.zeros_like(t0)
        base = dict.fromkeys(("slope", "kappa", "nu_floor", "nu_ceiling"), zero)
        base |= {"centre": torch.full_like(t0, torch.nan), "t": t0}

        def lift(cells: Cells, proof: Proof) -> tuple[Cells, Proof]:
            wide = {n: self._put(value, getattr(cells, n)) for n, value in whole.__dict__.items()}
            return Cells(**wide), replace(
                proof, **{n: self._put(v, getattr(proof, n)) for n, v in base.items()}
            )

        return lift

    def _put(self, base: Tensor, values: Tensor) -> Tensor:
        return base.index_copy(1, self.neuron, values[:, :-1])


def _chords(problem: Problem) -> Quadratic:
    """The lines above all neurons; 0 for those that never open."""
    cells, zero = whole_space(problem), torch.zeros_like(problem.t0)
    chord = end_quadratic(zero, cells.low, cells.high, problem.p)
    return Quadratic(*(torch.where(cells.high > 0, part, zero) for part in chord))
