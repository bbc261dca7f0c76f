"""Deep networks with one output, and the papers' image MLP: proven sides against witnesses, brute force and the checker."""

import itertools
import math

import pytest
import torch

import featureprism as fp
from featureprism.verify import check_point as check
from featureprism.verify import margin_radius
from featureprism.networks import MLP
from featureprism.networks.deep import ImageMLP, image_network


def random_mlp(depth: int, dim: int, seed: int = 0) -> MLP:
    g = torch.Generator().manual_seed(seed)
    widths = [dim, *[6] * (depth - 1), 1]
    return MLP([torch.randn(b, a, generator=g).double() for a, b in itertools.pairwise(widths)])


@pytest.mark.parametrize("norm", [2, math.inf])
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_an_mlp_has_a_proven_side_that_brute_force_respects(depth, norm, generator):
    net = random_mlp(depth, 2, seed=depth)
    x = torch.randn(4, 2, generator=generator).double()
    with torch.no_grad():
        y = torch.where(net(x) > 0, 1.0, -1.0).double()
    bracket = margin_radius(net, x, y, norm=norm, seconds_per_point=math.inf, max_cells=4)
    right = bracket.attacked > 0
    assert bool((bracket.certified[right] > 0).all())
    assert set(bracket.method) <= {"deep", "crown", "norm product", "misclassified"}
    angle = torch.arange(720).double() * math.pi / 360
    ring = torch.stack([angle.cos(), angle.sin()], dim=1)
    ring = ring / torch.linalg.vector_norm(ring, ord=norm, dim=1, keepdim=True)
    for i in torch.nonzero(right)[:, 0].tolist():
        for share in (0.25, 0.5, 0.75, 1 - 1e-9):
            near = x[i] + share * float(bracket.certified[i]) * ring
            with torch.no_grad():
                assert bool((y[i] * net(near) > 0).all())
        assert check(bracket.certificates[i], net, x[i], float(y[i]))
        assert not check(bracket.certificates[i], net, x[i], -float(y[i]))


def test_the_two_doors_agree_on_an_mlp(generator):
    net = random_mlp(3, 3)
    x = torch.randn(3, 3, generator=generator).double()
    with torch.no_grad():
        y = torch.where(net(x) > 0, 1.0, -1.0).double()
    one = margin_radius(net, x, y, seconds_per_point=math.inf, max_cells=4)
    two = fp.robust_radius(net, x, (y > 0).long(), seconds_per_point=math.inf, max_cells=4)
    assert bool((one.certified <= two.attacked * (1 + 1e-9)).all())
    assert bool((two.certified <= one.attacked * (1 + 1e-9)).all())


def test_no_cells_leave_norms_and_lines(generator):
    net = random_mlp(4, 5)
    x = torch.randn(3, 5, generator=generator).double()
    with torch.no_grad():
        y = torch.where(net(x) > 0, 1.0, -1.0).double()
    bracket = margin_radius(net, x, y, max_cells=0)
    assert set(bracket.method) <= {"crown", "norm product", "misclassified"}


def test_the_image_mlp_is_proven(generator):
    net = image_network("mlp", (1, 4, 4), 3, factor=0.03, generator=generator).double()
    assert isinstance(net, ImageMLP)
    x = torch.rand(3, 16, generator=generator).double()
    with torch.no_grad():
        y = net(x.reshape(3, 1, 4, 4)).argmax(dim=1)
    bracket = fp.robust_radius(net.layers, x, y, domain=(0.0, 1.0), seconds_per_point=math.inf, max_cells=2)
    assert bool((bracket.certified > 0).all())
    assert set(bracket.method) <= {"deep", "crown", "norm product"}
