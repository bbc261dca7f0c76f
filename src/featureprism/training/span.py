"""Training in the span of the data: exact, and smaller when there are fewer points than dimensions."""

from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import row_norms, span_basis, unit_rows
from featureprism.networks import ReLU, TwoLayerNet, voting_start


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


def start_in_span(
    per_class: int, dim: int, num_coordinates: int, std: float, *, generator: torch.Generator
) -> tuple[TwoLayerNet, Float[Tensor, " h"]]:
    """A random two-class start in the coordinates of a span, and its squared lengths outside, which training leaves alone.

    Parameters
    ----------
    per_class : int
        Neurons of either sign.
    dim : int
        Dimensions of the space.
    num_coordinates : int
        Dimensions of the span, as many as `sample_in_span` gives the points.
    std : float
        Standard deviation of the entries.
    generator : torch.Generator
        Source of randomness.

    Returns
    -------
    TwoLayerNet, Tensor
        The network with weights in the span, and for each neuron the squared length of what lies outside of it: χ² with
        dim - num_coordinates degrees of freedom, by its normal limit.

    Examples
    --------
    >>> import featureprism as fp
    >>> net, outside = fp.training.start_in_span(2, 10**6, 12, 1e-3, generator=fp.generator_for('start', 0))
    >>> net.W.shape, outside.shape
    (torch.Size([4, 12]), torch.Size([4]))
    """
    net = voting_start(per_class, num_coordinates, std, ReLU(), generator=generator)
    freedom = dim - num_coordinates
    normal = torch.randn(net.width, generator=generator, dtype=torch.float64)
    return net, std**2 * (freedom + sqrt(2 * freedom) * normal)
