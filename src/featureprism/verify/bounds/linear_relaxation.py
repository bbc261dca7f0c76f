"""Cheap bounds of one hidden layer: a Lipschitz constant from the Gram matrix, and the linear relaxation CROWN."""

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.models.activations import relu_power
from featureprism.models.one_layer import PowerForm
from featureprism.verify.one_layer.envelopes import conjugate, slope_of

BISECTIONS = 40


def lipschitz_radius(
    form: PowerForm, t: Float[Tensor, "m h"], votes: Float[Tensor, "m h"]
) -> Float[Tensor, " m"]:
    """margin/L with L² = Σ_ij max(votes_i votes_j ⟨w_i, w_j⟩, 0), a Lipschitz constant of a ReLU network in ℓ2; 0 for p ≠ 1."""
    margin = (votes * relu_power(t, form.p)).sum(dim=1)
    if form.p != 1:
        return torch.zeros_like(margin)
    constant = torch.stack([(v.unsqueeze(1) * form.gram * v).clamp_min(0).sum().sqrt() for v in votes])
    return torch.where(constant > 0, margin.clamp_min(0) / constant, torch.zeros_like(margin))


def crown_radius(
    form: PowerForm,
    t: Float[Tensor, "m h"],
    vote: Float[Tensor, "m h"],
    norm: float,
    upper: Float[Tensor, " m"],
) -> Float[Tensor, " m"]:
    """Largest eps (up to `upper`) at which lines below the own neurons and chords above the others keep Σ_j vote_j φ(t_j) positive.

    On the ball t_j ranges over c_j ± eps‖w_j‖_q; the bound h0 + ⟨g, δ⟩ is least at h0 - eps‖g‖_q. Source: Zhang et al. 2018.
    """
    dual = 2 if norm == 2 else 1
    lengths, gram = torch.linalg.vector_norm(form.W, ord=dual, dim=1), form.gram
    low, high = torch.zeros_like(upper), upper.clone()
    for _ in range(BISECTIONS):
        eps = (low + high) / 2
        bottom, top = t - eps.unsqueeze(1) * lengths, t + eps.unsqueeze(1) * lengths
        width = (top - bottom).clamp_min(1e-300)
        chord = (relu_power(top, form.p) - relu_power(bottom, form.p)) / width
        # lines below: for ReLU the better of 0 and t, else the tangent at the centre
        below = (top > -bottom).to(t.dtype) if form.p == 1 else slope_of(t, form.p)
        below = torch.where(bottom >= 0, slope_of(t, form.p), below)
        slope = torch.where(vote > 0, below, chord)
        offset = torch.where(vote > 0, -conjugate(below, form.p), relu_power(bottom, form.p) - chord * bottom)
        g = vote * slope  # ‖Wᵀg‖ from the Gram matrix for ℓ2
        length = (
            ((g @ gram) * g).sum(dim=1).clamp_min(0).sqrt() if norm == 2 else (g @ form.W).abs().sum(dim=1)
        )
        least = (vote * (slope * t + offset)).sum(dim=1) - eps * length
        low, high = torch.where(least > 0, eps, low), torch.where(least > 0, high, eps)
    return low
