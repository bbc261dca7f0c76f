"""Rates along the dimension at a small size."""

from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.papers.feature_purification.scaling import SCALING
from papers.feature_purification.sizes import BATTERY, small

TINY = {
    id: [replace(s, dim=dim) for s, dim in zip(settings, (30, 40, 50), strict=True)]
    for id, settings in small(SCALING, BATTERY).items()
}


def test_sizes_follow_the_rates_of_the_theorems():
    for sizes in SCALING.scales.values():
        assert [s.sparsity / 5 for s in sizes] == pytest.approx([(s.dim / 100) ** 0.36 for s in sizes])
        assert [s.c0 for s in sizes] == pytest.approx([0.2386] * len(sizes), abs=2e-3)
        times = [s.adversarial_time / s.sparsity**2 for s in sizes]
        assert times == pytest.approx([12] * len(sizes), rel=0.02)


def test_exponents_are_slopes_by_seed():
    rows = Rows.gather(
        {"kind": "size", "seed": seed, "dim": d, "drift": 3.0 * d**power}
        for seed, power in ((0, -0.5), (1, 0.25))
        for d in (50, 100, 200)
    )
    (claim,) = (claim for claim in SCALING.claims if claim.name == "drift")
    assert claim.value(rows).exponents.tolist() == pytest.approx([-0.5, 0.25])
