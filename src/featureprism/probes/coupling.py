"""The coupling functions of feature-purification: networks with frozen activations, linear in their weights."""

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.networks.gates import ROOT_TWO_PI, smoothed_step
from featureprism.networks.symmetric import SymmetricNet


def _opened(net: SymmetricNet, u: Tensor) -> tuple[Tensor, Tensor]:
    """E 1{u + ρ ≥ b} and E ρ 1{u + ρ ≥ b} = s φ((u - b)/s)."""
    s = net.smoothing
    pushed = s * torch.exp(-(((u - net.thresholds) / s) ** 2) / 2) / ROOT_TWO_PI if s else torch.zeros_like(u)
    return smoothed_step(u - net.thresholds, s), pushed


@torch.no_grad()
def frozen(
    net: SymmetricNet, weights: Float[Tensor, "h d"], x: Float[Tensor, "n d"], at: Float[Tensor, "n d"]
) -> Float[Tensor, " n"]:
    """E_ρ Σ_i [1{⟨w_i, at⟩ + ρ ≥ b}(⟨v_i, x⟩ + ρ - b) - 1{-⟨w_i, at⟩ + ρ ≥ b}(-⟨v_i, x⟩ + ρ - b)], w the net's and v the given weights.

    Linear in v; f itself at v = w and at = x. Source: Definitions D.3 and F.10.
    """
    u, v = at @ net.W.T.to(at.dtype), x @ weights.T
    (up, pushed_up), (down, pushed_down) = _opened(net, u), _opened(net, -u)
    return (up * (v - net.thresholds) + pushed_up - down * (-v - net.thresholds) - pushed_down).sum(dim=1)
