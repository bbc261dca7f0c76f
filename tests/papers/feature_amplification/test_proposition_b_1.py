"""Rademacher complexity by ascent."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.lab.context import Context
from featureprism.papers.feature_amplification.proposition_b_1 import PROPOSITION_B_1, Signs, largest_sums

TINY = {PROPOSITION_B_1.id: [replace(s, draws=3) for s in PROPOSITION_B_1.settings("quick")]}


def test_the_complexity_never_passes_the_bound_of_the_proposition():
    """A lower estimate against a proven upper bound, for any data: Proposition B.1."""
    for law in ("gaussian", "exponential"):
        s = Signs.on_edge(16.0, dim=6, points=20, width=2, sigma=2.0, law=law, draws=30, test_points=1)
        row = PROPOSITION_B_1.measure(s, 0, Context())[0]
        assert row["complexity"] <= row["bound"]


def test_largest_sums_never_pass_those_of_a_grid_of_directions(generator):
    x = torch.randn(12, 2, generator=generator).double()
    signs = torch.randint(2, (20, 12), generator=generator).double() * 2 - 1
    angle = torch.linspace(0, 2 * math.pi, 2000, dtype=torch.float64)
    exact = (signs @ torch.relu(x @ torch.stack([angle.cos(), angle.sin()]))).amax(dim=1).clamp_min(0)
    found = largest_sums(x, signs, torch.randn(16, 2, generator=generator).double())
    assert bool((found <= exact * 1.001).all())
    assert float((found / exact)[exact > 1].min()) > 0.9  # maxima may sit where a point is switched off


def test_largest_sums_of_points_at_their_centres_by_hand(generator):
    cluster = torch.randint(4, (30,), generator=generator)
    centres = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).double()
    signs = torch.randint(2, (20, 30), generator=generator).double() * 2 - 1
    sums = torch.stack([signs[:, cluster == c].sum(dim=1) for c in range(4)])
    wanted = [math.hypot(max(a, b, 0), max(c, d, 0)) for a, b, c, d in sums.T.tolist()]
    starts = torch.tensor([[u, v] for u in (1, 0, -1) for v in (1, 0, -1) if u or v]).double()
    assert largest_sums(centres[cluster], signs, starts).tolist() == pytest.approx(wanted)
