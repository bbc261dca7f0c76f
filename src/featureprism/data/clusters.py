"""Mixtures of isotropic Gaussians around any centres, split into two classes in any way."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.data.noise import Noise, gaussian_noise

BLOCK = (
    4096  # points that are in memory at a time; a multiple of 16, which keeps the numbers those of one draw
)


@dataclass(frozen=True)
class GaussianClusters:
    """Gaussian clusters: x = mu_k + noise_std·ξ with ξ ~ N(0, I), k uniform and label y = labels[k].

    Parameters
    ----------
    mu : tensor (k, d)
        Centres.
    labels : tensor (k,)
        Label of each cluster, -1 or +1.
    noise_std : float
        Standard deviation of the noise in each coordinate; the noise has norm about noise_std·√d.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> clusters = fp.data.GaussianClusters(mu=torch.eye(3), labels=torch.tensor([1.0, 1.0, -1.0]), noise_std=0.05)
    >>> fp.data.sample_balanced(clusters, 2, generator=fp.generator_for("data", 0)).y.tolist()
    [1.0, 1.0, 1.0, 1.0, -1.0, -1.0]
    """

    mu: Float[Tensor, "k d"]
    labels: Float[Tensor, " k"]
    noise_std: float

    def __post_init__(self) -> None:
        if self.labels.shape != self.mu.shape[:1]:
            raise ValueError(f"Need one label per centre, got {tuple(self.labels.shape)}.")
        if not bool((self.labels.abs() == 1).all()):
            raise ValueError(f"Cluster labels must be -1 or +1, got {self.labels.tolist()[:5]}.")
        if not self.noise_std >= 0:
            raise ValueError(f"noise_std must be at least 0, got {self.noise_std}.")

    @property
    def num_clusters(self) -> int:
        """k, the number of centres."""
        return self.mu.shape[0]

    @property
    def dim(self) -> int:
        """d, the dimension of the points."""
        return self.mu.shape[1]


def class_labels(num_positive: int, num_negative: int) -> Float[Tensor, " k"]:
    """Labels of clusters of which the first are positive.

    Parameters
    ----------
    num_positive, num_negative : int
        Clusters with label +1 and -1.

    Returns
    -------
    tensor (k,)
        +1 for the first `num_positive` clusters, then -1.

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.data.class_labels(2, 1).tolist()
    [1.0, 1.0, -1.0]
    """
    if num_positive < 1 or num_negative < 1:
        raise ValueError(f"Each class needs a cluster, got {num_positive} and {num_negative}.")
    return torch.cat([torch.ones(num_positive), -torch.ones(num_negative)]).double()


def orthogonal_centres(
    num_clusters: int, dim: int, norm: float, *, generator: torch.Generator
) -> Float[Tensor, "k d"]:
    """Orthogonal centres of one norm, Haar distributed: QR of a Gaussian matrix."""
    if num_clusters > dim:
        raise ValueError(
            f"{num_clusters} orthogonal centres do not fit in {dim} dimensions; "
            "raise dim, or use sphere_centres."
        )
    gaussian = torch.randn(dim, num_clusters, generator=generator, dtype=torch.float64)
    return norm * torch.linalg.qr(gaussian).Q.T.contiguous()


def equicorrelated_centres(
    num_clusters: int, dim: int, norm: float, cosine: float, *, generator: torch.Generator
) -> Float[Tensor, "k d"]:
    """Centres of one norm with the same cosine between any two.

    Parameters
    ----------
    num_clusters : int
        Number k of centres.
    dim : int
        Dimension of the points.
    norm : float
        Norm of every centre.
    cosine : float
        Cosine c between any two, -1/(k-1) ≤ c < 1.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    tensor (k, d)
        Rows of the symmetric square root of (1-c)I + c11ᵀ times an orthonormal frame, scaled.

    References
    ----------
    feature-averaging, Appendix E.

    Examples
    --------
    >>> import featureprism as fp
    >>> mu = fp.data.equicorrelated_centres(3, 10, 2.0, -0.1, generator=fp.generator_for('centres', 0))
    >>> [round(value, 6) for value in (mu @ mu.T)[0].tolist()]
    [4.0, -0.4, -0.4]
    """
    if not -1 / max(num_clusters - 1, 1) <= cosine < 1:
        raise ValueError(f"{num_clusters} vectors cannot all have cosine {cosine}.")
    gram = torch.full((num_clusters, num_clusters), float(cosine), dtype=torch.float64)
    return centres_with_cosines(gram.fill_diagonal_(1), dim, norm, generator=generator)


def centres_with_cosines(
    cosines: Float[Tensor, "k k"], dim: int, norm: float, *, generator: torch.Generator
) -> Float[Tensor, "k d"]:
    """Centres of one norm with the given cosines, turned at random: a root of the Gram matrix times an orthonormal frame."""
    values, vectors = torch.linalg.eigh(cosines.double())
    if float(values.min()) < -1e-9 or not bool(torch.allclose(torch.diagonal(cosines), values.new_ones(()))):
        raise ValueError(
            f"No vectors have these cosines: the matrix must be 1 on its diagonal and positive semidefinite, least eigenvalue "
            f"{float(values.min()):.3g}."
        )
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    return norm * root @ orthogonal_centres(len(cosines), dim, 1.0, generator=generator)


def sphere_centres(
    num_clusters: int, dim: int, norm: float, *, generator: torch.Generator
) -> Float[Tensor, "k d"]:
    """Independent centres, uniform on the sphere of radius `norm`."""
    gaussian = torch.randn(num_clusters, dim, generator=generator, dtype=torch.float64)
    return norm * gaussian / torch.linalg.vector_norm(gaussian, dim=1, keepdim=True)


def orthonormal_clusters(
    dim: int, num_positive: int, num_negative: int, alpha: float, *, generator: torch.Generator
) -> GaussianClusters:
    """Clusters with orthonormal centres and noise N(0, α²I/d), whose norm is about α.

    Parameters
    ----------
    dim : int
        Dimension d, at least the number of clusters.
    num_positive, num_negative : int
        Clusters with label +1 and -1.
    alpha : float
        Norm of the noise.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    GaussianClusters
        Centres drawn uniformly among all orthonormal frames.

    References
    ----------
    gmm-flow, equation (1).

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthonormal_clusters(64, 2, 1, 0.1, generator=fp.generator_for("centres", 0))
    >>> clusters.labels.tolist(), round(clusters.noise_std, 6)
    ([1.0, 1.0, -1.0], 0.0125)
    """
    labels = class_labels(num_positive, num_negative)
    mu = orthogonal_centres(len(labels), dim, 1.0, generator=generator)
    return GaussianClusters(mu, labels, alpha / sqrt(dim))


def orthogonal_clusters(
    dim: int, num_positive: int, num_negative: int, sigma: float, *, generator: torch.Generator
) -> GaussianClusters:
    """Clusters with orthogonal centres of norm √d and noise N(0, σ²I).

    Divided by √d this is `orthonormal_clusters` with α = σ.

    Parameters
    ----------
    dim : int
        Dimension d, at least the number of clusters.
    num_positive, num_negative : int
        Clusters with label +1 and -1.
    sigma : float
        Noise in each coordinate.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    GaussianClusters
        Centres drawn uniformly among all orthogonal frames.

    References
    ----------
    feature-averaging, Definition 3.1.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthogonal_clusters(64, 2, 2, 1.0, generator=fp.generator_for("centres", 0))
    >>> [round(norm, 3) for norm in clusters.mu.norm(dim=1).tolist()], clusters.noise_std
    ([8.0, 8.0, 8.0, 8.0], 1.0)
    """
    labels = class_labels(num_positive, num_negative)
    mu = orthogonal_centres(len(labels), dim, sqrt(dim), generator=generator)
    return GaussianClusters(mu, labels, sigma)


def _around(
    distribution: GaussianClusters,
    cluster: Int[Tensor, " n"],
    generator: torch.Generator,
    noise: Noise = gaussian_noise,
) -> Dataset:
    shape = (len(cluster), distribution.dim)
    x = distribution.mu[cluster] + distribution.noise_std * noise(shape, generator)
    return Dataset(x, distribution.labels[cluster], cluster, distribution.mu)


def sample(
    distribution: GaussianClusters,
    num_points: int,
    *,
    generator: torch.Generator,
    noise: Noise = gaussian_noise,
) -> Dataset:
    """Independent points of a mixture; the sizes of the clusters are random.

    Parameters
    ----------
    distribution : GaussianClusters
        What to draw from.
    num_points : int
        How many points.
    generator : torch.Generator
        Source of randomness, see `generator_for`.
    noise : callable, optional
        Function of a shape and a generator that draws ξ; Gaussian by default.

    Returns
    -------
    Dataset
        Points x (n, d), labels y (n,) and cluster indices (n,).

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthonormal_clusters(50, 2, 2, 0.1, generator=fp.generator_for("centres", 0))
    >>> fp.data.sample(clusters, 5, generator=fp.generator_for("data", 0)).x.shape
    torch.Size([5, 50])
    """
    cluster = torch.randint(distribution.num_clusters, (num_points,), generator=generator)
    return _around(distribution, cluster, generator, noise)


def sample_blocks(
    distribution: GaussianClusters,
    num_points: int,
    *,
    generator: torch.Generator,
    noise: Noise = gaussian_noise,
    block: int = BLOCK,
) -> Iterator[Dataset]:
    """The points of `sample` from the same generator, a block at a time, so that any number of them fits in memory."""
    cluster = torch.randint(distribution.num_clusters, (num_points,), generator=generator)
    for part in cluster.split(block):
        yield _around(distribution, part, generator, noise)


def sample_balanced(
    distribution: GaussianClusters, per_cluster: int, *, generator: torch.Generator
) -> Dataset:
    """Exactly `per_cluster` points of each cluster, sorted by cluster.

    Parameters
    ----------
    distribution : GaussianClusters
        What to draw from.
    per_cluster : int
        Points of each cluster.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    Dataset
        Points x (n, d), labels y (n,) and cluster indices (n,), n = per_cluster · k.

    References
    ----------
    gmm-flow, equation (6).

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthonormal_clusters(50, 2, 1, 0.1, generator=fp.generator_for("centres", 0))
    >>> fp.data.sample_balanced(clusters, 2, generator=fp.generator_for("data", 0)).cluster.tolist()
    [0, 0, 1, 1, 2, 2]
    """
    cluster = torch.arange(distribution.num_clusters).repeat_interleave(per_cluster)
    return _around(distribution, cluster, generator)


def sample_in_span(
    dim: int, num_positive: int, num_negative: int, num_points: int, *, generator: torch.Generator
) -> Dataset:
    """A sample of `orthogonal_clusters` (σ = 1) in coordinates of its span, (k + n) instead of d; exact in law.

    What is left of the noise is a Gaussian n × (d-k) matrix, of which only inner products matter: in the basis that
    Gram-Schmidt makes of its rows it is triangular, with independent N(0, 1) below a diagonal of χ with d-k, d-k-1, …
    degrees of freedom (Bartlett 1933).

    Parameters
    ----------
    dim : int
        Dimension d.
    num_positive, num_negative : int
        Clusters with label +1 and -1.
    num_points : int
        How many points.
    generator : torch.Generator
        Source of randomness, see `generator_for`.

    Returns
    -------
    Dataset
        Points in k + n coordinates; the first k are along the centres.

    Examples
    --------
    >>> import featureprism as fp
    >>> data = fp.data.sample_in_span(10**6, 2, 2, 8, generator=fp.generator_for('data', 0))
    >>> data.x.shape
    torch.Size([8, 12])
    """
    labels = class_labels(num_positive, num_negative)
    k = len(labels)
    if num_points > dim - k:
        raise ValueError(f"{num_points} points and {k} centres span all {dim} dimensions; use sample.")
    cluster = torch.randint(k, (num_points,), generator=generator)
    noise = torch.randn(num_points, k + num_points, generator=generator, dtype=torch.float64).tril(k - 1)
    entropy = int(torch.randint(2**62, (1,), generator=generator))
    freedom = dim - k - np.arange(num_points)
    diagonal = torch.from_numpy(np.sqrt(np.random.default_rng(entropy).chisquare(freedom)))
    noise[torch.arange(num_points), k + torch.arange(num_points)] = diagonal
    centres = sqrt(dim) * torch.eye(k, k + num_points, dtype=torch.float64)
    return Dataset(centres[cluster] + noise, labels[cluster], cluster, centres)


def to_signs(y: Tensor) -> Float[Tensor, " n"]:
    """Labels of two values as -1 and +1; the larger value becomes +1.

    Parameters
    ----------
    y : tensor (n,)
        Labels with exactly two values.

    Returns
    -------
    tensor (n,)
        Labels -1.0 and +1.0.

    Raises
    ------
    ValueError
        If there are not exactly two values.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> fp.data.to_signs(torch.tensor([0, 1, 1])).tolist()
    [-1.0, 1.0, 1.0]
    """
    values = torch.unique(y)
    if len(values) != 2:
        raise ValueError(f"Need exactly two label values, got {values.tolist()[:5]}.")
    return torch.where(y == values[1], 1.0, -1.0).double()
