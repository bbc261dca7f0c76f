"""What drives each coefficient ⟨w_i, M_j⟩ of a symmetric network: the expectations in the growth lemmas of feature-purification."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data.sparse_coding import SparseSample
from featureprism.networks.gates import ROOT_TWO_PI, smoothed_step
from featureprism.networks.symmetric import SymmetricNet


@torch.no_grad()
def growth(net: SymmetricNet, sample: SparseSample) -> Float[Tensor, "h D"]:
    """E[y 1{⟨w_i, x⟩ + ρ_i ≥ b} z_j] of every neuron and feature, ρ averaged. Source: Lemmas C.8 to C.10."""
    opened = smoothed_step(sample.x @ net.W.T.to(sample.x.dtype) - net.thresholds, net.smoothing)
    return opened.T @ (sample.y.unsqueeze(1) * sample.z) / len(sample.y)


class NoiseGrowth(NamedTuple):
    """E[y 1{⟨w_i, x⟩ + ρ_i ≥ b} ⟨ξ, M_j⟩], measured and by Stein's identity, σ_x²/d · ⟨w_i, M_j⟩ E[y φ((u_i - b)/s)/s]. Lemma C.11."""

    measured: Float[Tensor, "h D"]
    by_stein: Float[Tensor, "h D"]


@torch.no_grad()
def noise_growth(
    net: SymmetricNet, sample: SparseSample, M: Float[Tensor, "d D"], noise: float
) -> NoiseGrowth:
    """What the noise of x adds to every coefficient; ξ Gaussian and M orthogonal."""
    n, s = len(sample.y), net.smoothing
    level = (sample.x @ net.W.T - net.thresholds) / s
    xi = (sample.x - sample.z @ M.T) @ M
    density = torch.exp(-(level**2) / 2) / (ROOT_TWO_PI * s)
    measured = smoothed_step(level, 1.0).T @ (sample.y.unsqueeze(1) * xi) / n
    by_stein = noise**2 / M.shape[0] * (sample.y @ density / n).unsqueeze(1) * (net.W @ M)
    return NoiseGrowth(measured, by_stein)


@torch.no_grad()
def weighted_growth(net: SymmetricNet, sample: SparseSample) -> tuple[Tensor, Tensor]:
    """E[y ℓ' (1 + 1) z_j] of every neuron (h, D), and E[y ℓ' z_j] (D,), to which Lemma C.18 couples the winners."""
    pull = sample.y * torch.sigmoid(-sample.y * net(sample.x))
    opened = net.slopes(sample.x)
    n = len(sample.y)
    return opened.T @ (pull.unsqueeze(1) * sample.z) / n, pull @ sample.z / n


@torch.no_grad()
def opening(net: SymmetricNet, x: Float[Tensor, "n d"], level: float) -> Float[Tensor, " h"]:
    """P(|⟨w_i, x⟩| ≥ level) of every neuron. Source: Lemmas C.7 and C.19."""
    return ((x @ net.W.T).abs() >= level).to(x.dtype).mean(dim=0)


@torch.no_grad()
def coordinate_lipschitz(
    net: SymmetricNet,
    sample: SparseSample,
    M: Float[Tensor, "d D"],
    values: tuple[float, ...],
    quantile: float = 0.95,
) -> Float[Tensor, " D"]:
    """L_j: a high quantile over x of max_z |f(x with z_j = z) - f(x with z_j = 0)|/|z|. Source: Definition C.13."""
    u = sample.x @ net.W.T
    found = []
    for j in range(M.shape[1]):
        lift = net.W @ M[:, j]
        without = u - sample.z[:, j : j + 1] * lift
        base = _value(net, without)
        ratios = [(_value(net, without + v * lift) - base).abs() / abs(v) for v in values]
        found.append(torch.stack(ratios).amax(dim=0).quantile(quantile))
    return torch.stack(found)


def _value(net: SymmetricNet, u: Tensor) -> Tensor:
    """Σ_i of the threshold without smoothing: [u - b]₊ - [-u - b]₊."""
    return (torch.relu(u - net.thresholds) - torch.relu(-u - net.thresholds)).sum(dim=1)
