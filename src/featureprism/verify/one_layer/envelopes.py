"""Quadratics above and below φ(t) = [t]₊^p, p ≥ 1, on an interval [low, high].

A quadratic that is tangent at c is φ(c) + φ'(c)(t - c) + ½κ(t - c)². Whether it lies above or below φ is a matter of its quotient

    Q(t) = 2(φ(t) - φ(c) - φ'(c)(t-c))/(t-c)², a mean of φ'' between c and t:

it lies above for κ = max Q, below for κ = min Q. For p > 2 φ'' does not fall, so Q is least at `low` and largest at `high`. For p ≤ 2
and c > 0 it rises up to t = c(1 - 2/p) ≤ 0 and falls from there on, for c < 0 it rises up to t = -cp/(2 - p). For p = 1 those above are
|t| ≤ (t²/c + c)/2 in disguise. A second family goes through both ends: chord(t) - ½κ(t - low)(high - t), 0 ≤ κ ≤ 2φ[low, low, high]
(p < 2: and ≤ 2φ[low, high, high]).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from featureprism.models.activations import relu_power

CLOSE = 1e-12  # a tangent is kept this share of `high` away from 0, where its curvature may be infinite


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
    close = gap.abs() <= 1e-6 * c.abs()
    safe = torch.where(close, torch.ones_like(gap), gap)
    value = 2 * (relu_power(t, p) - relu_power(c, p) - slope_of(c, p) * gap) / safe**2
    curvature = second_derivative(c, p) * (1 + 1e-5)
    return torch.where(close, curvature, value).clamp_min(0)


def second_derivative(t: Tensor, p: float) -> Tensor:
    """φ''(t) = p(p-1)[t]₊^(p-2), 0 for t ≤ 0."""
    positive = torch.where(t > 0, t, torch.ones_like(t))
    return torch.where(t > 0, p * (p - 1) * positive ** (p - 2), torch.zeros_like(t))


def tangent_quadratic(c: Tensor, low: Tensor, high: Tensor, p: float) -> Quadratic:
    """Above φ and tangent at c; 0 where high ≤ 0."""
    dead = high <= 0
    high = torch.where(dead, torch.ones_like(high), high)
    c = torch.minimum(c, high)
    c = torch.where(c.abs() < CLOSE * high, CLOSE * high, c)
    if p > 2:
        kappa = quotient(high, c, p)
    else:
        peak = torch.minimum(torch.maximum((1 - 2 / p) * c, low), high)
        summit = torch.minimum(-c * p / (2 - p), high) if p < 2 else high
        kappa = quotient(torch.where(c > 0, peak, summit), c, p)
    return _quadratic(
        torch.where(dead, -torch.ones_like(c), c), torch.where(dead, torch.zeros_like(c), kappa), p
    )


def quadratic_below(slope: Tensor, low: Tensor, high: Tensor, p: float) -> Quadratic:
    """Below φ and tangent where φ has that slope; for p = 1 the line."""
    if p == 1:
        return Quadratic(torch.zeros_like(slope), slope, torch.zeros_like(slope))
    c = (slope / p) ** (1 / (p - 1))
    kappa = quotient(low, c, p)
    if p < 2:
        kappa = torch.minimum(kappa, quotient(high, c, p))
    return _quadratic(c, kappa * (1 - 2e-5), p)


def _quadratic(c: Tensor, kappa: Tensor, p: float) -> Quadratic:
    slope = torch.where(c > 0, slope_of(c, p), torch.zeros_like(c))
    return Quadratic(relu_power(c, p) - slope * c + kappa * c**2 / 2, slope - kappa * c, kappa)


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
