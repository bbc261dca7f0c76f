"""ℓ2 brackets in a box: brute force in the plane, a closed form, and no less than without the box."""

import math

import pytest
import torch
from asking import asked
from asking import check_point as check

from featureprism.networks import PolynomialReLU, ReLU, TwoLayerNet

BOX = (0.0, 1.0)
CHEAP = {
    "branches": 20,
}


def random_network(seed: int, p: float, num_points: int) -> tuple[TwoLayerNet, torch.Tensor, torch.Tensor]:
    """Six neurons in the plane, points of which some lie on faces of the box."""
    generator = torch.Generator().manual_seed(seed)
    W, a, b = (torch.randn(*shape, generator=generator).double() for shape in ((6, 2), (6,), (6,)))
    net = TwoLayerNet(W, a, 0.5 * b, activation=ReLU() if p == 1 else PolynomialReLU(p))
    x = (1.4 * torch.rand(num_points, 2, generator=generator).double() - 0.2).clamp(*BOX)
    return net, x, torch.sign(net(x))


def nearest_in_box(net: TwoLayerNet, x: torch.Tensor, y: torch.Tensor) -> float:
    """The least distance of a point of a fine grid of the box that flips; inf if none does."""
    side = torch.linspace(*BOX, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    flipped = grid[y * net(grid) <= 0]
    return float(torch.linalg.vector_norm(flipped - x, dim=1).min()) if len(flipped) else math.inf


@pytest.mark.parametrize(("seed", "p"), [(0, 1.0), (1, 1.0), (2, 1.5), (3, 2.0), (4, 3.0)])
@torch.no_grad()
def test_no_point_of_the_box_nearer_than_certified_flips(seed: int, p: float) -> None:
    net, x, y = random_network(seed, p, 4)
    bracket = asked(net, x, y, bounds=BOX, **CHEAP)
    assert bracket.witness is not None
    assert bool((bracket.certified <= bracket.attacked).all())
    for i, certificate in enumerate(bracket.certificates):
        assert float(bracket.certified[i]) <= nearest_in_box(net, x[i], y[i])
        assert check(certificate, net, x[i], float(y[i]))


@torch.no_grad()
def test_a_half_space_in_a_box_is_exact() -> None:
    # y f = 1.2 - x₁ - x₂/4 from (0.9, 0.2): straight ahead lies the face x₁ = 1, then x₂ has to do the rest
    W, b = torch.tensor([[-1.0, -0.25], [0.0, 0.0]]).double(), torch.tensor([11.2, 1.0]).double()
    net = TwoLayerNet(W, torch.tensor([1.0, -10.0]).double(), b, activation=ReLU())
    x, y = torch.tensor([[0.9, 0.2]]).double(), torch.ones(1).double()
    bracket = asked(net, x, y, bounds=BOX, **CHEAP)
    radius = math.hypot(0.1, 0.6)
    assert 0.99 * radius <= float(bracket.certified) <= radius <= float(bracket.attacked) <= 1.01 * radius


@torch.no_grad()
def test_the_box_proves_more_than_is_true_without_it() -> None:
    generator = torch.Generator().manual_seed(0)
    W, a, b = (torch.randn(*shape, generator=generator).double() for shape in ((20, 30), (20,), (20,)))
    net = TwoLayerNet(W, a / 20, 0.3 * b, activation=ReLU())
    x = torch.rand(3, 30, generator=generator).double().round()  # corners of the box
    y = torch.sign(net(x))
    free, boxed = (asked(net, x, y, bounds=box, **CHEAP) for box in (None, BOX))
    assert bool((boxed.certified > free.attacked).all())
    assert bool((boxed.certified >= 0.95 * boxed.attacked).all())
