"""How large C must be."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from featureprism.lab import Rows
from featureprism.papers.feature_amplification import theory
from featureprism.papers.feature_amplification.critical_c import (
    CRITICAL_C,
    logistic_fit,
    on_every_edge,
    smallest_constant,
)

TINY = {
    CRITICAL_C.id: [
        replace(s, points=12, width=8, dim=40, runs=2)
        for s in CRITICAL_C.settings("quick")
        if s.constant in (4.0, 12.2, 16.0, 24.0)
    ]
}


def shares(curve, constants, steps):
    return [
        {
            "kind": "share",
            "seed": 0,
            "runs": 10_000,
            "steps": steps,
            "constant": C,
            "share": curve(math.log(C)),
        }
        for C in constants
    ]


def test_the_smallest_constant_is_where_a_logistic_curve_passes():
    def curve(x):
        return 1 / (1 + math.exp(-2 - 3 * (x - math.log(8))))

    wanted = 8 * math.exp((math.log(4) - 2) / 3)
    rows = shares(curve, (4.0, 6.0, 9.0, 12.0), 2)
    assert smallest_constant(Rows.gather(rows)) == pytest.approx(wanted, rel=1e-3)
    # it does not get there before the number of steps jumps, and is above the level from then on
    low = shares(lambda x: curve(x) / 2, (4.0, 6.0, 9.0, 12.0), 2)
    high = shares(lambda _: 0.95, (16.0, 20.0), 3)
    assert smallest_constant(Rows.gather(low + high)) == 16.0
    assert smallest_constant(Rows.gather(low)) == math.inf
    assert smallest_constant(Rows.gather(high)) == 16.0


def test_a_logistic_fit_is_the_most_likely(generator):
    x = np.linspace(0, 2, 6)
    share = torch.rand(6, generator=generator).double().numpy()
    runs = np.full(6, 30.0)
    height, slope = logistic_fit(x, share, runs)

    def loss(height, slope):
        chance = 1 / (1 + np.exp(-height - slope * x))
        k, n = share * runs + 0.5, runs + 1
        return -(k * np.log(chance) + (n - k) * np.log(1 - chance)).sum() + 1e-3 * slope**2 / 2

    least = minimize(lambda b: loss(*b), [0.0, 0.0], tol=1e-10)
    assert (height, slope) == pytest.approx(tuple(least.x), abs=1e-4)


@pytest.mark.parametrize("C", [3.0, 4.0, 7.3, 16.0, 24.0])
def test_every_assumption_is_met_with_no_room(C):
    s = on_every_edge(C, 1)
    assert all(premise.holds for premise in theory.assumptions(s, C))
    assert any(not premise.holds for premise in theory.assumptions(s, 1.001 * C))
    smaller = [replace(s, **{name: getattr(s, name) - 2}) for name in ("dim", "width", "points")]
    assert all(any(not p.holds for p in theory.assumptions(other, C)) for other in smaller)
