"""Every operation against fractions: the exact result lies within the radius, and the radius is small."""

from fractions import Fraction

import numpy as np
import pytest

from featureprism.checker.enclosed import Enclosed, power

RNG_SEED = 5


def drawn(rng, *shape):
    """Numbers of many sizes with radii, and exact numbers within them."""
    mid = rng.normal(size=shape) * 2.0 ** rng.integers(-30, 30, size=shape)
    rad = np.abs(mid) * rng.choice([0.0, 1e-12], size=shape)
    share = rng.choice([-1, 0, 1], size=shape)
    exact = np.vectorize(lambda m, r, s: Fraction(m) + int(s) * Fraction(r), otypes=[object])(mid, rad, share)
    return Enclosed(mid, rad), exact


def assert_encloses(result, exact):
    for mid, rad, truth in zip(
        np.ravel(result.mid), np.ravel(result.rad), np.ravel(np.asarray(exact, dtype=object)), strict=True
    ):
        assert abs(Fraction(float(mid)) - truth) <= Fraction(float(rad))


@pytest.mark.parametrize("seed", range(20))
def test_results_lie_within_their_radius(seed):
    rng = np.random.default_rng((RNG_SEED, seed))
    (a, exact_a), (b, exact_b), (v, exact_v) = drawn(rng, 3, 4), drawn(rng, 3, 4), drawn(rng, 4)
    assert_encloses(a + b, exact_a + exact_b)
    assert_encloses(a - b, exact_a - exact_b)
    assert_encloses(a * b, exact_a * exact_b)
    assert_encloses(a * a - b * b, exact_a**2 - exact_b**2)
    assert_encloses(a @ v, exact_a @ exact_v)
    assert_encloses(a.sum(), exact_a.sum())
    assert_encloses(1.5 - a, Fraction(3, 2) - exact_a)
    assert_encloses(a[1, 2:], exact_a[1, 2:])
    for side, sign in (("low", -1), ("high", 1)):
        bound = np.vectorize(Fraction, otypes=[object])(getattr(a, side))
        assert bool((sign * (bound - exact_a) >= 0).all())


@pytest.mark.parametrize("p", [0, 1, 2, 3, 5])
def test_whole_powers_are_products(p):
    t = np.abs(np.random.default_rng(p).normal(size=50))
    result = power(t, float(p))
    assert_encloses(result, np.array([Fraction(v) ** p for v in t], dtype=object))
    np.testing.assert_allclose(result.rad, 0, atol=1e-15 * (p + 1) * max(1, t.max() ** p))


def test_underflow_is_counted():
    tiny = Enclosed(np.array([2.0**-600]), np.zeros(1))
    product = tiny * tiny
    assert product.mid[0] == 0
    assert_encloses(product, [Fraction(1, 2**1200)])


def test_no_number_proves_nothing():
    for nothing in (np.nan, np.inf):
        with np.errstate(invalid="ignore"):
            result = Enclosed(np.array([nothing]), np.zeros(1)) - np.array([nothing])
        assert not bool((result.low > 0).any())
        assert not bool((result.high < 0).any())
