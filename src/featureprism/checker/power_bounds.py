"""Lines and quadratics beside φ(t) = [t]₊^p, p ≥ 1, proven with all roundings: what the checker puts in the place of a neuron."""

import numpy as np

from featureprism.checker.enclosed import Enclosed, down, enclosed, power, unit, up, where


def line_below(line: np.ndarray, p: float) -> tuple[Enclosed, Enclosed]:
    """(σ, φ*) of a line σt - φ* below φ: for p = 1 with any slope in [0, 1] through 0, else the tangent at a point ≥ 0."""
    if p == 1:
        return enclosed(line), enclosed(np.zeros_like(line))
    return p * power(line, p - 1), enclosed(p - 1) * power(line, p)


def quadratic_below(
    c: np.ndarray, low: np.ndarray, high: np.ndarray, p: float
) -> tuple[Enclosed, Enclosed, np.ndarray]:
    """(q0, q1, q2) of q0 + q1 t + ½ q2 t² ≤ φ on [low, high]: the line of `line_below`, bent as far as both ends allow.

    Tangent at c: φ(c) + φ'(c)(t - c) + ½k(t - c)² with k ≤ Q(t) of `tangent_curvature`. Q rises with t for p ≥ 2, and rises and then
    falls for p < 2: it is least at an end.
    """
    line, touched = line_below(c, p)
    if p == 1:
        return -touched, line, np.zeros_like(c)
    k = _least_quotient(low, c, p) if p >= 2 else np.minimum(*(_least_quotient(t, c, p) for t in (low, high)))
    k = np.where(np.isfinite(k), np.maximum(k, 0.0), 0.0)
    return 0.5 * (k * enclosed(c) * c) - touched, line - enclosed(k) * c, k


def _least_quotient(t: np.ndarray, c: np.ndarray, p: float) -> np.ndarray:
    """A float below Q(t), which is a mean of φ'' between c and t: no less than φ'' at the end where that is least."""
    gap = t - enclosed(c)
    square = (gap * gap).high
    mean = down(2 * _rise(t, c, p).low / np.where(square > 0, square, np.inf))
    end = np.minimum(t, c) if p >= 2 else np.maximum(t, c)
    positive = np.minimum(t, c) > 0
    return np.maximum(mean, np.where(positive, _second_derivative(np.where(positive, end, 1.0), p).low, 0.0))


def quadratic_above(
    line: np.ndarray, centre: np.ndarray, kappa: np.ndarray, low: np.ndarray, high: np.ndarray, p: float
) -> tuple[Enclosed, Enclosed, np.ndarray]:
    """(q0, q1, q2) of q0 + q1 t + ½ q2 t² ≥ φ on [low, high]: tangent at `centre`, or where that is 0 through both ends.

    A tangent at c < 0 is ½k(t - c)². For high ≤ 0 the quadratic is 0, like φ. NaN where `kappa` bends too far.
    """
    dead, by_ends = high <= 0, centre == 0
    low, high = np.where(dead, 0.0, low), np.where(dead, 1.0, high)
    # tangent at c: φ(c) + φ'(c)(t - c) + ½k(t - c)², where φ(c) - φ'(c) c = (1 - p) φ(c)
    c = np.where(by_ends, high, np.minimum(centre, high))
    active = np.where(c > 0, c, high)
    k = np.where(
        c > 0, tangent_curvature(active, low, high, p), resting_curvature(np.where(c > 0, -high, c), high, p)
    )
    offset, slope = enclosed(p - 1) * power(active, p), p * power(active, p - 1)
    tangent = (
        0.5 * (k * enclosed(c) * c) - where(c > 0, offset, 0.0),
        where(c > 0, slope, 0.0) - enclosed(k) * c,
    )
    # through both ends: a line above both, less ½κ(t - low)(high - t)
    bend = np.where(kappa <= end_curvature(low, high, p), kappa, np.nan)
    start = line_above(line, low, high, p)
    half = enclosed(bend) * 0.5
    ends = start + half * low * high, line - half * (enclosed(low) + high)
    q0, q1 = (where(dead, 0.0, where(by_ends, e, t)) for e, t in zip(ends, tangent, strict=True))
    return q0, q1, np.where(dead, 0.0, np.where(by_ends, bend, k))


def line_above(slope: np.ndarray, low: np.ndarray, high: np.ndarray, p: float) -> np.ndarray:
    """The offset of a line of that slope above φ on [low, high]: φ is convex, so it is enough to lie above both ends."""
    at_low, at_high = power(np.maximum(low, 0), p), power(np.maximum(high, 0), p)
    return np.maximum((at_low - enclosed(slope) * low).high, (at_high - enclosed(slope) * high).high)


def chord(low: np.ndarray, high: np.ndarray, p: float) -> np.ndarray:
    """The slope of φ from low to high, up to rounding: what a proof stores."""
    at_low, at_high = power(np.maximum(low, 0), p).mid, power(np.maximum(high, 0), p).mid
    return (at_high - at_low) / np.where(high > low, high - low, 1.0)


def tangent_curvature(c: np.ndarray, low: np.ndarray, high: np.ndarray, p: float) -> np.ndarray:
    """k ≥ Q(t) = 2(φ(t) - φ(c) - φ'(c)(t - c))/(t - c)² for t in [low, high], where high > 0 and 0 < c ≤ high.

    Q(t) is a mean of φ'' between c and t. For p > 2, φ'' does not fall: Q is largest at `high`. For p ≤ 2, Q rises up to its peak
    p² c^(p-2)/2 at t = (1 - 2/p)c ≤ 0 and falls from there on: it is largest at `low`, if that is beyond.
    """
    if p > 2:
        return np.minimum(_quotient(high, c, p), _second_derivative(high, p).high)
    peak = _ratio(enclosed(p) * p * power(c, p), 2 * (enclosed(c) * c))
    beyond = low >= (Enclosed(1 - 2 / p, 4 * unit()) * c).high
    # for t ≤ 0, φ(t) = 0: Q(t) = 2c^(p-1) ((p-1)c - pt)/(c - t)²
    left = enclosed(c) - low
    at_low = _ratio(2 * power(c, p - 1) * (enclosed(p - 1) * c - p * enclosed(low)), left * left)
    first = np.where(low > 0, np.minimum(low, c), c)
    within = np.minimum(_quotient(low, c, p), _second_derivative(first, p).high)  # φ'' falls for t > 0
    k = np.where(beyond, np.where(low > 0, within, at_low), peak)
    return np.where((low >= 0) & (p == 1), 0.0, k)


def resting_curvature(c: np.ndarray, high: np.ndarray, p: float) -> np.ndarray:
    """k ≥ 2φ(t)/(t - c)² for t ≤ high, where c < 0 < high.

    That rises for p ≥ 2; for p < 2 it rises up to t = -cp/(2 - p), and is p² t^(p-2)/2 there, which falls with t.
    """
    gap = high - enclosed(c)
    at_high = _ratio(2 * power(high, p), gap * gap)
    if p >= 2:
        return at_high
    summit = (
        Enclosed(p / (2 - p), 8 * unit() * p / (2 - p)) * -c
    ).low  # p and 2 - p are floats: two roundings
    peak = _ratio(enclosed(p) * p * power(np.maximum(summit, 0.0), p), 2 * (enclosed(summit) * summit))
    return np.where(high <= summit, at_high, peak)


def _second_derivative(t: np.ndarray, p: float) -> Enclosed:
    """φ''(t) = p(p-1) t^(p-2), t > 0."""
    return enclosed(p) * (p - 1) * power(t, p - 2)


def _rise(t: np.ndarray, c: np.ndarray, p: float) -> Enclosed:
    """φ(t) - φ(c) - φ'(c)(t - c)."""
    at_t, at_c = np.maximum(t, 0), np.maximum(c, 0)
    slope = where(np.asarray(c) < 0, 0.0, p * power(at_c, p - 1))  # p = 1: 0 to the power 0 is 1
    return power(at_t, p) - power(at_c, p) - slope * (t - enclosed(c))


def _quotient(t: np.ndarray, c: np.ndarray, p: float) -> np.ndarray:
    """A float above 2(φ(t) - φ(c) - φ'(c)(t - c))/(t - c)², inf where t and c are too close to tell."""
    gap = t - enclosed(c)
    return _ratio(2 * _rise(t, c, p), gap * gap)


def _ratio(above: Enclosed, below: Enclosed) -> np.ndarray:
    """A float above the ratio of two numbers that are not negative, inf where the second may be 0."""
    return np.where(below.low > 0, up(above.high / below.low), np.inf)


def end_curvature(low: np.ndarray, high: np.ndarray, p: float) -> np.ndarray:
    """κ ≥ 0 such that the chord less ½κ(t - low)(high - t) lies above φ on [low, high].

    chord - φ = φ[low, t, high] (t - low)(high - t). For p ≥ 2, φ'' does not fall, hence no divided difference does:
    2φ[low, t, high] ≥ 2φ[low, low, high] = 2(φ(high) - φ(low) - φ'(low)(high - low))/(high - low)² ≥ φ''(low). For p < 2, φ'' is 0,
    then falls from its largest value: φ[low, t, high] rises and then falls with t, as its derivative is a mean of the third derivative
    of φ with weights that move to the right with t. So it is least at t = low or at t = high.
    """
    width = enclosed(high) - low
    square = (width * width).high
    mean = np.where(high > low, down(2 * _rise(high, low, p).low / square), 0.0)
    if p < 2:
        at_low, at_high = power(np.maximum(low, 0), p), power(np.maximum(high, 0), p)
        fall = p * power(np.maximum(high, 0), p - 1) * width - (at_high - at_low)
        mean = np.minimum(mean, np.where(high > low, down(2 * fall.low / square), 0.0))
        return np.where((high > 0) & np.isfinite(mean), np.maximum(mean, 0.0), 0.0)
    first = np.where(low > 0, _second_derivative(np.where(low > 0, low, 1.0), p).low, 0.0)
    return np.maximum(np.maximum(mean, first), 0.0)
