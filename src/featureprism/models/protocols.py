"""What a network may know about itself beside f(x): whoever asks, asks with isinstance; a network offers it by having the methods."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from featureprism.brackets import RadiusBracket


@runtime_checkable
class HasExactRadius(Protocol):
    """Its ℓ2 radius is known in closed form."""

    def exact_radius(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Least ‖δ‖ with y f(x + δ) ≤ 0, 0 where misclassified."""
        ...


@runtime_checkable
class HasRadiusBracket(Protocol):
    """Its ℓ2 radius is enclosed by closed forms."""

    def radius_bracket(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"]) -> RadiusBracket:
        """Both ends of the least ‖δ‖ with y f(x + δ) ≤ 0."""
        ...


@runtime_checkable
class HasClassStarts(Protocol):
    """It reads two classes off many, and knows where flips between them begin."""

    def between_classes(self) -> Float[Tensor, "k d"]:
        """Unit directions from negative to positive classes."""
        ...

    def far_in_targets(
        self, z: Float[Tensor, "n d"], y: Float[Tensor, " n"], limit: int
    ) -> Float[Tensor, "s n d"]:
        """Perturbations that lead far into single classes of the other label."""
        ...


@runtime_checkable
class HasScoreGradient(Protocol):
    """The gradient of its scores is known without automatic differentiation, which costs more than small networks themselves."""

    def score_gradient(
        self, x: Float[Tensor, "n d"], weights: Float[Tensor, "n k"]
    ) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n d"]]:
        """The scores, and the gradient of their sum with these weights."""
        ...


@runtime_checkable
class HasProofs(Protocol):
    """Methods of proof are known for it alone."""

    def proof_methods(self) -> Sequence[Any]:
        """Methods as `featureprism.verify` has them."""
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
