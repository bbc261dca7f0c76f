"""Activations between lines: how far a line of given slope has to be shifted to lie below or above an activation on an interval.

Between their inflection points activations are convex or concave. There φ(z) - s z is least at an end where it is concave; where it is
convex it lies above its tangent at any place, and a good place is where φ' = s, which may be found in any way. tanh bends at 0, GELU
z Φ(z) at ±√2, SiLU z/(1 + exp(-z)) at the roots of z tanh(z/2) = 2: numbers between two neighbouring doubles, and between these
|φ'| < 2 bounds what happens. Of the C library exp alone is relied on (see enclosed.py).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from featureprism.checker.enclosed import LIBRARY, Enclosed, U, down, enclosed, outward, unit, where

FAR = 9.0  # beyond it Φ is 0 or 1 up to 2^-62, and its density times z is below 2^-56
TERMS = 160  # of the series of Φ, whose last ones are below a quarter of those before
HALVINGS = 56  # towards the place where φ' = s
STEEPEST = 2.0  # no |φ'| is larger

Function = Callable[[np.ndarray], Enclosed]


@dataclass(frozen=True, eq=False)
class Curve:
    """φ and φ' with their roundings; `bends`: 1, -1 or 0 where φ is convex, concave or linear, on the pieces between `ends`."""

    value: Function
    derivative: Function
    slope: Callable[[np.ndarray], np.ndarray]  # about φ'
    ends: tuple[tuple[float, float], ...]  # each between two doubles, or one
    bends: tuple[int, ...]

    def offset(self, low: np.ndarray, high: np.ndarray, slope: np.ndarray, side: int) -> np.ndarray:
        """Side 1: floats o with s z + o ≤ φ(z) for all low ≤ z ≤ high; side -1: with s z + o ≥ φ(z)."""

        def gap(z: np.ndarray) -> Enclosed:
            return side * (self.value(z) - enclosed(slope) * z)

        least = np.full(np.shape(low), np.inf)
        borders = [(-np.inf, -np.inf), *self.ends, (np.inf, np.inf)]
        for ((_, left), (right, _)), bend in zip(pairwise(borders), self.bends, strict=True):
            here = (low <= right) & (high >= left)
            a, b = np.where(here, np.maximum(low, left), low), np.where(here, np.minimum(high, right), low)
            if bend == side:
                at = self._tangent(a, b, slope, side)
                rise = side * (self.derivative(at) - slope)
                found = [(gap(at) + rise * (enclosed(end) - at)).low for end in (a, b)]
            else:
                found = [gap(end).low for end in (a, b)]
            least = np.minimum(least, np.where(here, np.minimum(*found), np.inf))
        for left, right in self.ends:  # between the two doubles
            at = np.full(np.shape(low), left)
            lost = outward((right - left) * (np.abs(slope) + STEEPEST))
            near = (low < right) & (high > left) & (left < right)
            least = np.minimum(least, np.where(near, down(gap(at).low - lost), np.inf))
        return side * least

    def _tangent(self, a: np.ndarray, b: np.ndarray, slope: np.ndarray, side: int) -> np.ndarray:
        """Places in [a, b] near which side (φ' - s), which rises there, is 0."""
        low, high = a, b
        for _ in range(HALVINGS):
            middle = low / 2 + high / 2
            is_left = side * (self.slope(middle) - slope) < 0
            low, high = np.where(is_left, middle, low), np.where(is_left, high, middle)
        return np.clip(low, a, b)


def _exp(t: np.ndarray, exponents: float = 0.0) -> Enclosed:
    """exp t for t ≤ 700, rounded; `exponents`: a bound on the rounding error of t, in units of U."""
    value = np.exp(t)
    return Enclosed(value, outward((LIBRARY + 2 * exponents * U) * unit() / U * value))


def _inverse(v: Enclosed) -> Enclosed:
    """1/v for v ≥ 1: |1/v - 1/mid| ≤ rad/((mid - rad) mid)."""
    value = 1 / v.mid
    return Enclosed(
        value, outward(v.rad * value * np.minimum(1.0, 1 / np.maximum(v.low, 1.0)) + 4 * unit() * value)
    )


def _sigmoid(z: np.ndarray) -> Enclosed:
    """1/(1 + exp(-z)); below -700 it is less than TINY."""
    return _inverse(_exp(np.minimum(-z, 700.0)) + 1.0)


def _tanh(z: np.ndarray) -> Enclosed:
    """1 - 2/(exp(2z) + 1), by symmetry from |z|."""
    size = np.abs(z)
    value = 1.0 - 2.0 * _inverse(_exp(np.minimum(2 * size, 700.0)) + 1.0)
    # tanh t ≤ t for t ≥ 0
    high, low = np.minimum(value.high, np.minimum(size, 1.0)), np.maximum(value.low, 0.0)
    return np.sign(z) * Enclosed((low + high) / 2, outward((high - low) / 2 + 2 * unit() * high))


def _density(z: np.ndarray) -> Enclosed:
    """exp(-z²/2)/√(2π) for |z| ≤ FAR."""
    return _exp(-z * z / 2, exponents=FAR * FAR) * Enclosed(0.3989422804014327, 4 * unit())


def _normal(z: np.ndarray) -> Enclosed:
    """Φ(z) = ½ + density(z) Σ z^(2n+1)/(2n+1)!!."""
    near = np.clip(z, -FAR, FAR)
    square = near * near
    term = total = np.abs(near)
    for n in range(1, TERMS):
        term = term * square / (2 * n + 1)
        total = total + term
    # every term has at most 3 TERMS roundings, and the rest is below a third of the last
    series = Enclosed(total, outward(8 * TERMS * unit() * total + term))
    value = np.sign(z) * (_density(near) * series) + 0.5
    beyond = Enclosed((z > 0).astype(float), 2.0**-62)
    return where(np.abs(z) <= FAR, value, beyond)


def _gelu_derivative(z: np.ndarray) -> Enclosed:
    near = _density(np.clip(z, -FAR, FAR)) * np.clip(z, -FAR, FAR)
    return _normal(z) + where(np.abs(z) <= FAR, near, Enclosed(np.zeros_like(z), 2.0**-56))


def _tanh_derivative(z: np.ndarray) -> Enclosed:
    t = _tanh(z)
    return 1.0 - t * t


def _silu_derivative(z: np.ndarray) -> Enclosed:
    return _sigmoid(z) * (enclosed(z) * _sigmoid(-z) + 1.0)


def _about_gelu_derivative(z: np.ndarray) -> np.ndarray:
    normal = np.array([math.erf(t) for t in (z / math.sqrt(2)).ravel().tolist()]).reshape(np.shape(z))
    return (1 + normal) / 2 + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _about_silu_derivative(z: np.ndarray) -> np.ndarray:
    s = 1 / (1 + np.exp(np.minimum(-z, 700.0)))
    return s * (1 + z * (1 - s))


def _relu(z: np.ndarray) -> Enclosed:
    return enclosed(np.maximum(z, 0))


CURVES = {
    "relu": Curve(_relu, _relu, lambda z: (z > 0).astype(float), ((0.0, 0.0),), (0, 0)),
    "tanh": Curve(_tanh, _tanh_derivative, lambda z: 1 - np.tanh(z) ** 2, ((0.0, 0.0),), (1, -1)),
    "gelu": Curve(
        lambda z: _normal(z) * z,
        _gelu_derivative,
        _about_gelu_derivative,
        ((-1.4142135623730951, -1.414213562373095), (1.414213562373095, 1.4142135623730951)),
        (-1, 1, -1),
    ),
    "silu": Curve(
        lambda z: _sigmoid(z) * z,
        _silu_derivative,
        _about_silu_derivative,
        ((-2.399357280515468, -2.3993572805154675), (2.3993572805154675, 2.399357280515468)),
        (-1, 1, -1),
    ),
}
