"""Where the lowest quadratic of a given curvature above φ(t) = [t]₊^p on an interval meets φ, and how that moves."""

from dataclasses import dataclass

import torch
from torch import Tensor

from featureprism.models.activations import relu_power
from featureprism.verify.one_layer.envelopes import quotient, second_derivative

STEPS = 10  # of Newton, halving where a step leaves what is known to hold the place
ENOUGH = 1e-9  # of the interval: a step that ends the search
TINY = 1e-12  # of the scale of the search: what counts as 0 there


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
