import math

import numpy as np
import pytest

from featureprism.lab import Claim, Outcome, Rows, at_most, below, between, judge, rate
from featureprism.lab.rate import Rate, power_fit
from featureprism.lab.rows import log_slope

SIZES = (50, 100, 200, 400, 800)


def measured(law, num_seeds=5, noise=0.0, sizes=SIZES):
    """Rows of y = law(x) e^{noise · normal}."""
    draws = np.random.default_rng(0)
    return Rows.gather(
        {"seed": seed, "kind": "end", "x": x, "y": law(x) * math.exp(noise * draws.normal())}
        for seed in range(num_seeds)
        for x in sizes
    )


@pytest.mark.parametrize(("constant", "exponent"), [(3.0, -0.5), (0.2, 2.0), (1e-3, 0.0), (7.0, -1.0)])
def test_a_power_law_is_recovered(constant, exponent):
    law = rate(measured(lambda x: constant * x**exponent), x="x", y="y")
    assert law.exponent == pytest.approx(exponent, abs=1e-9)
    assert law.constant == pytest.approx(constant)
    assert law.curvature == pytest.approx(0, abs=1e-9)
    assert law.is_power_law is True
    assert law.predict(1000) == pytest.approx(constant * 1000**exponent)


def test_the_exponent_is_the_slope_of_the_rows():
    rows = measured(lambda x: x**-0.7, noise=0.3)
    assert rate(rows, x="x", y="y").exponents == pytest.approx(rows.slope("x", "y"))
    one = rows.by_seed()[2]
    assert rate(rows, x="x", y="y").exponents[2] == pytest.approx(log_slope(one.column("x"), one.column("y")))


def test_the_curvature_is_the_difference_of_the_local_exponents():
    """ln y = (ln x)² has the local exponent 2 ln x."""
    law = rate(measured(lambda x: math.exp(math.log(x) ** 2)), x="x", y="y")
    assert law.first_exponents == pytest.approx(2 * math.log(50))
    assert law.last_exponents == pytest.approx(2 * math.log(800))
    assert law.curvature == pytest.approx(2 * math.log(16))


@pytest.mark.parametrize(
    "law", [lambda x: 1 / x + 0.01, lambda x: math.exp(-x / 200), lambda x: 1 - math.exp(-x / 200)]
)
def test_what_bends_is_not_a_power_law(law):
    result = rate(measured(law, noise=0.02), x="x", y="y")
    assert result.is_power_law is False
    assert str(result).startswith("not a power law: the local exponent goes from")


def test_noise_alone_is_no_bend():
    """Power laws with noise are called bent in at most one of twenty runs."""
    draws = np.random.default_rng(1)
    bent = 0
    for _ in range(200):
        rows = Rows.gather(
            {"seed": s, "x": x, "y": x**-0.5 * math.exp(0.3 * draws.normal())}
            for s in range(5)
            for x in SIZES
        )
        bent += rate(rows, x="x", y="y").is_power_law is False
    assert bent <= 10


def test_the_interval_covers_the_exponent():
    draws, inside = np.random.default_rng(2), 0
    for _ in range(400):
        rows = Rows.gather(
            {"seed": s, "x": x, "y": x**-0.5 * math.exp(0.3 * draws.normal())}
            for s in range(4)
            for x in SIZES
        )
        low, high = rate(rows, x="x", y="y").interval
        inside += low <= -0.5 <= high
    assert inside / 400 == pytest.approx(0.95, abs=0.035)


def test_what_cannot_be_fitted_is_nan():
    alone = rate(measured(lambda x: x, sizes=(10,)), x="x", y="y")
    assert np.isnan(alone.exponents).all()
    assert "no rate" in str(alone)
    pair = rate(measured(lambda x: x**2, sizes=(10, 20)), x="x", y="y")
    assert pair.exponent == pytest.approx(2)
    assert pair.is_power_law is None
    assert np.isnan(rate(measured(lambda x: x - 100), x="x", y="y").exponents).all()
    assert "one seed" in str(rate(measured(lambda x: x, num_seeds=1), x="x", y="y"))


def claim(bound):
    return Claim(
        "decay",
        source="Theorem 1",
        says="The error falls like one over the size.",
        value=lambda rows: rate(rows.of("end"), x="x", y="y"),
        bound=bound,
    )


def test_a_claim_is_judged_by_the_exponent():
    rows = measured(lambda x: 5 / x, noise=0.05)
    assert judge(claim(between(-1.2, -0.8)), rows).outcome == Outcome.HOLDS
    assert judge(claim(below(-1.5)), rows).outcome == Outcome.FAILS
    assert judge(claim(at_most(-1)), measured(lambda x: 5 / x - 10)).outcome == Outcome.NOT_MEASURED


def test_a_claim_about_a_bent_curve_holds_only_at_both_ends():
    """1/x + 0.01 has local exponents from about -0.8 to about -0.1."""
    rows = measured(lambda x: 1 / x + 0.01, noise=0.01)
    verdict = judge(claim(between(-0.6, -0.3)), rows)
    assert between(-0.6, -0.3).holds(verdict.measured)
    assert verdict.outcome == Outcome.UNDECIDED
    assert verdict.note.startswith("not a power law")
    assert judge(claim(between(-1.5, 0.5)), rows).outcome == Outcome.HOLDS
    assert judge(claim(below(-1.2)), rows).outcome == Outcome.FAILS


@pytest.mark.parametrize("y", [[1.0, 0.0, 2.0], [1.0, math.inf, 2.0], [1.0, math.nan, 2.0], [1.0, -1.0, 2.0]])
def test_points_without_a_logarithm_determine_nothing(y):
    with np.errstate(all="raise"):
        assert np.isnan(power_fit(np.array([1.0, 2.0, 4.0]), np.array(y))).all()


def bent(*curvatures, **options):
    """A rate with these curvatures, seed by seed."""
    last = np.array(curvatures)
    return Rate((1.0, 8.0), last, np.ones(len(last)), np.zeros(len(last)), last, **options)


def test_a_power_law_may_bend_as_far_as_the_tolerance():
    assert bent(0.25, 0.25, tolerance=0.25).is_power_law is True
    assert bent(0.25, 0.25, tolerance=0.24).is_power_law is False
    assert bent(0.15, 0.15).is_power_law is True
    assert bent(-0.3, -0.3).is_power_law is False
    assert bent(0.0, math.nan).is_power_law is None  # one seed was measured at two sizes
