"""How pure the neurons of a symmetric network are, and what adversarial perturbations are made of."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.data.sparse_coding import SparseCoding
from featureprism.geometry import row_norms, unit_rows
from featureprism.networks.gates import gates
from featureprism.networks.symmetric import SymmetricNet
from featureprism.training.symmetric import loss_gradient


class Mixture(NamedTuple):
    """w_i = Σ_{j ∈ N_i} α_ij w*_j M_j + Σ_{j ∉ N_i} β_ij w*_j M_j: all coefficients, and which belong to N_i. Theorem 5.2."""

    coefficients: Float[Tensor, "h D"]
    own: Bool[Tensor, "h D"]

    @property
    def relative_mass(self) -> float:
        """Σβ/Σα over all neurons; signed, so that what points nowhere in particular cancels."""
        alpha = self.coefficients[self.own].sum()
        return float((self.coefficients.sum() - alpha) / alpha)

    @property
    def mean_beta(self) -> float:
        """Mean of β_ij over all neurons and j ∉ N_i."""
        return float(self.coefficients[~self.own].mean())

    @property
    def largest_beta(self) -> float:
        """max |β_ij|."""
        return float(self.coefficients[~self.own].abs().max())


def mixture(W: Float[Tensor, "h d"], coding: SparseCoding, num: int = 1) -> Mixture:
    """The decomposition with N_i = the `num` largest |A_ij|, A_ij = ⟨w_i, M_j⟩: the O(1) of |N_i| as a number."""
    A = W @ coding.M.to(W.dtype)
    return Mixture(A / coding.w.to(W.dtype), own_features(A, num))


def own_features(A: Float[Tensor, "h D"], num: int) -> Bool[Tensor, "h D"]:
    """The `num` largest |A_ij| of every neuron."""
    return torch.zeros_like(A, dtype=torch.bool).scatter_(1, A.abs().topk(num, dim=1).indices, value=True)


LARGE = 0.5  # of the largest coefficient of all neurons: a neuron above it is large


class LargeNeurons(NamedTuple):
    """Over the neurons whose own coefficient α is large: how many, mean of α, of the rest of them β, and of β/α. Theorem 5.2(2)."""

    number: int
    alpha: float
    beta: float
    ratio: float


def large_neurons(W: Float[Tensor, "h d"], coding: SparseCoding, share: float = LARGE) -> LargeNeurons:
    """α_i is the largest of the coefficients A_ij/w*_j in size, β_i the mean of the others; large: |α_i| ≥ share · max |α|.

    Neurons that never fire keep the noise of their start; among all neurons they would hide the mixtures.
    """
    coefficients = mixture(W, coding).coefficients
    size, own = coefficients.abs().max(dim=1)
    alpha = coefficients.gather(1, own.unsqueeze(1)).squeeze(1)
    beta = (coefficients.sum(dim=1) - alpha) / (coefficients.shape[1] - 1)
    chosen = size >= share * size.max()
    alpha, beta = alpha[chosen], beta[chosen]
    return LargeNeurons(
        int(chosen.sum()), float(alpha.mean()), float(beta.mean()), float((beta / alpha).mean())
    )


def purity(W: Float[Tensor, "h d"], M: Float[Tensor, "d D"]) -> Float[Tensor, " h"]:
    """max_j |⟨w_i, M_j⟩|/‖w_i‖: 1 for a pure feature, near 1/√d for a dense mixture."""
    return (unit_rows(W) @ M.to(W.dtype)).abs().amax(dim=1)


def weighted_purity(W: Float[Tensor, "h d"], M: Float[Tensor, "d D"]) -> float:
    """Σ ‖w_i‖² purity_i / Σ ‖w_i‖²."""
    weight = row_norms(W) ** 2
    return float((weight * purity(W, M)).sum() / weight.sum())


def share_along(W: Float[Tensor, "h d"], direction: Float[Tensor, " d"]) -> float:
    """Σ⟨w_i, u⟩²/Σ‖w_i‖² for the unit vector u of a direction: 1/d for random neurons, 1 if all of them are parallel to it."""
    direction = direction.to(W.dtype)
    return float((W @ direction).square().sum() / (W.square().sum() * direction.square().sum()))


@torch.no_grad()
def firing(net: SymmetricNet, x: Float[Tensor, "n d"]) -> Float[Tensor, " h"]:
    """Share of the points on which |⟨w_i, x⟩| ≥ b; a neuron is alive if that happens at all."""
    return ((x @ net.W.T.to(x.dtype)).abs() >= net.thresholds).to(x.dtype).mean(dim=0)


class Turning(NamedTuple):
    """How far neurons moved from where they started, norm-weighted. Theorem 5.1(a)."""

    from_start: float  # Σ⟨w_i, w_i⁰⟩² / Σ‖w_i‖²‖w_i⁰‖²
    together: float  # Σ_ij⟨w_i, w_j⟩² / (Σ‖w_i‖²)², the inverse effective rank


def turning(W: Float[Tensor, "h d"], start: Float[Tensor, "h d"]) -> Turning:
    """Both ratios of Theorem 5.1(a), which should be o(1)."""
    W, start = W.double(), start.double()
    squares = (W**2).sum(dim=1)
    kept = ((W * start).sum(dim=1) ** 2).sum() / (squares * (start**2).sum(dim=1)).sum()
    return Turning(float(kept), float(((W.T @ W) ** 2).sum() / squares.sum() ** 2))


def same_direction(W: Float[Tensor, "h d"], other: Float[Tensor, "h d"]) -> Float[Tensor, " h"]:
    """θ(w_i, w_i') = |⟨w_i, w_i'⟩|/(‖w_i‖‖w_i'‖), neuron by neuron."""
    return (unit_rows(W) * unit_rows(other)).sum(dim=1).abs()


def pairwise(W: Float[Tensor, "h d"]) -> Float[Tensor, " p"]:
    """θ(w_i, w_j) of every pair i < j."""
    U = unit_rows(W)
    rows, columns = torch.triu_indices(len(U), len(U), offset=1)
    return (U @ U.T).abs()[rows, columns]


def weighted_mean(values: Float[Tensor, " h"], W: Float[Tensor, "h d"]) -> float:
    """Σ ‖w_i‖² v_i / Σ ‖w_i‖²."""
    weight = row_norms(W) ** 2
    return float((weight * values).sum() / weight.sum())


def drift(W: Float[Tensor, "h d"], before: Float[Tensor, "h d"]) -> float:
    """Σ‖w_i - w_i'‖²/Σ‖w_i'‖². Theorem 5.3(c)."""
    return float(((W - before) ** 2).sum() / (before**2).sum())


class DriftParts(NamedTuple):
    """The drift of Theorem 5.3(c) in orthogonal parts: along own features, along Mw* of all others, and the rest."""

    own: float
    mixture: float
    rest: float


def drift_parts(W: Float[Tensor, "h d"], before: Float[Tensor, "h d"], coding: SparseCoding) -> DriftParts:
    """Squares of what changed, summed over neurons, ÷ Σ‖w_i'‖², for orthogonal M and w* = ±1.

    A neuron's own feature is its largest before; the rest are further features of a neuron, and noise.
    """
    change = (W - before) @ coding.M.to(W.dtype) * coding.w.sign().to(W.dtype)
    own = mixture(before, coding).own
    others = change.masked_fill(own, 0.0)
    along = (others.sum(dim=1).square() / (~own).sum(dim=1)).sum()
    parts = torch.stack([change[own].square().sum(), along, others.square().sum() - along])
    return DriftParts(*(parts / before.square().sum()).tolist())


def participation(delta: Float[Tensor, "n d"], M: Float[Tensor, "d D"]) -> Float[Tensor, " n"]:
    """(Σ c_j²)²/Σ c_j⁴ of the coefficients c = Mᵀδ: how many features a perturbation is spread over; NaN for δ = 0."""
    c = delta @ M.to(delta.dtype)
    return (c**2).sum(dim=1) ** 2 / (c**4).sum(dim=1)


def mass_on_support(
    delta: Float[Tensor, "n d"], z: Float[Tensor, "n D"], M: Float[Tensor, "d D"]
) -> Float[Tensor, " n"]:
    """Share of ‖Mᵀδ‖² on the features that the point has (z_j ≠ 0)."""
    c = (delta @ M.to(delta.dtype)) ** 2
    return (c * (z != 0)).sum(dim=1) / c.sum(dim=1)


@torch.no_grad()
def pull_to_dense(
    net: SymmetricNet, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], direction: Tensor
) -> Tensor:
    """⟨-∇_{w_i} Loss, Mw*⟩ of every neuron: positive means that the dense mixture grows. Source: Section 6.2."""
    W = net.W.to(x.dtype)
    _, opened, pulls = loss_gradient(W, x, y, lambda u: gates(u, net.thresholds, net.smoothing))
    return -opened.T @ (pulls @ direction.to(x.dtype))


@torch.no_grad()
def linearisation_gap(
    net: SymmetricNet, x: Float[Tensor, "n d"], delta: Float[Tensor, "n d"]
) -> Float[Tensor, " n"]:
    """|f(x + δ) - f(x) - ⟨∇f(x), δ⟩|, small where one gradient step is the worst case. Theorem 5.3(b), (F.17)."""
    net = net.with_weights(net.W.to(x.dtype))
    value, gradient = net.input_gradient(x)
    return (net.input_gradient(x + delta)[0] - value - (gradient * delta).sum(dim=1)).abs()
