"""One hidden layer in the form that proofs work with: margins Σ_j weight_j [⟨w_j, x⟩ + b_j]₊^p on shared neurons."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.checker.models import Scores, TwoClasses
from featureprism.checker.scaled import Network
from featureprism.geometry import row_norms, unit_rows


@dataclass(frozen=True, eq=False)
class PowerForm:
    """Neurons, offsets and signed weights of Σ_j weight_j [⟨w_j, x⟩ + b_j]₊^p, in float64."""

    W: Float[Tensor, "h d"]
    b: Float[Tensor, " h"]
    weight: Float[Tensor, " h"]
    p: float
    network: Network  # the weights of one margin as they were given: what the checker reads
    scores: Scores | TwoClasses  # what the checker reads, of all classes
    outputs: Float[Tensor, "h k"] | None = None  # output weights of many scores
    sign: float = 1.0  # with which the margin is that network

    @classmethod
    def of(cls, weights: Scores | TwoClasses) -> "PowerForm":
        """The neurons of all margins.

        One output, pReLU: unit directions, offsets b_j/‖w_j‖, weights a_j ‖w_j‖; neurons that add nothing are dropped. Many scores:
        where a class has an offset, one more neuron that is always 1 gives it.
        """
        if isinstance(weights, TwoClasses):
            network = weights.network
            W, b, a = (torch.from_numpy(v) for v in (network.W, network.b, network.a))
            if network.normalised:
                norms = row_norms(W)
                W, b, a = unit_rows(W), b / torch.where(norms > 0, norms, torch.ones_like(norms)), a * norms
            useful = torch.from_numpy(network.useful)
            return cls(W[useful], b[useful], a[useful], network.p, network, weights)
        W, b, V, c = (torch.from_numpy(v) for v in (weights.W, weights.b, weights.V, weights.c))
        if bool(c.any()):
            W, V = torch.cat([W, torch.zeros_like(W[:1])]), torch.cat([V, c[None]])
            b = torch.cat([b, b.new_ones(1)])
        return cls(W, b, V.new_zeros(len(W)), weights.p, weights.margin(0, 1)[0], weights, V)

    def of_pair(self, label: int, target: int) -> "PowerForm":
        """The margin f_label - f_target on the same neurons; its checker's network has the sign `sign`."""
        network, sign = self.scores.margin(label, target)
        if isinstance(self.scores, TwoClasses):
            return replace(self, weight=sign * self.weight, network=network, sign=sign)
        kept = np.zeros(len(network.a), dtype=bool)
        kept[: len(self.W)] = (
            True  # the checker's last neuron, always 1, is missing here where no class has an offset
        )
        assert kept[network.useful].all()
        return replace(self, weight=torch.from_numpy(network.a[: len(self.W)]), network=network, sign=sign)

    def votes(self, label: Int[Tensor, " m"], target: Int[Tensor, " m"]) -> Float[Tensor, "m h"]:
        """(m, h) What every neuron counts for the margin of each pair."""
        if self.outputs is None:
            return (2.0 * label.double() - 1).unsqueeze(1) * self.weight
        return self.outputs.T[label] - self.outputs.T[target]

    @property
    def kept(self) -> np.ndarray:
        """Which of these neurons the checker keeps: those with a say."""
        return np.flatnonzero(self.weight.numpy())

    @cached_property
    def gram(self) -> Float[Tensor, "h h"]:
        """⟨w_i, w_j⟩: all that an ℓ2 certificate needs to know of the neurons."""
        return self.W @ self.W.T
