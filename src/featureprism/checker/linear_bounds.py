"""Bounds of layers of ReLU by lines below and above every neuron, on many boxes of inputs at once (CROWN, Zhang et al. 2018).

On low ≤ z ≤ high the neuron [z]₊ lies below its chord and above s z for every slope s in [0, 1]. A linear form of the last layer is
carried back to the input: each [z_j]₊ is replaced by the line that makes the form smaller, each z by the layer before. Where a cut says
σ z_j ≥ 0, -β σ z_j with β ≥ 0 may be added to the form (Wang et al. 2021). Slopes and β are free: a bad choice proves nothing, never
something false.

Coefficients g of z are floats that are taken as they are. What rounding took from the products g W is at most γ Σ|g||W| max h: every
coefficient pays its share in the end.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from featureprism.checker.enclosed import TINY, gamma, outward, up
from featureprism.checker.layers import Layers

ROUNDINGS = 32  # of one layer's constants, on top of one for each summand


@dataclass(frozen=True, eq=False)
class BoundedLayer:
    """low ≤ z ≤ high of one layer on each of B regions, and the lines that follow."""

    low: np.ndarray  # (B, h)
    high: np.ndarray
    sizes: (
        np.ndarray
    )  # (B, h): above |W| max h + |b| + max |z|, what a relative error of a coefficient of z can cost

    @cached_property
    def largest(self) -> np.ndarray:
        """(B, h) The largest value after ReLU."""
        return np.maximum(self.high, 0)

    @cached_property
    def is_unstable(self) -> np.ndarray:
        """(B, h) Where the sign is not known."""
        return (self.low < 0) & (self.high > 0)

    @cached_property
    def chord(self) -> np.ndarray:
        """(B, h) Slopes of the lines above; 1 and 0 where the sign is known."""
        with np.errstate(all="ignore"):
            slope = self.high / (self.high - self.low)
        return np.where(self.is_unstable, np.clip(slope, 0, 1), self.low >= 0)

    @cached_property
    def lift(self) -> np.ndarray:
        """(B, h) Offsets of the lines above."""
        ends = outward(-self.chord * self.low), up(up(self.high - self.chord * self.high))
        return np.where(self.is_unstable, np.maximum(*ends), 0.0)

    @cached_property
    def steep(self) -> np.ndarray:
        """(B, h) Slopes 0 or 1 of the lines below: whichever leaves less between the line and the neuron."""
        return np.where(self.is_unstable, self.high > -self.low, self.low >= 0).astype(float)

    def with_cuts(self, sign: np.ndarray) -> "BoundedLayer":
        """Where a cut says z ≥ 0 (sign 1) or z ≤ 0 (sign -1); sign (B, h)."""
        low = np.where(sign > 0, np.maximum(self.low, 0), self.low)
        high = np.where(sign < 0, np.minimum(self.high, 0), self.high)
        return BoundedLayer(low, high, np.broadcast_to(self.sizes, low.shape))


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Of one layer: the slopes of lines below unstable neurons, in [0, 1], and β σ of its cuts; arrays that fit (B, m, h)."""

    slopes: np.ndarray
    cuts: np.ndarray


@runtime_checkable
class Inputs(Protocol):
    """The inputs in question."""

    def least(self, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(B, m) About the least ⟨c, x⟩ on every region, and how much its rounding errors are relative to; c (B, m, d)."""
        ...

    @property
    def largest(self) -> np.ndarray:
        """(B, d) The largest |x_i|."""
        ...


@dataclass(frozen=True, eq=False)
class Boxes:
    """B boxes lower ≤ x ≤ upper, (B, d) each."""

    lower: np.ndarray
    upper: np.ndarray

    @property
    def largest(self) -> np.ndarray:
        return self._largest

    @cached_property
    def _largest(self) -> np.ndarray:
        return np.maximum(np.abs(self.lower), np.abs(self.upper))

    def least(self, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value = times(np.maximum(c, 0), self.lower) + times(np.minimum(c, 0), self.upper)
        return value, times(np.abs(c), self.largest)


def times(c: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(B, m) Products of (B, m, n) with (B, n)."""
    return np.matmul(c, v[:, :, None])[:, :, 0]


def least_values(
    c: np.ndarray,
    value: np.ndarray,
    size: np.ndarray,
    known: list[BoundedLayer],
    model: Layers,
    inputs: Inputs,
    multipliers: list[Multipliers] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(B, m) Floats below ⟨c, h⟩ + value on every region, h the last layer that is known; and the coefficients (B, m, d) of the inputs.

    c (B, m, h); `size` (B, m): what the rounding errors of c and value so far are relative to. Without multipliers the lines below have
    the slope that leaves less.
    """
    width = max(W.shape[1] for W in model.weights)
    with np.errstate(all="ignore"):  # what is not finite proves nothing
        for k in range(len(known) - 1, -1, -1):
            layer = known[k]
            if multipliers is None:
                slopes = layer.steep[:, None]
            else:
                slopes = np.where(layer.is_unstable[:, None], multipliers[k].slopes, layer.steep[:, None])
            g = np.where(c >= 0, slopes, layer.chord[:, None])
            g *= c
            lifted = times(np.minimum(c, 0), layer.lift)
            size = size - lifted + times(np.abs(g), layer.sizes)
            if multipliers is not None:
                cuts = np.broadcast_to(multipliers[k].cuts, g.shape)
                size = size + times(np.abs(cuts), layer.sizes)
                g -= cuts
            value = value + lifted + g @ model.biases[k]
            W = model.weights[k]
            c = (g.reshape(-1, len(W)) @ W).reshape(*g.shape[:2], W.shape[1])
        least, its_size = inputs.least(c)
        value, size = value + least, size + its_size
        lost = outward(gamma(width + ROUNDINGS * len(model.weights)) * size, width) + TINY * (1 + size)
        bound = value - lost
    return np.where(np.isfinite(bound), bound, -np.inf), c


def bounded_layers(model: Layers, inputs: Inputs) -> list[BoundedLayer]:
    """Bounds of all hidden layers on every region."""
    known: list[BoundedLayer] = []
    for _ in model.widths:
        known.append(sized(model, known, inputs, *ruled_bounds(model, known, inputs)))
    return known


def ruled_bounds(model: Layers, known: list[BoundedLayer], inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """(B, h) Floats below and above the values of the first layer that is not known."""
    W, b = model.weights[len(known)], model.biases[len(known)]
    B = len(inputs.largest)
    c = np.broadcast_to(np.concatenate([W, -W]), (B, 2 * len(W), W.shape[1]))
    value = np.broadcast_to(np.concatenate([b, -b]), (B, 2 * len(b)))
    both, _ = least_values(c, value, np.abs(value), known, model, inputs)
    return both[:, : len(b)], -both[:, len(b) :]


def sized(
    model: Layers, known: list[BoundedLayer], inputs: Inputs, low: np.ndarray, high: np.ndarray
) -> BoundedLayer:
    """The next layer with these bounds."""
    sizes = linear_sizes(model, known, inputs) + np.maximum(np.abs(low), np.abs(high))
    return BoundedLayer(low, high, outward(sizes, model.weights[len(known)].shape[1]))


def linear_sizes(model: Layers, known: list[BoundedLayer], inputs: Inputs) -> np.ndarray:
    """(B, h) About |W| max h + |b| of the first layer that is not known."""
    W, b = model.weights[len(known)], model.biases[len(known)]
    return (known[-1].largest if known else inputs.largest) @ np.abs(W).T + np.abs(b)


def least_outputs(
    weights: np.ndarray,
    A: np.ndarray,
    b: np.ndarray,
    known: list[BoundedLayer],
    model: Layers,
    inputs: Inputs,
    multipliers: list[Multipliers] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(B, m) Floats below Σ_j weights_j (⟨A_j, y⟩ - b_j), y the outputs, weights (B, m, j); and the coefficients of the inputs."""
    g = weights @ A
    sizes = outward(linear_sizes(model, known, inputs), model.weights[-1].shape[1])
    size = times(np.abs(weights) @ np.abs(A), sizes) + np.abs(weights) @ np.abs(b)
    value = g @ model.biases[-1] - weights @ b
    return least_values(g @ model.weights[-1], value, size, known, model, inputs, multipliers)
