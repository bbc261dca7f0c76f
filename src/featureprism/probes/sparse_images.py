"""Sparse reconstruction of images by the filters of a convolution: the convolutional Lasso of feature-purification, Section 8.3."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv2d, conv_transpose2d


class Filters(NamedTuple):
    """Atoms of a convolutional dictionary, each of norm 1, with the stride and padding they are moved by."""

    weight: Float[Tensor, "f c kh kw"]
    stride: int
    padding: int
    extra: int  # rows at the far edge that the last position does not reach

    def images(self, codes: Float[Tensor, "n f p q"]) -> Float[Tensor, "n c h w"]:
        """Σ of the atoms at all places, weighted by codes."""
        return conv_transpose2d(
            codes, self.weight, stride=self.stride, padding=self.padding, output_padding=self.extra
        )

    def correlations(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n f p q"]:
        """The transpose of `images`: inner products with the atoms at all places."""
        return conv2d(images, self.weight, stride=self.stride, padding=self.padding)


def filters_of(layer: nn.Conv2d, size: int) -> Filters:
    """The filters of a layer, for square images of a size, each brought to norm 1: the Lasso must not prefer long ones."""
    weight = layer.weight.detach().cpu().contiguous()
    lengths = torch.linalg.vector_norm(weight.flatten(1), dim=1).clamp_min(1e-30).reshape(-1, 1, 1, 1)
    stride, padding = layer.stride[0], int(layer.padding[0])
    return Filters(weight / lengths, stride, padding, (size + 2 * padding - weight.shape[2]) % stride)


def squared_norm(
    filters: Filters, shape: tuple[int, ...], *, generator: torch.Generator, steps: int = 100
) -> float:
    """‖A‖² of the linear map `filters.images`, by power iteration on images of a shape (c, h, w), and a twentieth more."""
    x = torch.randn((1, *shape), generator=generator, dtype=filters.weight.dtype)
    norm = 1.0
    for _ in range(steps):
        y = filters.images(filters.correlations(x / x.norm()))
        norm, x = float(y.norm()), y
    return 1.05 * norm


def conv_lasso(
    filters: Filters,
    images: Float[Tensor, "n c h w"],
    penalty: float,
    *,
    bound: float,
    steps: int = 200,
    start: Float[Tensor, "n f p q"] | None = None,
) -> Float[Tensor, "n f p q"]:
    """argmin_y ½‖Ay - x‖² + λ‖y‖₁ for every image by FISTA; A adds up the filters at all places, ‖A‖² ≤ `bound`.

    Source: feature-purification, footnote 18 (λ doubled).
    """
    codes = torch.zeros_like(filters.correlations(images)) if start is None else start
    ahead, momentum = codes, 1.0
    for _ in range(steps):
        slope = filters.correlations(filters.images(ahead) - images)
        moved = ahead - slope / bound
        now = moved.sign() * (moved.abs() - penalty / bound).clamp_min(0)
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = now + (momentum - 1) / following * (now - codes)
        codes, momentum = now, following
    return codes


class SparsityPoint(NamedTuple):
    """One λ: the mean share of coefficients that are not zero, and the mean relative squared error."""

    penalty: float
    share: float
    error: float


def sparsity_of(
    filters: Filters,
    images: Float[Tensor, "n c h w"],
    penalties: Sequence[float],
    *,
    steps: int = 200,
    generator: torch.Generator,
) -> list[SparsityPoint]:
    """The Lasso path of images brought to norm 1, from large λ to small; each starts where the last one ended."""
    lengths = torch.linalg.vector_norm(images.flatten(1), dim=1).clamp_min(1e-30).reshape(-1, 1, 1, 1)
    x, codes, found = images / lengths, None, []
    bound = squared_norm(filters, tuple(images.shape[1:]), generator=generator)
    for penalty in sorted(penalties, reverse=True):
        codes = conv_lasso(filters, x, penalty, bound=bound, steps=steps, start=codes)
        error = ((filters.images(codes) - x) ** 2).flatten(1).sum(dim=1)
        found.append(SparsityPoint(penalty, float((codes != 0).double().mean()), float(error.mean())))
    return found


def span_error(
    filters: Filters, images: Float[Tensor, "n c h w"], *, cut: float = 1e-12
) -> Float[Tensor, " n"]:
    """Relative squared distance of images from the span of the filters at all places, by the spectrum of A Aᵀ in double precision.

    Directions whose eigenvalue is below `cut` times the largest are no part of the span. Source: feature-purification, Remark 8.2.
    """
    double = filters._replace(weight=filters.weight.double())
    size = images[0].numel()
    units = torch.eye(size, dtype=torch.float64).reshape(size, *images.shape[1:])
    gram = torch.cat([double.images(double.correlations(part)) for part in units.split(256)]).flatten(1)
    gram = (gram + gram.T) / 2
    least = cut * gram.abs().sum(dim=1).max()  # at least `cut` times the largest eigenvalue
    if not torch.linalg.cholesky_ex(gram - least * torch.eye(size, dtype=gram.dtype)).info:
        return torch.zeros(len(images), dtype=gram.dtype)  # the filters span all images
    values, directions = torch.linalg.eigh(gram)
    inside = directions[:, values > cut * values[-1]]
    x = images.flatten(1).double()
    energy = (x * x).sum(dim=1).clamp_min(1e-300)
    return ((x - (x @ inside) @ inside.T) ** 2).sum(dim=1) / energy
