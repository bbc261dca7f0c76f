"""Activations between lines: the fast checker's enclosures hold the exact checker's, and no line crosses its curve."""

import math
from fractions import Fraction

import numpy as np
import pytest

from featureprism.checker import exact
from featureprism.checker.curves import CURVES

PLACES = np.array(
    [0.0, 1e-9, -3e-5, 0.3, -1.41421356, 1.5, -2.4, 2.39935728, 4.0, -6.5, 8.99, -9.01, 20.0, -45.0, 600.0]
)
TRUTH = {
    "tanh": math.tanh,
    "gelu": lambda z: z * math.erfc(-z / math.sqrt(2)) / 2,
    "silu": lambda z: z / (1 + math.exp(-z)),
}


@pytest.mark.parametrize("name", TRUTH)
def test_values_and_derivatives_hold_the_truth_in_both_checkers(name):
    curve = CURVES[name]
    with np.errstate(all="ignore"):
        of = {
            "value": (curve.value(PLACES), exact.activation),
            "slope": (curve.derivative(PLACES), exact.derivative),
        }
    for fast, enclosure in of.values():
        for z, mid, rad in zip(PLACES, fast.mid, np.broadcast_to(fast.rad, PLACES.shape), strict=True):
            low, high = enclosure(name, Fraction(float(z)))
            assert (
                Fraction(float(mid)) - Fraction(float(rad))
                <= low
                <= high
                <= Fraction(float(mid)) + Fraction(float(rad))
            )
            assert high - low <= Fraction(1, 10**40) * max(1, abs(Fraction(float(z))))
    for z in PLACES.tolist():
        low, high = exact.activation(name, Fraction(z))
        assert float(low) == pytest.approx(TRUTH[name](z), rel=1e-13, abs=1e-15)
        step = 1e-5
        rise = (TRUTH[name](z + step) - TRUTH[name](z - step)) / (2 * step)
        assert float(exact.derivative(name, Fraction(z))[0]) == pytest.approx(rise, abs=2e-5 + 1e-9 * abs(z))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("side", [1, -1])
def test_lines_touch_their_curve_and_do_not_cross_it(name, side):
    rng = np.random.default_rng(3)
    low = 3 * rng.normal(size=60)
    high = low + 4 * rng.exponential(size=60) * rng.integers(0, 2, size=60)
    slope = rng.uniform(-0.2, 1.2, size=60)
    with np.errstate(all="ignore"):
        shifts = CURVES[name].offset(low, high, slope, side)
    truth = TRUTH.get(name, lambda z: max(z, 0.0))
    for lo, hi, s, shift in zip(low.tolist(), high.tolist(), slope.tolist(), shifts.tolist(), strict=True):
        gaps = [side * (truth(z) - s * z - shift) for z in np.linspace(lo, hi, 400).tolist()]
        assert min(gaps) > -1e-12
        assert min(gaps) < 1e-3 * max(1.0, hi - lo) ** 2
        best = exact.line_offset(name, Fraction(lo), Fraction(hi), Fraction(s), side)
        assert side * (best - Fraction(shift)) >= 0, "the fast checker is never ahead of the exact one"
        assert abs(float(best) - shift) < 1e-11


def test_inflection_points_lie_between_their_doubles():
    (low, high), _ = (abs(t) for t in CURVES["gelu"].ends[1]), None
    assert Fraction(low) ** 2 < 2 < Fraction(high) ** 2
    low, high = map(Fraction, CURVES["silu"].ends[1])
    assert low * exact.tanh(low / 2, True) < 2 < high * exact.tanh(high / 2, False)
    for name, (inflections, bends) in exact.BENDS.items():
        assert (tuple(inflections), bends) == (CURVES[name].ends, CURVES[name].bends)
