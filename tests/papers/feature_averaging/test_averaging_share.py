"""Predictions of our own, against the dynamics they were derived from."""

import math

import numpy as np
import pytest

from featureprism.papers.feature_averaging import theory as feature_averaging


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
