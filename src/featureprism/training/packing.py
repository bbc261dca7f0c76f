"""The parameters of a two-layer network as one vector, for solvers that know only vectors."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.models.activations import Activation
from featureprism.models.one_layer import TwoLayerNet, parameter_gradient


@dataclass(frozen=True)
class Packing:
    """How W, a and (where there are biases) b follow each other in the vector."""

    shapes: tuple[torch.Size, ...]
    activation: Activation

    def parts(self, state: Float[Tensor, " q"]) -> list[Tensor]:
        """W, a and perhaps b."""
        pieces = state.split([shape.numel() for shape in self.shapes])
        return [piece.reshape(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def net(self, state: Float[Tensor, " q"]) -> TwoLayerNet:
        """The network with these parameters."""
        return TwoLayerNet(*self.parts(state), activation=self.activation)

    def gradient(
        self, state: Float[Tensor, " q"], x: Float[Tensor, "n d"], residual: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, " q"]:
        """∂/∂θ Σ_i g_i f(x_i), g = residual(f(x)), as a vector."""
        W, a, *b = self.parts(state)
        _, gradient = parameter_gradient(W, a, b[0] if b else None, self.activation, x, residual)
        return flat([part for part in gradient if part is not None])


def flat(parts: list[Tensor]) -> Float[Tensor, " q"]:
    """The parts one after the other."""
    return torch.cat([part.flatten() for part in parts])


def packed(net: TwoLayerNet) -> tuple[Packing, Float[Tensor, " q"]]:
    """The packing of a network and its parameters as a vector, in float64."""
    parts = [p.detach().double() for p in net.parameters()]
    return Packing(tuple(p.shape for p in parts), net.activation), flat(parts)
