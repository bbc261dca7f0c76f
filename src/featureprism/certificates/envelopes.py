"""Quadratics above and lines below φ(t) = [t]₊^p, p ≥ 1.

A line below: slope σ and offset -φ*(σ). A quadratic above on [low, high], in one of two families:

    tangent at c > 0:      q(t) = φ(c) + φ'(c)(t - c) + ½κ(t - c)²,  κ = largest of 2(φ(t) - φ(c) - φ'(c)(t-c))/(t-c)² on [low, high]
    through both ends:     q(t) = chord(t) - ½κ(t - low)(high - t),   0 ≤ κ ≤ 2φ[low, low, high] (p < 2: and ≤ 2φ[low, high, high])

The quotient of the first family is a mean of φ'' between c and t. For p > 2 φ'' does not fall, so it is largest at `high`; for
p ≤ 2 it rises up to t = c(1 - 2/p) ≤ 0 and falls from there on. For p = 1 the first family is |t| ≤ (t²/c + c)/2 in disguise.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from featureprism.networks.activations import relu_power


class Quadratic(NamedTuple):
    """q0 + q1 t + ½ q2 t²."""

    q0: Tensor
    q1: Tensor
    q2: Tensor

    def at(self, t: Tensor) -> Tensor:
        """q(t)."""
        return self.q0 + self.q1 * t + self.q2 * t**2 / 2


def slope_of(t: Tensor, p: float) -> Tensor:
    """φ'(t) = p [t]₊^(p-1)."""
    return p * relu_power(t, p - 1)


def conjugate(slope: Tensor, p: float) -> Tensor:
    """φ*(σ) for σ ≥ 0: 0 for p = 1 (σ ≤ 1), else (p-1)(σ/p)^(p/(p-1)); the line σt - φ*(σ) lies below φ."""
    return torch.zeros_like(slope) if p == 1 else (p - 1) * (slope / p) ** (p / (p - 1))


def quotient(t: Tensor, c: Tensor, p: float) -> Tensor:
    """2(φ(t) - φ(c) - φ'(c)(t-c))/(t-c)², φ''(c) where t and c (nearly) meet."""
    gap = t - c
    close = gap.abs() <= 1e-6 * c
    safe = torch.where(close, torch.ones_like(gap), gap)
    value = 2 * (relu_power(t, p) - relu_power(c, p) - slope_of(c, p) * gap) / safe**2
    curvature = p * (p - 1) * c.clamp_min(1e-300) ** (p - 2) * (1 + 1e-5)
    return torch.where(close, curvature, value).clamp_min(0)


def tangent_quadratic(c: Tensor, low: Tensor, high: Tensor, p: float) -> Quadratic:
    """The first family; 0 where high ≤ 0."""
    c = torch.minimum(c, high).clamp_min(1e-12)
    worst = high if p > 2 else torch.minimum(torch.maximum((1 - 2 / p) * c, low), high)
    kappa = quotient(worst, c, p)
    slope = slope_of(c, p)
    q = Quadratic(relu_power(c, p) - slope * c + kappa * c**2 / 2, slope - kappa * c, kappa)
    return Quadratic(*(torch.where(high <= 0, torch.zeros_like(v), v) for v in q))


def end_curvature(low: Tensor, high: Tensor, p: float) -> Tensor:
    """The largest κ of the second family: 2φ[low, low, high], for p < 2 no more than 2φ[low, high, high]."""
    width = (high - low).clamp_min(1e-12)
    rise = relu_power(high, p) - relu_power(low, p)
    first = rise - slope_of(low, p) * width
    if p < 2:
        first = torch.minimum(first, slope_of(high, p) * width - rise)
    return (2 * first / width**2).clamp_min(0)


def end_quadratic(kappa: Tensor, low: Tensor, high: Tensor, p: float) -> Quadratic:
    """The second family with a given κ."""
    width = (high - low).clamp_min(1e-12)
    chord = (relu_power(high, p) - relu_power(low, p)) / width
    q0 = relu_power(low, p) - chord * low + kappa * low * high / 2
    return Quadratic(q0, chord - kappa * (low + high) / 2, kappa)
