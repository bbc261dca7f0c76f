"""Neurons that are far from opening need no step of their own: they rest, and shrink as the penalty has it."""

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.networks.symmetric import SymmetricNet

REACH = 5.5  # σ_ρ below the threshold: Φ(-5.5) = 2·10⁻⁸, a rounding error in single precision
NEAR = 2 / 3  # of the way to where a gate begins to open
QUIET = 4  # looks in a row before a neuron rests: 4 batches of 2d points miss a signal of rate 1/d once in e⁸


class Watch:
    """Lets neurons rest that none of the last QUIET looks found near their threshold, until the next look.

    Every `every`-th step is taken by all neurons, and looks: does |⟨w, x⟩| stay below NEAR·(b - REACH·σ_ρ) on all its points? At
    rest ‖w‖ loses ηλ(‖w‖ + ‖w‖²) a step, what all lose, and gains nothing. What is missed is an opening by a point half as large
    again as all of the looks. With every = 0 nobody rests.
    """

    def __init__(self, net: SymmetricNet, every: int, penalty: float) -> None:
        self.net, self.every, self.penalty = net, every, penalty
        self.W = net.W.data
        self.quiet = torch.zeros(len(self.W), dtype=torch.long)
        self.resting: Tensor | None = None

    def is_due(self, step: int) -> bool:
        """Whether all neurons take this step."""
        return self.every > 0 and step % self.every == 0

    def wake(self) -> None:
        """The network is whole again: neurons that moved and neurons that shrank."""
        if self.resting is None:
            return
        self.W[~self.resting] = self.net.W.data
        self.W[self.resting] *= (self.norms / self.before).nan_to_num_(0.0).unsqueeze(1)
        self.net.W.data, self.resting = self.W, None

    def look(self, x: Float[Tensor, "n d"]) -> None:
        """Count the looks in a row that found a neuron far from its threshold."""
        near = NEAR * (self.net.bias - REACH * self.net.smoothing)
        self.quiet = torch.where((x @ self.W.T).abs_().amax(dim=0) < near, self.quiet + 1, 0)

    def dismiss(self) -> None:
        """The quiet ones leave the network until they are woken."""
        quiet = self.quiet >= QUIET
        if bool(quiet.any()):
            self.resting, self.net.W.data = quiet, self.W[~quiet]
            self.before = torch.linalg.vector_norm(self.W[quiet], dim=1)
            self.norms = self.before.clone()

    def shrink(self, step_size: float) -> None:
        """A step of those at rest."""
        if self.resting is not None:
            self.norms *= 1 - step_size * self.penalty * (1 + self.norms)
