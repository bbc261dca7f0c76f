"""How much of each neuron is feature and how much is memorised noise."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data.dataset import Dataset


@dataclass(frozen=True)
class Decomposition:
    """w_r(t) = w_r(0) + Σ_j λ_rj μ_j/‖μ_j‖² + Σ_i σ_ri ξ_i/‖ξ_i‖². Source: feature-averaging, Lemma 5.1."""

    features: Float[Tensor, "h k"]  # λ
    noise: Float[Tensor, "h n"]  # σ

    def weights(self, start: Float[Tensor, "h d"], data: Dataset) -> Float[Tensor, "h d"]:
        """The neurons put together again."""
        mu, xi = data.centres, data.x - data.centres[data.cluster]
        feature_part = self.features @ (mu / (mu**2).sum(dim=1, keepdim=True))
        return start + feature_part + self.noise @ (xi / (xi**2).sum(dim=1, keepdim=True))


def from_updates(slopes: Float[Tensor, "n h"], data: Dataset, step_size: float) -> Decomposition:
    """The decomposition summed up step by step: Lemma 5.2, with ℓ'_i the derivative in f (its sign y_i included).

    λ_rj ← λ_rj - η Σ_{i ∈ I_j} C_ir ‖μ_j‖² and σ_ri ← σ_ri - η C_ir ‖ξ_i‖², C_ir = ∂L/∂z_ir the slopes that
    `first_layer_descent` sums. Hence λ_rj/‖μ_j‖² = Σ_{i ∈ I_j} σ_ri/‖ξ_i‖² (Corollary B.4; eq. (4) prints the inverse ratio).
    """
    xi = data.x - data.centres[data.cluster]
    per_cluster = torch.zeros(len(data.centres), slopes.shape[1], dtype=slopes.dtype)
    per_cluster = per_cluster.index_add(0, data.cluster, slopes)
    features = -step_size * (data.centres**2).sum(dim=1, keepdim=True) * per_cluster
    noise = -step_size * (xi**2).sum(dim=1, keepdim=True) * slopes
    return Decomposition(features.T, noise.T)


def by_least_squares(W: Float[Tensor, "h d"], start: Float[Tensor, "h d"], data: Dataset) -> Decomposition:
    """The same coefficients from the weights alone, unique when the k + n vectors μ_j, ξ_i are independent (k + n ≤ d)."""
    mu, xi = data.centres, data.x - data.centres[data.cluster]
    vectors = torch.cat([mu, xi])
    if len(vectors) > vectors.shape[1]:
        raise ValueError(
            f"{len(vectors)} vectors in {vectors.shape[1]} dimensions: the decomposition is not unique."
        )
    scaled = vectors / (vectors**2).sum(dim=1, keepdim=True)
    gram = scaled @ scaled.T
    found = torch.linalg.solve(gram, scaled @ (W - start).T).T
    return Decomposition(found[:, : len(mu)], found[:, len(mu) :])
