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


@torch.no_grad()
def coupling_gap(
    net: SymmetricNet, own: Float[Tensor, "h d"], x: Float[Tensor, "n d"], delta: Float[Tensor, "n d"]
) -> Float[Tensor, " n"]:
    """g_t(0; x + δ, x) - g_t(0; x, x): what a perturbation does to the features `own` alone. (F.5) in Lemma F.12."""
    return frozen(net, own, x + delta, x) - frozen(net, own, x, x)


@torch.no_grad()
def sampled_coupling_gap(
    net: SymmetricNet,
    x: Float[Tensor, "n d"],
    delta: Float[Tensor, "n d"],
    *,
    generator: torch.Generator,
) -> Float[Tensor, " n"]:
    """|g_t(v; x + δ, x, ρ) - f_t(x + δ, ρ)| for one draw of ρ at every point, the left side of Lemma F.11 as printed."""
    W = net.W.to(x.dtype)
    u, moved = x @ W.T, (x + delta) @ W.T
    rho = net.smoothing * torch.randn(u.shape, generator=generator, dtype=u.dtype) - net.thresholds
    gap = (moved + rho) * ((moved + rho >= 0).to(u.dtype) - (u + rho >= 0).to(u.dtype))
    below = (rho - moved) * ((rho - moved >= 0).to(u.dtype) - (rho - u >= 0).to(u.dtype))
    return (gap - below).sum(dim=1).abs()
