"""Activations φ with their derivatives; PolynomialReLU divides by the neuron's norm."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


def relu_power(z: Tensor, p: float) -> Tensor:
    """[z]₊^p; whole powers by repeated products, which pow is many times slower at."""
    positive = torch.relu(z)  # its derivative at 0 is 0, that of a clamp is 1
    if p == 0:
        return torch.gt(z.detach(), 0, out=torch.empty_like(z))  # one pass, no booleans in between
    if p in (1, 2, 3, 4):
        result = positive
        for _ in range(int(p) - 1):
            result = result * positive
        return result
    return positive**p


@dataclass(frozen=True)
class ReLU:
    """φ(z) = [z]₊ with φ'(0) = 0.

    >>> import torch
    >>> import featureprism as fp
    >>> fp.networks.ReLU().value(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    weight_normalised = False
    p = 1.0

    def value(self, z: Tensor) -> Tensor:
        """φ(z)."""
        return relu_power(z, 1)

    def derivative(self, z: Tensor) -> Tensor:
        """φ'(z)."""
        return relu_power(z, 0)


@dataclass(frozen=True)
class _Power:
    """[z]₊^p for any real p ≥ 1; abstract."""

    p: float

    def __post_init__(self) -> None:
        if not 1 <= self.p < math.inf:
            raise ValueError(f"The power p must be finite and at least 1, got {self.p}.")

    def value(self, z: Tensor) -> Tensor:
        """φ(z)."""
        return relu_power(z, self.p)

    def derivative(self, z: Tensor) -> Tensor:
        """φ'(z) = p [z]₊^(p-1), and 0 for z ≤ 0."""
        return self.p * relu_power(z, self.p - 1)


class PowerReLU(_Power):
    """φ(z) = [z]₊^p.

    Parameters
    ----------
    p : float
        The power, at least 1.

    References
    ----------
    The "regular polynomial ReLU" of gmm-flow, Appendix B.2.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.networks.TwoLayerNet(torch.tensor([[2.0, 0.0]]), torch.tensor([1.0]), activation=fp.networks.PowerReLU(3))
    >>> net(torch.tensor([[3.0, 0.0]])).item()  # [⟨w, x⟩]₊³ = 6³
    216.0
    """

    weight_normalised = False


class PolynomialReLU(_Power):
    """pReLU: neuron j gives [z]₊^p / ‖w_j‖^(p-1), computed as ‖w_j‖ [z/‖w_j‖]₊^p. Not torch.nn.PReLU.

    `value` and `derivative` are those of [·]₊^p at the normalised pre-activation z/‖w_j‖; the power of a tiny number is never formed.

    Parameters
    ----------
    p : float
        The power, at least 1; 1 is ReLU.

    References
    ----------
    gmm-flow, equation (5).

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.networks.TwoLayerNet(torch.tensor([[2.0, 0.0]]), torch.tensor([1.0]), activation=fp.networks.PolynomialReLU(3))
    >>> net(torch.tensor([[3.0, 0.0]])).item()  # ‖w‖ [⟨w, x⟩/‖w‖]₊³ = 2 · 3³
    54.0
    """

    weight_normalised = True


@dataclass(frozen=True)
class Tanh:
    """φ(z) = tanh z.

    >>> import torch
    >>> import featureprism as fp
    >>> fp.networks.Tanh().value(torch.tensor([0.0]))
    tensor([0.])
    """

    weight_normalised = False
    p = math.nan  # not a power

    def value(self, z: Tensor) -> Tensor:
        """φ(z)."""
        return torch.tanh(z)

    def derivative(self, z: Tensor) -> Tensor:
        """φ'(z)."""
        return 1 - torch.tanh(z) ** 2


@dataclass(frozen=True)
class GELU:
    """φ(z) = z Φ(z), Φ the normal distribution function."""

    weight_normalised = False
    p = math.nan

    def value(self, z: Tensor) -> Tensor:
        """φ(z)."""
        return torch.nn.functional.gelu(z)

    def derivative(self, z: Tensor) -> Tensor:
        """φ'(z) = Φ(z) + z Φ'(z)."""
        return (1 + torch.erf(z / math.sqrt(2))) / 2 + z * torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class SiLU:
    """φ(z) = z σ(z), also called swish."""

    weight_normalised = False
    p = math.nan

    def value(self, z: Tensor) -> Tensor:
        """φ(z)."""
        return torch.nn.functional.silu(z)

    def derivative(self, z: Tensor) -> Tensor:
        """φ'(z) = σ(z) (1 + z σ(-z))."""
        return torch.sigmoid(z) * (1 + z * torch.sigmoid(-z))


Smooth = Tanh | GELU | SiLU
SMOOTH: dict[str, Smooth] = {"tanh": Tanh(), "gelu": GELU(), "silu": SiLU()}
Activation = ReLU | PowerReLU | PolynomialReLU | Smooth


def layers_activation(activation: Activation) -> str:
    """How the checker calls an activation between layers."""
    return type(activation).__name__.lower()


def of_layers_named(name: str) -> ReLU | Smooth:
    """The activation between layers that the checker calls so."""
    return SMOOTH.get(name, ReLU())
