"""Two-layer networks in the one form that certificates speak of: f(x) = Σ_j s_j A_j [⟨w_j, x⟩ + b_j]₊^p."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.checker.models import Scores
from featureprism.checker.scaled import Network
from featureprism.geometry import row_norms, unit_rows
from featureprism.networks import PolynomialReLU, PowerReLU, ReLU, TwoLayerNet


@dataclass(frozen=True, eq=False)
class PowerForm:
    """Neurons, offsets and signed weights of Σ_j weight_j [⟨w_j, x⟩ + b_j]₊^p, in float64."""

    W: Float[Tensor, "h d"]
    b: Float[Tensor, " h"]
    weight: Float[Tensor, " h"]
    p: float
    network: Network  # the weights as they were given: what the checker reads
    scores: Scores | None = None  # of many classes, where the weights are those of a pair of them

    def of_pair(self, own: int, rival: int) -> "PowerForm":
        """The margin of two classes on the same neurons, as the checker reads it."""
        assert self.scores is not None
        network, _ = self.scores.margin(own, rival)
        kept = np.zeros(len(network.a), dtype=bool)
        kept[: len(self.W)] = (
            True  # the checker's last neuron, always 1, is missing here where no class has an offset
        )
        assert kept[network.useful].all()
        return replace(self, weight=torch.from_numpy(network.a[: len(self.W)]), network=network)

    @property
    def kept(self) -> np.ndarray:
        """Which of these neurons the checker keeps: those with a say."""
        return np.flatnonzero(self.weight.numpy())

    @cached_property
    def gram(self) -> Float[Tensor, "h h"]:
        """⟨w_i, w_j⟩: all that an ℓ2 certificate needs to know of the neurons."""
        return self.W @ self.W.T


def power_form(net: TwoLayerNet) -> PowerForm | None:
    """The form of a ReLU, pReLU or polynomial network; None for Tanh.

    pReLU: unit directions, offsets b_j/‖w_j‖, weights a_j ‖w_j‖. Neurons that add nothing are dropped.
    """
    if not isinstance(net.activation, ReLU | PowerReLU | PolynomialReLU):
        return None
    W, a = net.W.detach().double(), net.a.detach().double()
    b = torch.zeros_like(a) if net.b is None else net.b.detach().double()
    normalised, p = net.activation.weight_normalised, float(net.activation.p)
    network = Network(W.numpy().copy(), a.numpy().copy(), b.numpy().copy(), p, normalised)
    if normalised:
        norms = row_norms(W)
        W, b, a = unit_rows(W), b / torch.where(norms > 0, norms, torch.ones_like(norms)), a * norms
    useful = torch.from_numpy(network.useful)
    return PowerForm(W[useful], b[useful], a[useful], p, network)
