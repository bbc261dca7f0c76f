"""Quadratics above and below φ(t) = [t]₊^p, p ≥ 1, on an interval [low, high].

A quadratic that is tangent at c is φ(c) + φ'(c)(t - c) + ½κ(t - c)². Whether it lies above or below φ is a matter of its quotient

    Q(t) = 2(φ(t) - φ(c) - φ'(c)(t-c))/(t-c)², a mean of φ'' between c and t:

it lies above for κ = max Q, below for κ = min Q. For p > 2 φ'' does not fall, so Q is least at `low` and largest at `high`. For p ≤ 2
and c > 0 it rises up to t = c(1 - 2/p) ≤ 0 and falls from there on, for c < 0 it rises up to t = -cp/(2 - p). For p = 1 those above are
|t| ≤ (t²/c + c)/2 in disguise. A second family goes through both ends: chord(t) - ½κ(t - low)(high - t), 0 ≤ κ ≤ 2φ[low, low, high]
(p < 2: and ≤ 2φ[low, high, high]).

`contacts` says where the lowest quadratic of a given curvature above φ on an interval meets φ, and how that moves.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from featureprism.models.activations import relu_power

CLOSE = 1e-12  # a tangent is kept this share of `high` away from 0, where its curvature may be infinite
STEPS = 10  # of Newton, halving where a step leaves what is known to hold the place
ENOUGH = 1e-9  # of the interval: a step that ends the search
TINY = 1e-12  # of the scale of the search: what counts as 0 there


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


@dataclass(frozen=True)
class Contacts:
    """Where the lowest quadratic of a given curvature meets φ, and how that moves with the curvature."""

    first: Tensor
    second: Tensor
    first_rate: Tensor
    second_rate: Tensor


def contacts(kappa: Tensor, low: Tensor, high: Tensor, p: float) -> Contacts:
    """x₁ ≤ x₂ and their derivatives by κ, for high > 0.

    p ≥ 2: x₂ = high, x₁ the point of tangency, or `low`. p < 2: x₁ < 0 < x₂ both tangent where neither leaves the interval; else one
    of them is an end, or both are.
    """
    zero = torch.zeros_like(kappa)
    # tangent at x < 0 and through `high`
    resting = high - (2 * relu_power(high, p) / kappa).sqrt()
    resting_rate = (high - resting) / (2 * kappa)
    if p >= 2:
        inner = _tangency(kappa, high, low.clamp_min(0), high, p, rising=True)
        first = torch.where(resting <= 0, resting, inner)
        rate = torch.where(resting <= 0, resting_rate, _rate(first, high, p))
        at_low = kappa <= quotient(high, low, p)
        return Contacts(torch.where(at_low, low, first), high, torch.where(at_low, zero, rate), zero)
    summit = (2 * kappa / p**2) ** (-1 / (2 - p))  # tangent at both
    foot, summit_rate = (1 - 2 / p) * summit, -summit / ((2 - p) * kappa)
    first = torch.where(summit <= high, foot, resting)
    first_rate = torch.where(summit <= high, (1 - 2 / p) * summit_rate, resting_rate)
    second = torch.minimum(summit, high)
    second_rate = torch.where(summit <= high, summit_rate, zero)
    at_low = first <= low
    inner = _tangency(kappa, low, low.clamp_min(0), high, p, rising=False)
    inside = kappa > quotient(low, high, p)
    inner = torch.where(inside, inner, high)
    return Contacts(
        torch.where(at_low, low, first),
        torch.where(at_low, inner, second),
        torch.where(at_low, zero, first_rate),
        torch.where(at_low, torch.where(inside, _rate(inner, low, p), zero), second_rate),
    )


def _tangency(kappa: Tensor, end: Tensor, low: Tensor, high: Tensor, p: float, *, rising: bool) -> Tensor:
    """The c in [low, high] whose tangent quadratic through (end, φ(end)) has curvature κ, which rises or falls with c."""
    least, most = quotient(end, low, p), quotient(end, high, p)
    close = ENOUGH * (high - low)
    c = low + (high - low) * ((kappa - least) / (most - least)).nan_to_num(0.5).clamp(0, 1)
    for _ in range(STEPS):
        value = quotient(end, c, p)
        beyond = (value > kappa) == rising
        low, high = torch.where(beyond, low, c), torch.where(beyond, c, high)
        step = c + (kappa - value) / _by_centre(value, c, end, p)
        before, c = c, torch.where((step >= low) & (step <= high), step, (low + high) / 2)
        if bool(((c - before).abs() <= close).all()):
            break
    return torch.where((end > 0) & (kappa >= second_derivative(end, p)), end, c)


def _by_centre(value: Tensor, c: Tensor, end: Tensor, p: float) -> Tensor:
    """dκ/dc of a tangent quadratic with κ = value."""
    return 2 * (value - second_derivative(c, p)) / (end - c + TINY)


def _rate(c: Tensor, end: Tensor, p: float) -> Tensor:
    """dc/dκ of that."""
    by_c = _by_centre(quotient(end, c, p), c, end, p)
    return torch.where(by_c.abs() > TINY, 1 / by_c, torch.zeros_like(by_c))
