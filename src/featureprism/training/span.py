"""Training in the span of the data: exact, and smaller when there are fewer points than dimensions."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import row_norms, span_basis, unit_rows


@dataclass(frozen=True)
class SpanCoordinates:
    """Coordinates in which gradient methods on a two-layer network can run.

    Every gradient of w_j is a combination of the points and (for PolynomialReLU) of w_j itself, so w_j stays in
    span(x) ⊕ span(e_j), where e_j is the direction of its initial part outside the span: r + 1 numbers instead of d.
    """

    points: Float[Tensor, "n r"]
    basis: Float[Tensor, "d q"]
    outside: Float[Tensor, "h d"]

    def down(self, W: Float[Tensor, "h d"]) -> Float[Tensor, "h r"]:
        """Coordinates of neurons that lie in their spans."""
        rest = (W * self.outside).sum(dim=-1, keepdim=True)
        return torch.cat([W @ self.basis, rest], dim=-1)

    def up(self, coordinates: Float[Tensor, "h r"]) -> Float[Tensor, "h d"]:
        """The neurons themselves."""
        return coordinates[..., :-1] @ self.basis.T + coordinates[..., -1:] * self.outside


def span_coordinates(x: Float[Tensor, "n d"], W: Float[Tensor, "h d"]) -> SpanCoordinates:
    """The coordinates for training the neurons W on the points x; all of space if n ≥ d."""
    basis = span_basis(x)
    inside = W @ basis
    residue = W - inside @ basis.T
    # what QR rounding leaves of a neuron inside the span is not a direction
    outside = unit_rows(residue) * (row_norms(residue) > 1e-9 * row_norms(W)).unsqueeze(-1)
    points = torch.cat([x @ basis, torch.zeros_like(x[:, :1])], dim=1)
    return SpanCoordinates(points, basis, outside)
