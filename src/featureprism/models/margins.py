"""Margins of many pairs (point, target class) as one network, whose row i is the margin of pair i: one attack serves all."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.geometry import in_batches, products, row_norms, unit_rows
from featureprism.models.activations import Activation

STRONGEST = 8  # neurons of each pair that are starts of their own


class PairMargins(nn.Module):
    """Row i of the points has the margin f_label[i] - f_target[i]; m pairs, and row i + m belongs to pair i again, and so on."""

    pair: Tensor

    def __init__(self, scores: nn.Module, label: Int[Tensor, " m"], target: Int[Tensor, " m"]) -> None:
        super().__init__()
        self.scores = scores
        self.register_buffer("pair", torch.stack([label, target], dim=1))

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f_label - f_target, row by row."""
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

    def _weighed(self, values: Tensor, votes: Tensor) -> Float[Tensor, "n h"]:
        """What every neuron of every row counts for the margin of the row."""
        m, h = votes.shape
        return (values.reshape(-1, m, h) * votes).reshape(-1, h)

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f_label - f_target, row by row."""
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
        """P, ∇P, N, ∇N of the margin P - N, for y = 1, for the true class; convex for powers of ReLU."""
        t = products(z, self.W.T) + self.b
        value, slope = self.activation.value(t), self.activation.derivative(t)
        positive, negative = self.votes.clamp_min(0), (-self.votes).clamp_min(0)
        return (
            self._weighed(value, positive).sum(dim=1),
            products(self._weighed(slope, positive), self.W),
            self._weighed(value, negative).sum(dim=1),
            products(self._weighed(slope, negative), self.W),
        )

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.W

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "NeuronMargins":
        """The same function of z = basisᵀ x, exact when the basis spans the neurons."""
        return NeuronMargins(self.W @ basis, self.b, self.votes, self.activation)

    def strong_directions(self) -> Float[Tensor, "s m d"]:
        """For each pair the sum of its votes, Σ_j votes_j w_j, and its strongest neurons, all against the true class."""
        strength = self.votes.abs() * row_norms(self.W)
        chosen = strength.topk(min(STRONGEST, len(self.W)), dim=1).indices  # (m, s)
        single = -torch.sign(self.votes.gather(1, chosen)).unsqueeze(2) * unit_rows(self.W)[chosen]
        return torch.cat([-products(self.votes, self.W).unsqueeze(0), single.transpose(0, 1)])


class SignedMargins(nn.Module):
    """±f of a network with one output, row by row; m signs, and row i + m belongs to sign i again, and so on."""

    def __init__(self, net: nn.Module, sign: Float[Tensor, " m"]) -> None:
        super().__init__()
        self.net, self.sign = net, sign

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """sign · f(z)."""
        return self.net(z) * self.sign.repeat(len(z) // len(self.sign))
