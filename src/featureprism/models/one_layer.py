"""One hidden layer: networks built from plain tensors with closed gradients, and the form that proofs work with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.checker.models import Scores, TwoClasses
from featureprism.checker.scaled import Network
from featureprism.geometry import row_norms, unit_rows
from featureprism.models.activations import Activation


class Gradient(NamedTuple):
    """∂/∂(W, a, b) of Σ_i g_i f(x_i); shapes as the parameters."""

    W: Tensor
    a: Tensor
    b: Tensor | None


class TwoLayerNet(nn.Module):
    """A network with one hidden layer, f(x) = Σ_j a_j φ(⟨w_j, x⟩ + b_j).

    With PolynomialReLU a neuron is a_j ‖w_j‖ φ((⟨w_j, x⟩ + b_j)/‖w_j‖). A leading axis (s, h, d) makes a stack of s networks that share
    every matrix product; outputs are then (s, n), and net[i] is the i-th network.

    Parameters
    ----------
    W : tensor (h, d)
        Neurons as rows.
    a : tensor (h,)
        Output weights.
    b : tensor (h,), optional
        Biases.
    activation : ReLU, PowerReLU, PolynomialReLU or Tanh
        φ.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> net = fp.networks.TwoLayerNet(torch.eye(2), torch.tensor([1.0, -1.0]), activation=fp.networks.ReLU())
    >>> net(torch.tensor([[3.0, 1.0], [0.0, 2.0]])).tolist()
    [2.0, -2.0]
    """

    W: Tensor
    a: Tensor
    b: Tensor | None

    def __init__(self, W: Tensor, a: Tensor, b: Tensor | None = None, *, activation: Activation) -> None:
        super().__init__()
        if W.ndim not in (2, 3) or a.shape != W.shape[:-1]:
            raise ValueError(
                f"Need W (h, d) and a (h,), or stacks (s, h, d) and (s, h); "
                f"got {tuple(W.shape)} and {tuple(a.shape)}."
            )
        if b is not None and b.shape != a.shape:
            raise ValueError(f"b must have the shape of a {tuple(a.shape)}, got {tuple(b.shape)}.")
        if not a.shape[-1]:
            raise ValueError(f"A network needs at least one neuron, got W {tuple(W.shape)}.")
        tensors = {"W": W, "a": a} | ({"b": b} if b is not None else {})
        for name, tensor in tensors.items():
            if not tensor.is_floating_point():
                raise ValueError(
                    f"{name} must hold real floating-point numbers, got {tensor.dtype}; use {name}.double() of real ones."
                )
            if not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"{name} contains NaN or infinite values.")
        self.W = nn.Parameter(W.detach().clone())
        self.a = nn.Parameter(a.detach().clone())
        self.b = None if b is None else nn.Parameter(b.detach().clone())
        self.activation = activation

    @property
    def width(self) -> int:
        """h, the number of neurons."""
        return self.a.shape[-1]

    def __getitem__(self, index: int) -> "TwoLayerNet":
        b = None if self.b is None else self.b[index]
        return TwoLayerNet(self.W[index], self.a[index], b, activation=self.activation)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "*s n"]:
        """f(x) for every point (and every network of a stack)."""
        return outputs(self.W, self.a, self.b, self.activation, x)

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> "TwoLayerNet":
        """The same function of z = basisᵀ x, exact when the basis spans the rows of W."""
        W = (self.W.detach().to(basis.dtype)) @ basis
        a = self.a.detach().to(basis.dtype)
        b = None if self.b is None else self.b.detach().to(basis.dtype)
        return TwoLayerNet(W, a, b, activation=self.activation)

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        return self.W.detach().reshape(-1, self.W.shape[-1])

    @torch.no_grad()
    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """f(x) and ∇f(x): two matrix products. For PolynomialReLU ∇f = Σ_j a_j φ'(z_j/‖w_j‖) w_j."""
        z, rescale = pre_activations(self.W, self.b, self.activation, x)
        value = (self.activation.value(z) * rescale) @ self.a
        return value, (self.activation.derivative(z) * self.a) @ self.W

    @torch.no_grad()
    def convex_parts(
        self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"], Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """P, ∇P, N, ∇N of y f = P - N: the neurons that vote for the label and those against it; convex for powers of ReLU."""
        z, rescale = pre_activations(self.W, self.b, self.activation, x)
        value, slope = self.activation.value(z) * rescale, self.activation.derivative(z)
        votes = y.unsqueeze(1) * self.a
        positive, negative = votes.clamp_min(0), (-votes).clamp_min(0)
        return (
            (positive * value).sum(dim=1),
            (positive * slope) @ self.W,
            (negative * value).sum(dim=1),
            (negative * slope) @ self.W,
        )


def stack(nets: Sequence[TwoLayerNet]) -> TwoLayerNet:
    """Networks of one shape and activation as one stack."""
    if len({net.activation for net in nets}) != 1 or len({net.W.shape for net in nets}) != 1:
        raise ValueError("Only networks of one shape and one activation can be stacked.")
    biases = [net.b for net in nets if net.b is not None]
    b = torch.stack(biases) if len(biases) == len(nets) else None
    return TwoLayerNet(
        torch.stack([net.W for net in nets]),
        torch.stack([net.a for net in nets]),
        b,
        activation=nets[0].activation,
    )


def pre_activations(
    W: Tensor, b: Tensor | None, activation: Activation, x: Float[Tensor, "n d"]
) -> tuple[Tensor, Tensor | float]:
    """(z, rescale), z (n, *s, h) what φ is applied to, rescale what φ(z) is multiplied by.

    PolynomialReLU: z = ⟨x, w⟩/‖w‖ + b/‖w‖ and rescale = ‖w‖, a zero neuron giving 0; otherwise z = ⟨x, w⟩ + b and 1.
    """
    rows, rescale = (unit_rows(W), row_norms(W)) if activation.weight_normalised else (W, 1.0)
    z = (x @ rows.reshape(-1, W.shape[-1]).T).reshape(x.shape[0], *W.shape[:-1])
    if b is None:
        return z, rescale
    if isinstance(rescale, Tensor):
        b = torch.where(rescale > 0, b / rescale, torch.zeros_like(b))
    return z + b, rescale


def outputs(
    W: Tensor, a: Tensor, b: Tensor | None, activation: Activation, x: Float[Tensor, "n d"]
) -> Float[Tensor, "*s n"]:
    """f(x) from bare tensors."""
    z, rescale = pre_activations(W, b, activation, x)
    return torch.einsum("n...h,...h->...n", activation.value(z), a * rescale)


@torch.no_grad()
def parameter_gradient(
    W: Tensor,
    a: Tensor,
    b: Tensor | None,
    activation: Activation,
    x: Float[Tensor, "n d"],
    residual,
) -> tuple[Float[Tensor, "*s n"], Gradient]:
    """f(x) and ∂/∂(W, a, b) Σ_i g_i f(x_i), where g = residual(f(x)) (shape of f): two matrix products.

    With c_ij = g_i φ'(z_ij): ∂W_j = a_j Σ_i c_ij x_i, ∂b_j = a_j Σ_i c_ij, ∂a_j = Σ_i g_i φ(z_ij). PolynomialReLU
    multiplies ∂a_j by ‖w_j‖ and adds (1-p) a_j Σ_i g_i φ(z_ij) u_j to ∂W_j. Source: gmm-flow, (E.2).
    """
    z, rescale = pre_activations(W, b, activation, x)
    phi, c = activation.value(z), activation.derivative(z)  # (n, *s, h)
    f = torch.einsum("n...h,...h->...n", phi, a * rescale)
    g = residual(f)
    g_phi = torch.einsum("...n,n...h->...h", g, phi)
    c.mul_(g.movedim(-1, 0).unsqueeze(-1))
    dW = (c.reshape(x.shape[0], -1).T @ x).reshape(W.shape)
    if activation.weight_normalised:
        dW += ((1 - activation.p) * g_phi).unsqueeze(-1) * unit_rows(W)
    dW *= a.unsqueeze(-1)
    return f, Gradient(dW, g_phi * rescale, None if b is None else a * c.sum(dim=0))


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
