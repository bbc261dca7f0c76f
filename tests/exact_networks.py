"""Networks in rational arithmetic: the truth that no float can bend. Nothing here is shared with the checker."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

import numpy as np

BITS = 256  # of roots, which real powers and norms need
NEGLIGIBLE = Fraction(1, 2**200)  # more than the error of those roots, as a share of all that was summed


@dataclass(frozen=True, eq=False)
class Weights:
    """Σ_j a_j [⟨w_j, x⟩ + b_j]₊^p, divided by ‖w_j‖^(p-1) if normalised; p a multiple of ½."""

    W: np.ndarray
    a: np.ndarray
    b: np.ndarray
    p: float
    normalised: bool


def root(value: Fraction) -> Fraction:
    """√value up to a relative 2^-256."""
    n, d = value.numerator, value.denominator
    return Fraction(isqrt((n * d) << (2 * BITS)), d << BITS)


def exact_power(value: Fraction, p: float) -> Fraction:
    """value^p for value ≥ 0 and p ≥ 0 a multiple of ½."""
    whole = value ** int(p)
    return whole * root(value) if p % 1 else whole


def rationals(values) -> list[Fraction]:
    return [Fraction(float(v)) for v in values]


def exact_pre_activations(net: Weights, point: list[Fraction]) -> list[Fraction]:
    """⟨w_j, point⟩ + b_j."""
    return [
        sum((u * v for u, v in zip(rationals(w), point, strict=True)), Fraction(float(b)))
        for w, b in zip(net.W, net.b, strict=True)
    ]


def flips_exactly(net: Weights, x: np.ndarray, y: float, delta: np.ndarray) -> bool:
    """Whether y f(x + δ) ≤ 0, without a rounding."""
    point = [u + v for u, v in zip(rationals(x), rationals(delta), strict=True)]
    terms = []
    for z, w, a in zip(exact_pre_activations(net, point), net.W, rationals(net.a), strict=True):
        if z <= 0 or (net.normalised and not w.any()):
            continue
        length = root(sum((v * v for v in rationals(w)), Fraction(0))) if net.normalised else Fraction(1)
        terms.append(int(y) * a * exact_power(z, net.p) / exact_power(length, net.p - 1))
    total, size = sum(terms, Fraction(0)), sum((abs(t) for t in terms), Fraction(0))
    return total <= (0 if size == 0 else -NEGLIGIBLE * size)


def exceeds(radius: float, delta: np.ndarray, norm: float = 2) -> bool:
    """Whether a radius is larger than ‖δ‖, without a rounding."""
    sizes = [abs(v) for v in rationals(delta)]
    if norm == 2:
        return Fraction(radius) ** 2 > sum((v * v for v in sizes), Fraction(0))
    return Fraction(radius) > max(sizes)


def random_weights(rng: np.random.Generator) -> Weights:
    """Few neurons in few dimensions, of usual size; some parallel, opposite, equal or zero."""
    h, d = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    W, a, b = rng.normal(size=(h, d)), rng.normal(size=h), rng.normal(size=h)
    if h > 1:
        twin = rng.integers(8)
        W[1], b[1] = {0: (2 * W[0], b[1]), 1: (W[0], b[0]), 2: (-W[0], -b[0]), 3: (0 * W[0], b[1])}.get(
            int(twin), (W[1], b[1])
        )
    p = float(rng.choice([1.0, 1.0, 1.5, 2.0, 2.5, 3.0, 10.0]))
    return Weights(W, a, b, p, normalised=bool(rng.integers(2)) and p > 1)


def moved(net: Weights, x: np.ndarray, offset: float) -> tuple[Weights, np.ndarray]:
    """Nearly the same picture far from the origin."""
    step = offset * np.resize([1.0, -0.7, 0.3], len(x))
    return replace(net, b=net.b - net.W @ step), x + step


def rescaled(net: Weights, x: np.ndarray, rng: np.random.Generator) -> tuple[Weights, np.ndarray, float]:
    """The same question in other units: powers of two for every neuron, for the output and for all lengths, and the last of them."""
    row = np.where(net.W.any(axis=1), 2 * rng.integers(-35, 36, size=len(net.a)), 0)
    length, height = (int(v) for v in rng.integers(-70, 71, size=2))
    lower = -row if net.normalised else (-row * net.p).astype(int)
    return (
        Weights(
            np.ldexp(net.W, row[:, None]),
            np.ldexp(net.a, height + lower),
            np.ldexp(net.b, row + length),
            net.p,
            net.normalised,
        ),
        np.ldexp(x, length),
        2.0**length,
    )


def shortest_flip(
    net: Weights, x: np.ndarray, y: float, reach: float, rng: np.random.Generator
) -> np.ndarray | None:
    """A short δ that flips exactly: rays in many directions, then ever smaller turns of the best of them."""
    c = np.array([float(z) for z in exact_pre_activations(net, rationals(x))])
    lengths = np.linalg.norm(net.W, axis=1)
    rescale = np.where(lengths > 0, lengths, np.inf) ** (1 - net.p) if net.normalised else 1.0

    def flips(delta):
        return y * (np.maximum(c + delta @ net.W.T, 0) ** net.p @ (net.a * rescale)) <= 0

    def unit(directions):
        return directions / np.linalg.norm(directions, axis=1, keepdims=True)

    rows = net.W[lengths > 0]
    u = unit(np.concatenate([rows, -rows, rng.normal(size=(200, len(x)))]))
    radii = np.linspace(0, reach, 200)[1:]
    hits = flips(radii[:, None, None] * u)  # (r, directions)
    if not hits.any():
        return None
    at = np.where(hits.any(axis=0), hits.argmax(axis=0), len(radii))
    best, radius = u[at.argmin()], radii[at.min()]
    for turn in (*np.geomspace(0.5, 1e-6, 16), 0.0):
        trials = unit(best + turn * rng.normal(size=(16, len(x))))
        trials[0] = best
        low, high = np.zeros(len(trials)), np.full(len(trials), radius)
        trials = trials[flips(high[:, None] * trials)]
        low, high = low[: len(trials)], high[: len(trials)]
        for _ in range(24 if turn else 52) if len(trials) else ():
            middle = (low + high) / 2
            flip = flips(middle[:, None] * trials)
            low, high = np.where(flip, low, middle), np.where(flip, middle, high)
        if len(trials) and high.min() <= radius:
            best, radius = trials[high.argmin()], high.min()
    for beyond in np.geomspace(1e-16, 1e-3, 27):
        delta = (1 + beyond) * radius * best
        if flips_exactly(net, x, y, delta):
            return delta
    return None
