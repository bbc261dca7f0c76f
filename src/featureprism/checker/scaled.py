"""What the checker speaks of: a network of floats that lies below y f, at a scale where 1 is a usual size.

f(x) = Σ_j a_j [⟨w_j, x⟩ + b_j]₊^p, for normalised networks with a_j ‖w_j‖^(1-p) for a_j. Powers of two are divided out, which is
exact: 2^row_j of neuron j, so that its largest entry is in [½, 1), and 2^length of all lengths, so that the radius in question is.
Then y f = (a positive number)·Σ_j vote_j [t_j]₊^p up to the rounding of the weights alone, and as no power is negative, rounding all
votes down leaves a network below y f: what keeps that positive keeps the label.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from featureprism.checker.enclosed import (
    LIBRARY,
    Enclosed,
    down,
    enclosed,
    gamma,
    outward,
    power,
    unit,
    up,
)

LEAST_EXPONENT = -3000  # below every float: such a weight is 0, up to its rounding
LARGEST = (
    1e100  # of weights, coordinates and radii: in between, and down to its inverse, no square leaves float64
)
LARGEST_POWER = 64.0
LARGEST_SCALE = 10_000


def scaled_by(value: np.ndarray, exponent: np.ndarray | int) -> np.ndarray:
    """value·2^exponent where that is exact; a ValueError where digits would be lost."""
    result = np.ldexp(value, exponent)
    if not np.array_equal(np.ldexp(result, -np.asarray(exponent)), value):
        raise ValueError("Numbers so far apart cannot be brought to one scale; nothing is proven about them.")
    return result


def refuse_unless(holds: bool | np.bool_, wanted: str) -> None:
    """A ValueError that says what was wanted."""
    if not holds:
        raise ValueError(f"The checker needs {wanted}.")


def is_array(value: object, shape: tuple[int, ...]) -> bool:
    """Whether this is a finite float64 array of that shape."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape == shape
        and bool(np.isfinite(value).all())
    )


def is_weights(value: object, shape: tuple[int, ...]) -> bool:
    """Whether these are weights or coordinates of that shape: none is larger than LARGEST."""
    return is_array(value, shape) and bool((np.abs(value) <= LARGEST).all())  # pyright: ignore[reportArgumentType, reportCallIssue]


def refuse_strange_radius(radius: float) -> None:
    """A ValueError unless squares of the radius, and their inverses, are floats."""
    refuse_unless(
        1 / LARGEST <= radius <= LARGEST, f"a radius from {1 / LARGEST:g} to {LARGEST:g}, not {radius}"
    )


@dataclass(frozen=True, eq=False)
class Neurons:
    """The rows of a first layer with powers of two divided out; what the margins of many classes share."""

    W: np.ndarray  # (h, d)

    @cached_property
    def row(self) -> np.ndarray:
        """(h,) The exponents of the largest entries."""
        return np.frexp(np.abs(self.W).max(axis=1, initial=0.0))[1]

    @cached_property
    def scaled(self) -> np.ndarray:
        """(h, d) The neurons with their largest entry in [½, 1)."""
        return scaled_by(self.W, -self.row[:, None])

    @cached_property
    def squares(self) -> Enclosed:
        """(h,) ‖w_j‖²."""
        value = np.einsum("hd,hd->h", self.scaled, self.scaled)
        return Enclosed(value, outward(gamma(self.W.shape[1]) * value))

    @cached_property
    def norm(self) -> np.ndarray:
        """(h,) Floats above ‖w_j‖."""
        return up(np.sqrt(self.squares.high))

    @cached_property
    def gram(self) -> Enclosed:
        """(h, h) ⟨w_i, w_j⟩, off by at most γ_d Σ_k |w_ik w_jk| ≤ γ_d ‖w_i‖‖w_j‖."""
        radius = gamma(self.W.shape[1]) * self.norm[:, None] * self.norm
        return Enclosed(self.scaled @ self.scaled.T, outward(radius))


@dataclass(frozen=True, eq=False)
class Network:
    """A two-layer network as its owner wrote it; neurons that add nothing are left out by `useful`.

    A weight a_j may be the rounded difference of two floats: one unit in the last place is granted to each.
    """

    W: np.ndarray  # (h, d)
    a: np.ndarray  # (h,)
    b: np.ndarray  # (h,)
    p: float
    normalised: bool
    shared: Neurons | None = None  # of W, where other networks use the same
    weights: np.ndarray | None = (
        None  # (d,) s > 0, where lengths are √(Σ s_i δ_i²): gram, squares and norm are those of w/√s
    )

    def __post_init__(self) -> None:
        refuse_unless(isinstance(self.W, np.ndarray) and self.W.ndim == 2, "weights W (h, d)")
        shapes = {"W": self.W.shape, "a": self.W.shape[:1], "b": self.W.shape[:1]}
        for name, shape in shapes.items():
            wanted = f"{name} as a float64 array {shape} of numbers up to {LARGEST:g}"
            refuse_unless(is_weights(getattr(self, name), shape), wanted)
        refuse_unless(1 <= self.p <= LARGEST_POWER, f"a power p from 1 to {LARGEST_POWER:g}, not {self.p}")

    @cached_property
    def useful(self) -> np.ndarray:
        """Neurons with a weight; a normalised neuron without direction is 0 by definition."""
        return (self.a != 0) & (self.W.any(axis=1) | (not self.normalised))

    @cached_property
    def _all(self) -> Neurons:
        return self.shared or Neurons(self.W)

    @cached_property
    def row(self) -> np.ndarray:
        """(h,) The exponents of the useful neurons' largest entries."""
        return self._all.row[self.useful]

    @cached_property
    def neurons(self) -> np.ndarray:
        """(h, d) The useful neurons with their largest entry in [½, 1)."""
        return self._all.scaled if self.useful.all() else self._all.scaled[self.useful]

    @cached_property
    def squares(self) -> Enclosed:
        """(h,) ‖w_j‖²."""
        if self.weights is not None:
            every = np.arange(len(self.row))
            return self.gram[every, every]
        return self._all.squares[self.useful]

    @cached_property
    def norm(self) -> np.ndarray:
        """(h,) Floats above ‖w_j‖."""
        if self.weights is not None:
            return up(np.sqrt(np.maximum(self.squares.high, 0)))
        return self._all.norm[self.useful]

    @cached_property
    def gram(self) -> Enclosed:
        """(h, h) ⟨w_i, w_j⟩."""
        if self.weights is not None:
            inverse = 1 / self.weights
            return (
                enclosed(self.neurons) * Enclosed(inverse, outward(2 * unit() * inverse))
            ) @ self.neurons.T
        if self.useful.all():  # no copy of what all margins of a wide network share
            return self._all.gram
        return self._all.gram[np.ix_(self.useful, self.useful)]

    @cached_property
    def _exponents(self) -> tuple[np.ndarray, np.ndarray]:
        """(h,) The whole and the fractional part of the exponents of |a_j| 2^(p row_j), for normalised networks of |a_j| 2^row_j."""
        whole = np.frexp(np.abs(self.a[self.useful]))[1].astype(int)
        q = 1.0 if self.normalised else float(self.p)
        if q.is_integer():
            return whole + int(q) * self.row, np.zeros(len(whole))
        products = [Fraction(q) * int(row) for row in self.row]
        floors = [product.__floor__() for product in products]
        parts = [float(product - floor) for product, floor in zip(products, floors, strict=True)]
        return whole + np.array(floors, dtype=int), np.array(parts)

    @cached_property
    def scale(self) -> int:
        """The power of two by which votes are divided, so that none is much larger than 1."""
        return int(self._exponents[0].max(initial=-LARGEST_SCALE))

    def weight(self, scale: int) -> Enclosed:
        """(h,) |a_j| 2^(p row_j - scale), for normalised networks |a_j| 2^(row_j - scale) ‖w_j‖^(1-p)."""
        digits = np.frexp(np.abs(self.a[self.useful]))[0]
        whole, part = self._exponents
        size = Enclosed(digits, unit() * digits)
        if part.any():  # real powers: one rounding of the exponent, then the C library
            size = size * Enclosed(np.exp2(part), 2 * (LIBRARY + 8 * unit()))
        if self.normalised and self.p > 1:
            size = size * _inverse_power(self.squares, self.p - 1)
        shift = np.clip(whole - scale, LEAST_EXPONENT, -LEAST_EXPONENT)
        return Enclosed(np.ldexp(size.mid, shift), outward(np.ldexp(size.rad, shift)))


def _inverse_power(squares: Enclosed, q: float) -> Enclosed:
    """‖w‖^-q, q ≥ 0, from ‖w‖²: it falls, so the ends of ‖w‖ give its ends."""
    shortest, longest = down(np.sqrt(squares.low)), up(np.sqrt(squares.high))
    low, high = down(1 / power(longest, q).high), up(1 / power(shortest, q).low)
    return Enclosed((low + high) / 2, outward(high - low))


@dataclass(frozen=True, eq=False)
class Problem:
    """A point with its label before a network, scaled: is Σ_j vote_j [c_j + ⟨w_j, δ⟩]₊^p > 0 for all ‖δ‖ < radius?"""

    network: Network
    c: Enclosed  # (h,) pre-activations at the point
    vote: np.ndarray  # (h,) weights for the label, rounded down
    radius: float
    length: int  # lengths here, times 2^length, are lengths there

    @property
    def own(self) -> np.ndarray:
        """The neurons that vote for the label."""
        return self.vote > 0

    def unscaled(self, radius: float) -> float:
        """A radius found here, in the units of the point; 0 if it is no positive number."""
        if not 0 < radius < np.inf:
            return 0.0
        result = np.ldexp(radius, self.length)
        exact_or_below = np.ldexp(result, -self.length) <= radius  # only subnormal numbers are rounded
        return float(result if exact_or_below else down(result))


def votes_below(network: Network, y: float) -> tuple[np.ndarray, int]:
    """The largest votes that are surely below the weights, and their scale: what a proof may store."""
    weight, supports = network.weight(network.scale), y * network.a[network.useful] > 0
    return np.where(supports, np.maximum(weight.low, 0), -weight.high), network.scale


def posed(
    network: Network, x: np.ndarray, y: float, radius: float, votes: np.ndarray | None = None, scale: int = 0
) -> Problem:
    """The scaled problem; `radius` is the one in question (any positive number would be sound).

    `votes` (h,), with their scale, must be below the weights of the useful neurons, for label -1 below their negatives.
    """
    refuse_unless(
        is_weights(x, network.W.shape[1:]), f"x as a float64 array {network.W.shape[1:]} of usual numbers"
    )
    refuse_unless(y in (-1, 1), f"a label -1 or +1, not {y}")
    refuse_strange_radius(radius)
    if votes is None:
        votes, scale = votes_below(network, y)
    count = int(network.useful.sum())
    refuse_unless(count > 0 and is_array(votes, (count,)), f"votes as a finite float64 array ({count},)")
    refuse_unless(type(scale) is int and abs(scale) <= LARGEST_SCALE, "a whole scale of usual size")
    weight, supports = network.weight(scale), y * network.a[network.useful] > 0
    below = np.where(supports, votes <= np.maximum(weight.low, 0), votes <= -weight.high)
    refuse_unless(bool(below.all()), "votes below the weights")
    length = int(np.frexp(radius)[1])
    b = scaled_by(network.b[network.useful], -network.row - length)
    c = enclosed(network.neurons) @ scaled_by(x, -length) + b
    return Problem(network, c, votes, float(np.ldexp(radius, -length)), length)
