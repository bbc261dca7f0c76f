"""Noise of unit variance on average: Gaussian, and others that a theorem about clusters may or may not allow.

double-edged, Section 2, allows any noise with ⟨ξ, e⟩ = Õ(1) for every unit vector e and ‖ξ‖ = Õ(√d): `signs` and `uneven` qualify,
`heavy` has coordinates without a fourth moment and does not.
"""

from collections.abc import Callable
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

Noise = Callable[[tuple[int, int], torch.Generator], Tensor]


def gaussian_noise(shape: tuple[int, int], generator: torch.Generator) -> Float[Tensor, "n d"]:
    """ξ ~ N(0, I)."""
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def sign_noise(shape: tuple[int, int], generator: torch.Generator) -> Float[Tensor, "n d"]:
    """Every coordinate is ±1."""
    return torch.randint(2, shape, generator=generator).double() * 2 - 1


def uneven_noise(shape: tuple[int, int], generator: torch.Generator) -> Float[Tensor, "n d"]:
    """ξ ~ N(0, Σ) with variances from 0 to 2 along the axes: tr Σ = d and ‖Σ‖ = 2."""
    return torch.linspace(0, 2, shape[1], dtype=torch.float64).sqrt() * gaussian_noise(shape, generator)


def heavy_noise(shape: tuple[int, int], generator: torch.Generator) -> Float[Tensor, "n d"]:
    """Student's t with 3 degrees of freedom, divided by its standard deviation √3, in every coordinate."""
    top, *below = (gaussian_noise(shape, generator) for _ in range(4))
    squares = torch.stack([part**2 for part in below]).mean(dim=0)
    return top / squares.sqrt() / sqrt(3)


NOISE_LAWS: dict[str, Noise] = {
    "gaussian": gaussian_noise,
    "signs": sign_noise,
    "uneven": uneven_noise,
    "heavy": heavy_noise,
}
