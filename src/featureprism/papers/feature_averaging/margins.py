"""How far the margins of training points, and with them the derivatives of the loss, are from being equal."""

import torch
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.lab.rows import Row


def cluster_means(values: Tensor, data: Dataset) -> tuple[Tensor, Tensor]:
    """The mean of a value over the points of every cluster, and how many points it has."""
    sizes = torch.bincount(data.cluster, minlength=len(data.centres)).to(values.dtype)
    sums = torch.zeros_like(sizes).index_add(0, data.cluster, values)
    return sums / sizes.clamp_min(1), sizes


def balance(margin: Tensor, data: Dataset) -> float:
    """Slope of the clusters' mean margins on ln(|I_j| + 1), over clusters that have points: least squares."""
    means, sizes = cluster_means(margin, data)
    u, v = (sizes[sizes > 0] + 1).log(), means[sizes > 0]
    u, v = u - u.mean(), v - v.mean()
    return float((u * v).sum() / (u**2).sum())


def spread_of(margin: Tensor, data: Dataset) -> Row:
    """The quantities of Lemmas 5.3 and B.7 (4)-(6): gaps of margins and ratios of derivatives, overall and within clusters."""
    slope, cluster = torch.sigmoid(-margin), data.cluster
    means, _ = cluster_means(margin, data)
    num = len(means)
    high = torch.full((num,), -torch.inf, dtype=margin.dtype).scatter_reduce(0, cluster, margin, "amax")
    low = torch.full((num,), torch.inf, dtype=margin.dtype).scatter_reduce(0, cluster, margin, "amin")
    ratio = torch.sigmoid(-low) / torch.sigmoid(-high)
    return {
        "gap": float(margin.max() - margin.min()),
        "derivative_ratio": float(slope.max() / slope.min()),
        "cluster_gap": float((high - low).max()),
        "cluster_derivative_ratio": float(ratio.max()),
        "margin": float(means.mean()),
        "balance": balance(margin, data),
        "within": float((margin - means[cluster]).square().mean().sqrt()),
    }
