"""Clusters given by the inner products of their centres: any dimension at the price of the number of points.

Networks and radii see points only through inner products with training points. Of n training points around k centres in d dimensions
k + n coordinates are therefore enough, whatever d is, and these can be drawn without drawing the points: exact in law.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data.clusters import GaussianClusters
from featureprism.data.dataset import Dataset


class SpanSample(NamedTuple):
    """Clusters, training points and test points in k + n + 1 coordinates.

    The first k are along the centres, the next n span the training points; the last holds the norm of what is left of a test point,
    which no network in the span of the training points sees.

    Parameters
    ----------
    clusters : GaussianClusters
        The clusters.
    train : Dataset
        Training points.
    test : Dataset
        Test points.
    """

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


def sphere_gram(
    num_clusters: int, dim: int, norm: float, *, generator: torch.Generator
) -> Float[Tensor, "k k"]:
    """Inner products of independent centres, uniform on the sphere of radius `norm` in `dim` dimensions."""
    frame = _triangle(num_clusters, dim, generator)
    unit = frame / torch.linalg.vector_norm(frame, dim=1, keepdim=True)
    return norm**2 * unit @ unit.T


def sample_by_gram(
    gram: Float[Tensor, "k k"],
    labels: Float[Tensor, " k"],
    noise_std: float,
    *,
    dim: int,
    num_points: int,
    num_test: int,
    generator: torch.Generator,
) -> SpanSample:
    """Training and test points around centres with these inner products in `dim` dimensions.

    Parameters
    ----------
    gram : Tensor
        Inner products of the centres; positive semidefinite.
    labels : Tensor
        Label -1 or +1 of each cluster.
    noise_std : float
        Standard deviation of the Gaussian noise in each of the `dim` directions.
    dim, num_points, num_test : int
        Dimension, and numbers of points; `num_points` plus the number of clusters must be below `dim`.
    generator : torch.Generator
        Source of randomness.

    Returns
    -------
    SpanSample
        Inner products of training points with each other, with the centres and with any one test point have the law that they have in
        `dim` dimensions. Those of two test points do not.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> data = fp.data.sample_by_gram(
    ...     1e8 * torch.eye(4, dtype=torch.float64), fp.data.class_labels(2, 2), 1.0,
    ...     dim=10**8, num_points=12, num_test=5, generator=fp.generator_for("data", 0),
    ... )
    >>> data.train.x.shape, data.test.x.shape
    (torch.Size([12, 17]), torch.Size([5, 17]))

    References
    ----------
    M. S. Bartlett, "On the theory of statistical regression", Proc. R. Soc. Edinburgh 53 (1933): the triangular form of Gaussian rows.
    """
    k = len(gram)
    if num_points + k >= dim:
        raise ValueError(f"{num_points} points and {k} centres span all {dim} dimensions; use sample.")
    values, vectors = torch.linalg.eigh(gram.double())
    if float(values.min()) < -1e-9 * float(values.max()):
        raise ValueError(f"No centres have these inner products: least eigenvalue {float(values.min()):.3g}.")
    size = k + num_points + 1
    mu = torch.zeros(k, size, dtype=torch.float64)
    mu[:, :k] = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    clusters = GaussianClusters(mu, labels, noise_std)
    cluster = torch.randint(k, (num_points,), generator=generator)
    noise = torch.zeros(num_points, size, dtype=torch.float64)
    noise[:, :k] = torch.randn(num_points, k, generator=generator, dtype=torch.float64)
    noise[:, k:-1] = _triangle(num_points, dim - k, generator)
    train = Dataset(mu[cluster] + noise_std * noise, labels[cluster], cluster, mu)
    cluster = torch.randint(k, (num_test,), generator=generator)
    noise = torch.randn(num_test, size, generator=generator, dtype=torch.float64)
    noise[:, -1] = _chi(np.full(num_test, dim - k - num_points), generator)
    return SpanSample(clusters, train, Dataset(mu[cluster] + noise_std * noise, labels[cluster], cluster, mu))


def _triangle(num: int, dim: int, generator: torch.Generator) -> Float[Tensor, "n n"]:
    """Gaussian rows of `dim` entries in the basis that Gram-Schmidt makes of them: N(0, 1) below a diagonal of χ."""
    lower = torch.randn(num, num, generator=generator, dtype=torch.float64).tril(-1)
    return lower + torch.diag(_chi(dim - np.arange(num), generator))


def _chi(freedom: np.ndarray, generator: torch.Generator) -> Tensor:
    entropy = int(torch.randint(2**62, (1,), generator=generator))
    return torch.from_numpy(np.sqrt(np.random.default_rng(entropy).chisquare(freedom)))
