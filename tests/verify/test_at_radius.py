"""Proofs at one radius: never beyond the truth, and what they prove is granted by the checker."""

import pytest
import torch
from asking import asked
from asking import check_point as check

from featureprism.networks import SymmetricNet, symmetric_start
from featureprism.networks.symmetric import pure_net, unsmoothed


def test_without_smoothing_the_network_is_a_sum_of_shifted_relus(generator):
    net = symmetric_start(5, 3, 1.0, 0.4, 0.0, generator=generator, dtype=torch.float64)
    x = torch.randn(20, 3, generator=generator).double()
    assert torch.allclose(unsmoothed(net)(x), net(x), atol=1e-12)


def test_a_point_is_proven_below_its_radius_and_not_above():
    """One neuron ReLU(x₁ - b) - ReLU(-x₁ - b): y f = x₁ - b up to the distance x₁ - b, then 0."""
    plain = unsmoothed(SymmetricNet(torch.tensor([[1.0, 0.0]]).double(), 0.5, 0.0))
    x, y = torch.tensor([[1.5, 0.3]]).double(), torch.ones(1).double()
    for eps, expected in ((0.9, True), (0.99, True), (1.01, False)):
        bracket = asked(plain, x, y, eps=eps, branches=64)
        assert bool(bracket.certified[0] >= eps) is expected
        assert bool(bracket.attacked[0] > eps) is expected


def test_proofs_hold_against_every_perturbation_tried_and_pass_the_checker(generator):
    W = torch.eye(6).double() + 0.15 * torch.randn(6, 6, generator=generator).double()
    plain = unsmoothed(SymmetricNet(torch.cat([W, 0.8 * W]), 0.3, 0.0))
    x = torch.randn(12, 6, generator=generator).double()
    y = torch.sign(plain(x).detach())
    eps, keep = 0.25, y != 0
    x, y = x[keep], y[keep]
    bracket = asked(plain, x, y, eps=eps, branches=40)
    proven = bracket.certified >= eps
    assert bool(proven.any())
    tried = torch.randn(3000, 6, generator=generator).double()
    tried = eps * tried / torch.linalg.vector_norm(tried, dim=1, keepdim=True)
    for point, label, holds, certificate in zip(x, y, proven, bracket.certificates, strict=True):
        if holds:
            assert float((label * plain(point + tried)).detach().min()) > 0
            assert check(certificate, plain, point, float(label))


def test_a_symmetric_network_has_a_bracket_where_it_is_not_smoothed():
    """A pure network on one point: radius |x₁| - b, over √1 neurons, if the other coordinates stay closed."""
    net = pure_net(torch.eye(3).double(), torch.ones(3).double(), 1.0)
    x, y = torch.tensor([[1.6, 0.0, 0.0]]).double(), torch.ones(1).double()
    bracket = asked(net, x, y, branches=20)
    assert float(bracket.attacked) == pytest.approx(0.6, rel=1e-3)
    assert 0.59 < float(bracket.certified) <= float(bracket.attacked)
    smooth = SymmetricNet(net.W, 1.0, 0.1)
    assert asked(smooth, x, y).method == ("not certified yet",)
