"""XOR of four clusters on two orthonormal directions, with labels that may be flipped."""

from dataclasses import dataclass, replace
from math import sqrt

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.data.clusters import orthogonal_centres
from featureprism.data.dataset import Dataset
from featureprism.data.label_noise import LabelNoise, flips

LAWS = ("gaussian", "laplace", "uniform", "exponential", "ball")
XOR_LABELS = (1.0, 1.0, -1.0, -1.0)  # of +μ1, -μ1, +μ2, -μ2


@dataclass(frozen=True)
class XorClusters:
    """Four clusters x = μ + σ z with μ uniform in {μ1, -μ1, μ2, -μ2} and label +1 for ±μ1, -1 for ±μ2.

    Parameters
    ----------
    directions : tensor (2, d)
        Orthogonal unit vectors μ1 and μ2.
    sigma : float
        Standard deviation σ of the noise in each coordinate.
    law : str
        Law of z: log-concave, with mean 0 and unit variance in every coordinate.

    References
    ----------
    feature-amplification, Section 2.1.
    """

    directions: Float[Tensor, "2 d"]
    sigma: float
    law: str = "gaussian"

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise ValueError(f"Unknown law {self.law!r}; choose one of {', '.join(LAWS)}.")
        if not self.sigma >= 0:
            raise ValueError(f"sigma must be at least 0, got {self.sigma}.")

    @property
    def centres(self) -> Float[Tensor, "4 d"]:
        """+μ1, -μ1, +μ2, -μ2."""
        first, second = self.directions
        return torch.stack([first, -first, second, -second])


@dataclass(frozen=True)
class NoisySample:
    """Points with noisy labels, beside the clean ones.

    Attributes
    ----------
    data : Dataset
        Points with the labels that training sees.
    clean : tensor (n,)
        Labels before some were flipped.
    flipped : tensor (n,) of bool
        Where the two differ.
    """

    data: Dataset
    clean: Float[Tensor, " n"]
    flipped: Bool[Tensor, " n"]


def xor_clusters(dim: int, sigma: float, law: str = "gaussian", *, generator: torch.Generator) -> XorClusters:
    """Four clusters at ±μ₁ (label +1) and ±μ₂ (label -1), with orthogonal unit directions μ₁ and μ₂.

    Parameters
    ----------
    dim : int
        Dimension d; in two dimensions the directions are the axes.
    sigma : float
        Noise in each coordinate.
    law : str
        Law of the noise.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    XorClusters
        With two random directions.

    References
    ----------
    feature-amplification, Section 2.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.xor_clusters(20, 0.05, generator=fp.generator_for("centres", 0))
    >>> clusters.centres.shape
    torch.Size([4, 20])
    """
    if dim < 2:
        raise ValueError(f"XOR needs two dimensions at least, got {dim}.")
    directions = torch.eye(2).double() if dim == 2 else orthogonal_centres(2, dim, 1.0, generator=generator)
    return XorClusters(directions, sigma, law)


def standard_noise(
    law: str, num_points: int, dim: int, *, generator: torch.Generator
) -> Float[Tensor, "n d"]:
    """Draws with mean 0 and unit variance in every coordinate."""
    shape = (num_points, dim)
    if law == "gaussian":
        return torch.randn(shape, generator=generator, dtype=torch.float64)
    if law == "ball":  # uniform in the ball of radius √(d+2)
        normal = torch.randn(shape, generator=generator, dtype=torch.float64)
        radius = torch.rand(num_points, 1, generator=generator, dtype=torch.float64) ** (1 / dim) * sqrt(
            dim + 2
        )
        return radius * normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True)
    u = torch.rand(shape, generator=generator, dtype=torch.float64).clamp_min(1e-300)
    if law == "uniform":
        return sqrt(12) * (u - 0.5)
    if law == "exponential":
        return -torch.log(u) - 1
    sign = torch.randint(0, 2, shape, generator=generator).double() * 2 - 1
    return -sign * torch.log(u) / sqrt(2)  # Laplace


def best_classifier(directions: Float[Tensor, "2 d"], x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
    """f*(x) = |⟨μ1, x⟩| - |⟨μ2, x⟩|. Source: feature-amplification, eq. (1)."""
    scores = (x @ directions.T.to(x.dtype)).abs()
    return scores[:, 0] - scores[:, 1]


def sample_xor(
    clusters: XorClusters, num_points: int, noise: LabelNoise, *, generator: torch.Generator
) -> NoisySample:
    """Independent points of XOR clusters with noisy labels.

    Parameters
    ----------
    clusters : XorClusters
        What to draw from.
    num_points : int
        How many points.
    noise : LabelNoise
        Which labels are flipped, and how many.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    NoisySample
        The data, and the labels before they were flipped.

    Examples
    --------
    >>> import featureprism as fp
    >>> from featureprism.data import LabelNoise
    >>> clusters = fp.data.xor_clusters(20, 0.05, generator=fp.generator_for("centres", 0))
    >>> drawn = fp.data.sample_xor(clusters, 100, LabelNoise("constant", 0.1), generator=fp.generator_for("data", 0))
    >>> drawn.data.x.shape
    torch.Size([100, 20])
    """
    centres, dim = clusters.centres, clusters.directions.shape[1]
    cluster = torch.randint(4, (num_points,), generator=generator)
    x = centres[cluster] + clusters.sigma * standard_noise(clusters.law, num_points, dim, generator=generator)
    clean = torch.tensor(XOR_LABELS, dtype=torch.float64)[cluster]
    margin = best_classifier(clusters.directions, x).abs()
    flipped = flips(noise, margin, cluster, clusters.sigma, generator=generator)
    return with_flips(NoisySample(Dataset(x, clean, cluster, centres), clean, flipped), flipped)


def with_flips(sample: NoisySample, flipped: Bool[Tensor, " n"]) -> NoisySample:
    """The same points with other labels flipped."""
    y = torch.where(flipped, -sample.clean, sample.clean)
    return NoisySample(replace(sample.data, y=y), sample.clean, flipped)
