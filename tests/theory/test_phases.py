"""Predictions of our own, against the dynamics they were derived from."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from featureprism.papers.feature_averaging import theory as feature_averaging
from featureprism.papers.gmm_flow import theory as gmm_flow


@pytest.mark.parametrize("p", [2.5, 3.0, 4.0])
@pytest.mark.parametrize("start_mass", [0.01, 1.0, 20.0])
def test_alignment_is_that_of_the_flow_of_one_neuron(p, start_mass):
    """v' = ‖w‖c^p, ‖w‖' = v c^p, c' = (v/‖w‖) p c^(p-1)(1-c²) from v, c near 0, until n v ‖w‖ c^p = 1 with n = 1."""

    def field(_t, s):
        v, w, c = s
        return [w * c**p, v * c**p, v / w * p * c ** (p - 1) * (1 - c**2)]

    def learned(_t, s):
        return s[0] * s[1] * s[2] ** p - 1

    learned.terminal = True
    small = 0.01
    start = [1e-3 * math.sqrt(start_mass), math.sqrt(start_mass), small]
    run = solve_ivp(field, (0, 1e9), start, events=learned, rtol=1e-9, atol=1e-12, method="LSODA")
    assert run.status == 1
    assert gmm_flow.aligned_when_learned(start_mass, p) == pytest.approx(run.y[2, -1], abs=0.02)


@pytest.mark.parametrize("p", [2.2, 3.0, 5.0])
def test_the_critical_start_is_where_that_alignment_is_reached(p):
    std = gmm_flow.critical_start(500, 10, p, cosine=0.8)
    assert gmm_flow.aligned_when_learned(10 * std**2 * 500, p) == pytest.approx(0.8)


def test_partial_labels_reach_from_two_labels_to_one_for_each_cluster():
    d, k = 1000, 8
    assert feature_averaging.partial_radius(d, 1) == feature_averaging.largest_radius(d)
    assert feature_averaging.partial_radius(d, k / 2) == pytest.approx(
        feature_averaging.critical_radius(d, k)
    )
    # the boundary between two labels that average s features each, from a centre
    mu = math.sqrt(d) * np.eye(d)[:6]
    direction = (mu[:3].sum(axis=0) - mu[3:].sum(axis=0)) / d
    assert mu[0] @ direction / np.linalg.norm(direction) == pytest.approx(
        feature_averaging.partial_radius(d, 3)
    )


def share(**changes):
    sizes = {"dim": 1000, "positive": 5, "negative": 5, "points": 400, "per_class": 5}
    return feature_averaging.averaging_share(
        feature_averaging.Sizes(**({**sizes, "step_size": 1e-3, "start": 0.0} | changes)), 100
    )


def test_averaging_is_whole_for_small_steps_from_nothing_and_lost_at_either_end():
    assert share() == pytest.approx(1.0, abs=1e-4)
    rates = [share(step_size=rate) for rate in (1e-3, 0.1, 1.0, 10.0, 1e3, 1e5)]
    assert rates == sorted(rates, reverse=True)
    # one step only: own coefficients uniform in [0, 1], the other class's as well, all in units of the first step
    assert rates[-1] == pytest.approx(0.5 / math.sqrt(1 / 4 + 1 / 12 + 1 / 3), rel=1e-6)
    starts = [share(start=start) for start in (1e-5, 1e-3, 1e-2, 1.0)]
    assert starts == sorted(starts, reverse=True)
    assert starts[-1] < 0.01
