"""How far trained weights are from averaged features: of neurons one by one, of a class, and of the whole function."""

from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from featureprism.networks import TwoLayerNet, averaging_classifier
from featureprism.probes import sphere_distance


class FeatureFit(NamedTuple):
    """λ, and ‖w_r - λ Σ_own μ_j/d‖: the largest and the root mean square in units of ‖λ Σ_own μ_j/d‖, the largest in units of 1/√d."""

    growth: float
    relative_error: float
    mean_error: float
    scaled_error: float


def feature_fit(W: Tensor, own: Tensor, mu: Tensor, outside: Tensor | float = 0.0) -> FeatureFit:
    """Neurons as λ times their own features; own[r, j] says whether μ_j is one of w_r's, λ is the mean of ⟨w_r, μ_j⟩ over them.

    d is the squared norm of the centres, so that coordinates of a span will do, with `outside` for the squared lengths beyond it.
    """
    d, own = float((mu**2).sum(dim=1).mean()), own.to(W.dtype)  # (h, k)
    growth = ((W @ mu.T * own).sum(dim=1) / own.sum(dim=1)).mean()
    model = growth * own @ mu / d
    error = ((W - model).square().sum(dim=1) + outside).sqrt()
    relative = error / torch.linalg.vector_norm(model, dim=1)
    return FeatureFit(
        float(growth),
        float(relative.max()),
        float(relative.square().mean().sqrt()),
        sqrt(d) * float(error.max()),
    )


def class_shares(features: Tensor, signs: Tensor, labels: Tensor) -> tuple[float, float]:
    """λ, and |λ of an opposite cluster| ÷ λ (root mean square over clusters of the mean over neurons, the larger class)."""
    own = signs.unsqueeze(1) == labels
    growth = features[own].mean()
    opposite = [
        features[signs == s].mean(dim=0)[labels != s].square().mean().sqrt() / growth for s in (1.0, -1.0)
    ]
    return float(growth), float(max(opposite))


def sphere_gap(net: TwoLayerNet, mu: Tensor, labels: Tensor, radius: float) -> tuple[float, float]:
    """inf_C sup_{‖x‖=radius} |C f_FA - f|, and the same ÷ sup|f|."""
    gap = sphere_distance(averaging_classifier(mu, labels), net, best_scale=True, radius=radius)
    largest = sphere_distance(averaging_classifier(0 * mu, labels), net, radius=radius)
    return gap.value, gap.value / largest.value
