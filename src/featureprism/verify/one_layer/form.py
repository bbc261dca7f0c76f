"""Two-layer networks in the one form that certificates speak of: f(x) = Σ_j s_j A_j [⟨w_j, x⟩ + b_j]₊^p."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.checker.models import Scores, TwoClasses
from featureprism.checker.scaled import Network
from featureprism.geometry import row_norms, unit_rows
from featureprism.networks import PolynomialReLU, PowerReLU, ReLU, ScoreNet, TwoLayerNet


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
    return PowerForm(W[useful], b[useful], a[useful], p, network, TwoClasses(network))


def scores_form(net: ScoreNet) -> PowerForm:
    """The neurons of all margins of a network with many scores; the weights are those of each pair."""
    W, V, b = net.with_bias_neuron()
    p = float(net.activation.p)
    W0, b0, V0, c0 = (np.ascontiguousarray(t.detach().numpy()) for t in (net.W, net.b, net.V, net.c))
    scores = Scores(W0, b0, V0, c0, p)
    return PowerForm(W, b, V.new_zeros(len(W)), p, scores.margin(0, 1)[0], scores, V)
