"""Margins of many (point, rival) pairs as one network whose rows each have a margin of their own, so that one attack serves all."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.attacks.batches import in_batches, products
from featureprism.geometry import LpBall, row_norms, unit_rows
from featureprism.models.activations import Activation
from featureprism.networks import ScoreNet

STRONGEST = 8  # neurons of each pair that are starts of their own


class PairMargins(nn.Module):
    """Row i of the points has the margin f_own[i] - f_rival[i]; m pairs, and row i + m belongs to pair i again, and so on."""

    pair: Tensor

    def __init__(self, scores: nn.Module, own: Int[Tensor, " m"], rival: Int[Tensor, " m"]) -> None:
        super().__init__()
        self.scores = scores
        self.register_buffer("pair", torch.stack([own, rival], dim=1))

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f_own - f_rival, row by row."""
        of_row = self.pair.repeat(len(z) // len(self.pair), 1)
        chosen = in_batches(self.scores, z).gather(1, of_row)
        return chosen[:, 0] - chosen[:, 1]


class NeuronMargins(nn.Module):
    """The same for one hidden layer: row i has the margin Σ_j votes_ij φ(⟨w_j, x⟩ + b_j), with closed gradient and convex parts."""

    W: Tensor
    b: Tensor
    votes: Tensor

    def __init__(
        self,
        W: Float[Tensor, "h d"],
        b: Float[Tensor, " h"],
        votes: Float[Tensor, "m h"],
        activation: Activation,
    ) -> None:
        super().__init__()
        for name, value in (("W", W), ("b", b), ("votes", votes)):
            self.register_buffer(name, value)
        self.activation = activation

    @classmethod
    def of(cls, net: ScoreNet, own: Int[Tensor, " m"], rival: Int[Tensor, " m"]) -> "NeuronMargins":
        """The margins of some pairs of classes."""
        W, V, b = net.with_bias_neuron()
        return cls(W, b, V.T[own] - V.T[rival], net.activation)

    def _weighed(self, values: Tensor, votes: Tensor) -> Float[Tensor, "n h"]:
        """What every neuron of every row counts for the row's own margin."""
        m, h = votes.shape
        return (values.reshape(-1, m, h) * votes).reshape(-1, h)

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f_own - f_rival, row by row."""
        return self._weighed(self.activation.value(products(z, self.W.T) + self.b), self.votes).sum(dim=1)

    @torch.no_grad()
    def input_gradient(self, z: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """The margins and their gradients."""
        t = products(z, self.W.T) + self.b
        value = self._weighed(self.activation.value(t), self.votes).sum(dim=1)
        return value, products(self._weighed(self.activation.derivative(t), self.votes), self.W)

    @torch.no_grad()
    def convex_parts(
        self, z: Float[Tensor, "n d"], y: Float[Tensor, " n"]
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"], Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """P, ∇P, N, ∇N of the margin P - N, for y = 1, where the pair's own class is meant; convex for powers of ReLU."""
        t = products(z, self.W.T) + self.b
        value, slope = self.activation.value(t), self.activation.derivative(t)
        own, other = self.votes.clamp_min(0), (-self.votes).clamp_min(0)
        return (
            self._weighed(value, own).sum(dim=1),
            products(self._weighed(slope, own), self.W),
            self._weighed(value, other).sum(dim=1),
            products(self._weighed(slope, other), self.W),
        )

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.W

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "NeuronMargins":
        """The same function of z = basisᵀ x, exact when the basis spans the neurons."""
        return NeuronMargins(self.W @ basis, self.b, self.votes, self.activation)

    def strong_directions(self) -> Float[Tensor, "s m d"]:
        """For each pair the sum of its votes, Σ_j votes_j w_j, and its strongest neurons, all against the own class."""
        strength = self.votes.abs() * row_norms(self.W)
        chosen = strength.topk(min(STRONGEST, len(self.W)), dim=1).indices  # (m, s)
        single = -torch.sign(self.votes.gather(1, chosen)).unsqueeze(2) * unit_rows(self.W)[chosen]
        return torch.cat([-products(self.votes, self.W).unsqueeze(0), single.transpose(0, 1)])


@dataclass(frozen=True)
class AlongEach:
    """Every pair along directions of its own, as far as the ball allows."""

    directions: Float[Tensor, "s m d"]

    def deltas(self, x: Float[Tensor, "m d"], y: Float[Tensor, " m"], ball: LpBall) -> Float[Tensor, "s m d"]:
        """eps · direction/‖direction‖."""
        return ball.steepest(self.directions)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "AlongEach":
        """The same starts for points given as basisᵀ x."""
        return AlongEach(self.directions @ basis)


def pair_margins(net: Any, own: Int[Tensor, " m"], rival: Int[Tensor, " m"]) -> PairMargins | NeuronMargins:
    """One network for all pairs."""
    return NeuronMargins.of(net, own, rival) if isinstance(net, ScoreNet) else PairMargins(net, own, rival)
