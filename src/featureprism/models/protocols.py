"""What a network may know about itself beside f(x): whoever asks, asks with isinstance; a network offers it by having the methods."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn


@runtime_checkable
class HasExactRadius(Protocol):
    """Its ℓ2 radius is known in closed form."""

    def exact_radius(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Least ‖δ‖ with y f(x + δ) ≤ 0, 0 where misclassified."""
        ...


@runtime_checkable
class HasInputDirections(Protocol):
    """It sees x only through its products with some directions, so that ℓ2 questions can be asked in their span."""

    def input_directions(self) -> Float[Tensor, "h d"]:
        """The rows whose span holds everything the network can see."""
        ...

    def in_coordinates(self, basis: Float[Tensor, "d r"]) -> Any:
        """The same function of z = basisᵀ x, exact when the basis spans the directions."""
        ...


@runtime_checkable
class HasInputGradient(Protocol):
    """Its gradient in x is known in closed form."""

    def input_gradient(self, x: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """f(x) and ∇f(x)."""
        ...


@runtime_checkable
class HasConvexParts(Protocol):
    """Its margin is a difference of two convex functions, y f = P - N."""

    def convex_parts(
        self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"], Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """P, ∇P, N, ∇N."""
        ...


@runtime_checkable
class HasOneOutput(Protocol):
    """Its two logits are one network's output f in two forms: -f/2 and f/2."""

    @property
    def one_output(self) -> nn.Module:
        """The network of f."""
        ...
