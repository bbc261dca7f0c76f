from dataclasses import replace

import pytest
import torch

from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.not_clustered import (
    NOT_CLUSTERED,
    HalfspaceSetting,
    first_coordinates,
    max_margin_linear,
)

TINY = {
    "double-edged/not-clustered": [
        replace(setting, dim=400, points=points, patterns=1, starts=1, test_points=5000)
        for setting, points in zip(NOT_CLUSTERED.settings("quick"), (10, 20, 40), strict=True)
    ]
}


def test_max_margin_of_two_points():
    """x = ±(1, 0): w = (1, 0) and no bias."""
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).double()
    assert max_margin_linear(x, torch.tensor([1.0, -1.0]).double()).tolist() == pytest.approx([1.0, 0.0, 0.0])


def test_max_margin_is_stationary():
    """Every margin is at least 1, and the weights are a sum of points with margin 1."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 30, generator=generator, dtype=torch.float64)
    y = torch.sign(x[:, 0])
    weights = max_margin_linear(x, y)
    lifted = y.unsqueeze(1) * torch.cat([x, torch.ones(12, 1).double()], dim=1)
    margins = lifted @ weights
    assert float(margins.min()) == pytest.approx(1.0, abs=1e-6)
    support = lifted[margins < 1 + 1e-6]
    solved = torch.linalg.lstsq(support.T, weights).solution
    assert support.T @ solved == pytest.approx(weights, abs=1e-6)
    assert (solved > 0).all()


def test_the_law_of_halfspaces_by_brute_force():
    """Equal multipliers: the sum of all points times their labels, drawn many times."""
    dim, points, generator = 4000, 200, torch.Generator().manual_seed(1)
    s = HalfspaceSetting(dim=dim, points=points, margin=2.0)
    wrong, draws, tests = 0.0, 4, 400
    for _ in range(draws):
        y = torch.tensor([1.0, -1.0]).double().repeat(points // 2)
        x = torch.randn(points, dim, generator=generator, dtype=torch.float64)
        x[:, 0] = first_coordinates(s, y, generator)
        new_y = torch.tensor([1.0, -1.0]).double().repeat(tests // 2)
        new = torch.randn(tests, dim, generator=generator, dtype=torch.float64)
        new[:, 0] = first_coordinates(s, new_y, generator)
        wrong += float((new_y * (new @ (y @ x)) <= 0).double().mean()) / draws
    law = theory.halfspace_error(dim, points, 2.0)
    assert wrong == pytest.approx(law, abs=0.03)
    assert theory.halfspace_points(dim, law, 2.0) == pytest.approx(points)
