"""Radial Voronoi regions of the centres of a neuron's own class, and how far a neuron is from their borders.

Definitions 1 and 2 of gmm-flow: with c_k = cos(w, μ_k) over the centres of the class of the neuron's sign, w is in
region k if c_k is positive and the largest, in the void if no c_k is positive.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.probes.alignment import cosines

VOID = -1


def own_cosines(
    W: Float[Tensor, "h d"],
    signs: Float[Tensor, " h"],
    centres: Float[Tensor, "k d"],
    labels: Float[Tensor, " k"],
) -> Float[Tensor, "h k"]:
    """cos(w_j, μ_k) with -inf for the clusters of the other class."""
    own = torch.sign(signs).unsqueeze(1) == labels.to(signs.dtype).unsqueeze(0)
    c = cosines(W, centres)
    return torch.where(own, c, torch.full_like(c, -torch.inf))


def voronoi_region(
    W: Float[Tensor, "h d"],
    signs: Float[Tensor, " h"],
    centres: Float[Tensor, "k d"],
    labels: Float[Tensor, " k"],
) -> Int[Tensor, " h"]:
    """The region of each neuron, VOID = -1 where no own centre has a positive cosine."""
    best, region = own_cosines(W, signs, centres, labels).max(dim=1)
    return torch.where(best > 0, region, torch.full_like(region, VOID))


def nondegeneracy_margin(
    W: Float[Tensor, "h d"],
    signs: Float[Tensor, " h"],
    centres: Float[Tensor, "k d"],
    labels: Float[Tensor, " k"],
) -> Float[Tensor, " h"]:
    """m(w): sine of the angle to the nearest border, in closed form for orthonormal centres.

    In region k: min(c_k, min_l (c_k - c_l)/√2); in the void: min_l |c_l|. 0 on a border.
    """
    c = own_cosines(W, signs, centres, labels)
    ordered = c.sort(dim=1, descending=True).values
    first = ordered[:, 0]
    second = ordered[:, 1] if c.shape[1] > 1 else torch.full_like(first, -torch.inf)
    inside = torch.minimum(first, (first - second) / 2**0.5)
    return torch.where(first > 0, inside, -first)


def nondegeneracy_gap(margin: Float[Tensor, " h"]) -> Float[Tensor, " h"]:
    """Δ = 1 - √(1 - m²), the gap of eq. (11): quadratic in the margin, Δ ≈ m²/2."""
    return margin**2 / (1 + (1 - margin**2).clamp_min(0).sqrt())
