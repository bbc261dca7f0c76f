"""In two and three dimensions the attack is as good as looking everywhere: brute force that shares nothing with it is the truth."""

import math

import numpy as np
import pytest
import torch

from featureprism.attacks import minimal_radius
from featureprism.attacks.boundary import turned, valleys
from featureprism.networks import PolynomialReLU, PowerReLU, ReLU, TwoLayerNet
from featureprism.verify.attack import default_starts

EXACT = 0.002  # relative
CANDIDATES, TRIES, ROUNDS = 16, 12, 25  # of the random search around the shortest rays


def random_network(seed, dim):
    g = torch.Generator().manual_seed(seed)
    width = int(torch.randint(3, 13, (1,), generator=g))
    kind = int(torch.randint(0, 5, (1,), generator=g))
    W, a, b = (torch.randn(*s, generator=g).double() for s in ((width, dim), (width,), (width,)))
    activation = (ReLU(), ReLU(), PowerReLU(1.5), PolynomialReLU(3.0), PolynomialReLU(2.0))[kind]
    net = TwoLayerNet(W, a, None if kind == 3 else b, activation=activation)
    x = torch.randn(4, dim, generator=g).double()
    with torch.no_grad():
        return net, x, torch.where(net(x) >= 0, 1.0, -1.0).double()


def everywhere(dim, count):
    """Unit directions: a circle, or a spiral on the sphere."""
    k = np.arange(count) + 0.25
    if dim == 2:
        return torch.from_numpy(
            np.stack([np.cos(2 * np.pi * k / count), np.sin(2 * np.pi * k / count)], axis=1)
        )
    height, angle = 1 - 2 * k / count, np.pi * (3 - 5**0.5) * k
    width = np.sqrt(1 - height**2)
    return torch.from_numpy(np.stack([width * np.cos(angle), width * np.sin(angle), height], axis=1))


@torch.no_grad()
def brute_force(net, point, label, upper, count):
    """The first flip of `count` rays by scanning outwards, then random search around the shortest."""
    dim = len(point)
    rays, radii = everywhere(dim, count), torch.linspace(upper / 100, upper, 100).double()
    flips = torch.stack([label * net(point + r * rays) <= 0 for r in radii])
    length = torch.where(flips.any(dim=0), radii[flips.to(torch.int8).argmax(dim=0)], torch.inf)
    if not bool(torch.isfinite(length).any()):
        return math.inf
    chosen = length.argsort()[:CANDIDATES]
    unit, best = rays[chosen], length[chosen]
    g, spread = torch.Generator().manual_seed(0), 10.0 / count if dim == 2 else 3.0 / count**0.5
    for _ in range(ROUNDS):
        trial = unit.unsqueeze(1) + spread * torch.randn(len(unit), TRIES, dim, generator=g).double()
        trial = torch.cat([unit.unsqueeze(1), trial / trial.norm(dim=2, keepdim=True)], dim=1)
        high = best.unsqueeze(1).expand(trial.shape[:2])
        ends = (label * net((point + high.unsqueeze(2) * trial).reshape(-1, dim)) <= 0).reshape(high.shape)
        low = 0.9 * high
        for _ in range(22):
            middle = (low + high) / 2
            inside = (label * net((point + middle.unsqueeze(2) * trial).reshape(-1, dim)) <= 0).reshape(
                high.shape
            )
            low, high = torch.where(inside, low, middle), torch.where(inside, middle, high)
        found, which = torch.where(ends, high, torch.inf).min(dim=1)
        better = found < best
        unit = torch.where(better.unsqueeze(1), trial[torch.arange(len(unit)), which], unit)
        best, spread = torch.where(better, found, best), 0.8 * spread
    return float(best.min())


def excesses(dim, seeds, count):
    """How much longer than brute force the attack is, of every point that can be flipped."""
    found = []
    for seed in seeds:
        net, x, y = random_network(seed, dim)
        upper = 4 * float(x.norm(dim=1).max())
        attacked = minimal_radius(net, x, y, starts=default_starts(net, dim), upper=upper).radius
        truth = [brute_force(net, point, label, upper, count) for point, label in zip(x, y, strict=True)]
        found += [float(a) / t - 1 for a, t in zip(attacked, truth, strict=True) if 0 < t < math.inf]
    return np.array(found)


@pytest.mark.parametrize(("dim", "count"), [(2, 900), (3, 1500)])
def test_the_attack_is_exact_in_few_dimensions(dim, count):
    assert excesses(dim, (6,) if dim == 2 else (0,), count).max() <= EXACT


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "count"), [(2, 3600), (3, 6000)])
def test_the_attack_is_exact_on_nearly_all_of_many_points_in_few_dimensions(dim, count):
    found = excesses(dim, range(100, 240), count)
    assert (found <= EXACT).mean() >= 0.995


def test_turning_finds_the_corner_that_sliding_cannot():
    # from |x₁| + ½|x₂| = 1 on the label flips; the side through (1, 0) and (0, 2) is 2/√5 from 0
    W = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0]]).double()
    a, b = (
        torch.tensor([-1.0, -1.0, -0.5, -0.5, 1.0]).double(),
        torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]).double(),
    )
    net = TwoLayerNet(W, a, b, activation=ReLU())
    point, label = torch.zeros(1, 2).double(), torch.ones(1).double()
    with torch.no_grad():
        found = turned(net, point, label, torch.tensor([[0.0, 2.0001]]).double())
    torch.testing.assert_close(found.norm(), torch.tensor(2 / 5**0.5).double(), rtol=1e-5, atol=0)


def test_valleys_are_apart_and_the_shortest_come_first():
    rays, length = everywhere(2, 360).unsqueeze(1), torch.linspace(1, 2, 360).double().unsqueeze(1)
    shortest, which = valleys(length, rays, 4)
    assert shortest.squeeze(1).tolist() == sorted(shortest.squeeze(1).tolist())
    chosen = rays[which.squeeze(1), 0]
    cosines = chosen @ chosen.T - 2 * torch.eye(4).double()
    assert float(cosines.max()) < math.cos(0.1)
