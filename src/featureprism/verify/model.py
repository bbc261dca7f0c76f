"""A classifier as the verifier sees it: scores to attack, and the canonical weights that proofs are about."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.attacks.rivals import NeuronMargins, pair_margins
from featureprism.checker import linear, quadratic
from featureprism.checker import models as canonical
from featureprism.checker.layers import Layers
from featureprism.models.protocols import HasExactRadius
from featureprism.networks import (
    MLP,
    BayesClassifier,
    BinaryReadout,
    LinearScores,
    PowerReLU,
    QuadraticScores,
    ReLU,
    ScoreNet,
    Tanh,
    TwoLayerNet,
)
from featureprism.networks.symmetric import SymmetricNet, unsmoothed
from featureprism.verify.deep.layers import as_layers
from featureprism.verify.one_layer.form import PowerForm, power_form, scores_form

ONE_OUTPUT = (
    TwoLayerNet,
    MLP,
    BinaryReadout,
    BayesClassifier,
    HasExactRadius,
    SymmetricNet,
)  # whose sign is the class


@dataclass(frozen=True, eq=False)
class Model:
    """A network in float64 with k scores, or with one output whose sign decides between two classes."""

    net: nn.Module
    has_one_output: bool

    @classmethod
    def of(cls, net: nn.Module, *, has_one_output: bool | None = None) -> "Model":
        """The model of a network; a symmetric network without smoothing is a two-layer network."""
        plain = unsmoothed(net) if isinstance(net, SymmetricNet) and net.smoothing == 0 else net
        one = isinstance(plain, ONE_OUTPUT) if has_one_output is None else has_one_output
        return cls(plain, one)

    @property
    def num_classes(self) -> int:
        """k."""
        return 2 if self.has_one_output else int(getattr(self.net, "num_classes"))  # noqa: B009

    def scores(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The score of every class; of one output f the two scores 0 and f."""
        value = self.net(x)
        return torch.stack([torch.zeros_like(value), value], dim=1) if self.has_one_output else value

    def margins(self, label: Int[Tensor, " m"], target: Int[Tensor, " m"]) -> nn.Module:
        """A network whose row i is f_label[i] - f_target[i]."""
        if not self.has_one_output:
            return pair_margins(self.net, label, target)
        sign = 2.0 * label.double() - 1
        if (form := self.one_layer) is not None:
            activation = ReLU() if form.p == 1 else PowerReLU(form.p)
            return NeuronMargins(form.W, form.b, sign.unsqueeze(1) * form.weight, activation)
        return _Signed(self.net, sign)

    @cached_property
    def one_layer(self) -> PowerForm | None:
        """One hidden layer of powers of ReLU, or None."""
        if isinstance(self.net, TwoLayerNet):
            return power_form(self.net)
        if isinstance(self.net, ScoreNet) and not isinstance(self.net.activation, Tanh):
            return scores_form(self.net)
        return None

    @cached_property
    def layers(self) -> Layers | None:
        """Layers of ReLU or tanh, or None."""
        return None if self.one_layer is not None else as_layers(self.net)

    @cached_property
    def canonical(self) -> canonical.Model | None:
        """What the checker reads; None for networks that no proof can speak of."""
        if isinstance(self.net, LinearScores):
            return linear.LinearScores(*(_array(t) for t in (self.net.V, self.net.c)))
        if isinstance(self.net, QuadraticScores):
            return quadratic.QuadraticScores(*(_array(t) for t in (self.net.A, self.net.V, self.net.c)))
        if self.one_layer is not None:
            return self.one_layer.scores
        return self.layers


class _Signed(nn.Module):
    """± f, row by row."""

    def __init__(self, net: nn.Module, sign: Tensor) -> None:
        super().__init__()
        self.net, self.sign = net, sign

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        return self.net(z) * self.sign.repeat(len(z) // len(self.sign))


def _array(t: Tensor) -> np.ndarray:
    return np.ascontiguousarray(t.detach().double().numpy())
