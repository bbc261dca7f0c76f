"""Which features the neurons point at, and how much weight each carries."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featureprism.geometry import row_norms, unit_rows

ALIVE_SHARE = 1e-3  # a neuron is alive if |a_j|‖w_j‖ is at least this share of the largest


class Quartiles(NamedTuple):
    """First quartile, median, third quartile."""

    low: float
    median: float
    high: float


def quartiles(values: Float[Tensor, " h"]) -> Quartiles:
    """Quartiles of a sample (linear interpolation); NaN for an empty one."""
    if len(values) == 0:
        return Quartiles(*[float("nan")] * 3)
    return Quartiles(*torch.quantile(values.double(), torch.tensor([0.25, 0.5, 0.75]).double()).tolist())


def cosines(W: Float[Tensor, "h d"], centres: Float[Tensor, "k d"]) -> Float[Tensor, "h k"]:
    """Cosines of the neurons with the centres.

    Parameters
    ----------
    W : tensor (h, d)
        Neurons as rows.
    centres : tensor (k, d)
        Centres of the clusters.

    Returns
    -------
    tensor (h, k)
        cos(w_j, μ_k); zero for a zero neuron.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> fp.probes.cosines(torch.tensor([[0.0, 2.0]]), torch.eye(2)).tolist()
    [[0.0, 1.0]]
    """
    return unit_rows(W) @ unit_rows(centres).T.to(W.dtype)


def alignment(W: Float[Tensor, "h d"], centres: Float[Tensor, "k d"]) -> Float[Tensor, " h"]:
    """Cosine of each neuron with the centre nearest to it.

    Parameters
    ----------
    W : tensor (h, d)
        Neurons as rows.
    centres : tensor (k, d)
        Centres of the clusters.

    Returns
    -------
    tensor (h,)
        max_k cos(w_j, μ_k).

    References
    ----------
    gmm-flow, Appendix B.1.

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> fp.probes.alignment(torch.tensor([[2.0, 0.0], [3.0, 4.0]]), torch.eye(2)).tolist()
    [1.0, 0.800000011920929]
    """
    return cosines(W, centres).amax(dim=1)


def alive(W: Float[Tensor, "h d"], a: Float[Tensor, " h"]) -> Bool[Tensor, " h"]:
    """Neurons that matter: |a_j|‖w_j‖ at least 1/1000 of the largest."""
    strength = a.abs() * row_norms(W)
    return strength >= ALIVE_SHARE * strength.max()


def cluster_masses(
    log_norms: Float[Tensor, " h"], region: Int[Tensor, " h"], num_clusters: int
) -> Float[Tensor, " k"]:
    """Squared norms of the neurons, summed over each cluster.

    Parameters
    ----------
    log_norms : tensor (h,)
        Logarithms of the norms of the neurons.
    region : tensor (h,) of int
        The cluster to which each neuron belongs.
    num_clusters : int
        Number of clusters.

    Returns
    -------
    tensor (k,)
        S_k = Σ ‖w_j‖² over the neurons of cluster k.

    References
    ----------
    gmm-flow, equation (14).

    Examples
    --------
    >>> import torch
    >>> import featureprism as fp
    >>> fp.probes.cluster_masses(torch.zeros(3), torch.tensor([0, 0, 1]), 2).tolist()
    [2.0, 1.0]
    """
    masses = torch.zeros(num_clusters, dtype=log_norms.dtype)
    inside = region >= 0
    return masses.index_add(0, region[inside], (2 * log_norms[inside]).exp())


def balancedness(W: Float[Tensor, "h d"], a: Float[Tensor, " h"]) -> Float[Tensor, " h"]:
    """‖w_j‖² - a_j², which gradient flow keeps constant. Source: gmm-flow, (E.1)."""
    return row_norms(W) ** 2 - a**2
