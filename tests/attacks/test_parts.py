"""Parts of the attacks, each against a plane or a corner where the answer is known."""

import math
from types import SimpleNamespace

import pytest
import torch

from featureprism.attacks.boundary import _nearest, flips_near, shorter_of
from featureprism.attacks.minimum_norm import Flips, TargetMargins, _descend, _fmn, _random, _Search
from featureprism.attacks.radius import RIVALS, _drawn_in
from featureprism.geometry import Box, LpBall
from featureprism.networks import ReLU, TwoLayerNet


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_the_shorter_of_two_is_shorter_in_the_norm_that_is_asked():
    """(0.9, 0.9) is 1.27 long in ℓ2 and 1.13 in ℓ3, beside a witness of length 1.2."""
    corner = lambda z: 0.9 - z.amin(dim=1)  # noqa: E731
    witness, trial = rows([1.2, 0.0]), rows([0.9, 0.9])
    best, brought = shorter_of(corner, torch.zeros(1, 2).double(), torch.ones(1).double(), witness, trial)
    assert torch.equal(best, witness)
    torch.testing.assert_close(brought, trial, rtol=1e-3, atol=0)
    best, _ = shorter_of(
        corner, torch.zeros(1, 2).double(), torch.ones(1).double(), witness, trial, norm=math.inf
    )
    torch.testing.assert_close(best, trial, rtol=1e-3, atol=0)


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("level", [0.5, -0.5, 2.0, -2.0])
def test_the_nearest_point_of_a_plane_within_bounds_lies_on_it(level, norm):
    gradient, wide = rows([3.0, 4.0]), torch.full((1, 2), 10.0).double()
    for box in (None, Box(-wide, wide)):
        delta = _nearest(gradient, torch.tensor([level]).double(), box, norm)
        assert float((gradient * delta).sum()) == pytest.approx(level)
        length = abs(level) / (5 if norm == 2 else 7)
        assert float(torch.linalg.vector_norm(delta, ord=norm)) == pytest.approx(length)


@torch.no_grad()
def test_flips_near_a_perturbation_need_convex_parts():
    """f = [x₁]₊ - [x₂]₊ at (1, 0): the nearest flip is (½, ½), √½ away."""
    net = TwoLayerNet(rows([1.0, 0.0], [0.0, 1.0]), rows(1.0, -1.0), rows(0.0, 0.0), activation=ReLU())
    z, y, delta = rows([1.0, 0.0]), rows(1.0), rows([-0.4, 0.4])
    found, length = flips_near(net, z, y, delta)
    assert float(net(z + found).detach()) <= 0
    assert math.sqrt(0.5) <= float(length) < 1.1 * math.sqrt(0.5)
    same, length = flips_near(lambda z: net(z), z, y, delta)
    assert torch.equal(same, delta)
    assert float(length) == math.inf


class TwoPlanes(torch.nn.Module):
    """Flips beyond x₁ = 3 and below x₂ = -1; nothing leads from one to the other along the boundary."""

    def forward(self, z):
        return torch.minimum(3 - z[:, 0], 1 + z[:, 1])

    def input_gradient(self, z):
        first = (3 - z[:, 0]) < (1 + z[:, 1])
        e = torch.eye(z.shape[1], dtype=z.dtype)
        return self(z), torch.where(first.unsqueeze(1), -e[0], e[1])


def test_the_shortest_of_the_starts_is_drawn_in():
    z, y = torch.zeros(1, 5).double(), torch.ones(1).double()
    far, near = rows([3.0, 0, 0, 0, 0]), rows([0, -1.01, 0, 0, 0])
    rays = torch.stack([near] * RIVALS)
    found = _drawn_in(TwoPlanes(), z, y, far, rays, LpBall(2, 10.0))
    assert float(found.norm()) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_random_starts_lie_in_the_unit_ball_on_all_sides(norm):
    x = torch.zeros(1, 400).double()
    search = object.__new__(_Search)
    for name, value in (("x", x), ("norm", norm), ("margins", SimpleNamespace(target=torch.tensor([1])))):
        object.__setattr__(search, name, value)
    place, weights = _random(search, torch.zeros(3, dtype=torch.long), torch.arange(3), 3)
    assert place.shape == (3, 400)
    assert weights is not None
    assert weights.shape == (3, 3)
    assert len({tuple(row.tolist()) for row in place}) == 3
    assert float(place.abs().max()) <= 1
    assert float((place > 0).double().mean()) == pytest.approx(0.5, abs=0.06)
    if norm == 2:
        torch.testing.assert_close(place.norm(dim=1), torch.ones(3).double())
    else:
        assert float(place.abs().max()) > 0.95


def plane_search(reach):
    """Scores (1 - z₁, 0): the boundary of the first class is at z₁ = 1."""
    zero = torch.zeros(1, 3).double()

    def scores(z):
        return torch.stack([1 - z[:, 0], 0 * z[:, 0]], dim=1)

    one, other = torch.tensor([0]), torch.tensor([1])
    margins = TargetMargins.of(scores, one, other, 2, 8)
    return _Search(margins, zero, torch.tensor([0]), 2.0, None, torch.tensor([reach]).double())


def test_fast_minimum_norm_ends_at_a_plane_within_its_reach():
    flips = Flips(torch.tensor([math.inf]).double(), torch.zeros(1, 3).double(), torch.tensor([0]))
    _fmn(plane_search(5.0), rows([0.0, 2.0, 0.0]), torch.tensor([0]), flips)
    assert 1 <= float(flips.length[0]) < 1.01


def test_a_descent_without_weights_is_along_the_margin():
    least, _, other = _descend(plane_search(5.0), rows([0.0, 0.0, 0.0]), torch.tensor([2.0]).double(), 20)
    assert float(least[0]) == pytest.approx(-1.0, abs=1e-3)  # at z₁ = 2
    assert int(other[0]) == 1
