"""The grouped network and its read-out against loops and autograd."""

import math

import pytest
import torch

from featureprism.networks import BinaryReadout, grouped_start
from featureprism.networks.constructions import shared_features_net
from featureprism.networks.grouped import GroupedNet, summed_readout

LABELS = torch.tensor([1.0, 1.0, -1.0]).double()


@pytest.fixture
def net(generator):
    return grouped_start(3, 2, 6, 1.0, generator=generator)


@pytest.fixture
def x(generator):
    return torch.randn(9, 6, generator=generator).double()


def test_logits_are_means_over_groups(net, x):
    for i in range(9):
        for j in range(3):
            expected = sum(max(0.0, float(net.W[j, r].detach() @ x[i])) for r in range(2)) / 2
            assert float(net(x)[i, j].detach()) == pytest.approx(expected)
    stacked = GroupedNet(torch.stack([net.W, 2 * net.W]))
    torch.testing.assert_close(stacked(x)[1], 2 * net(x))
    torch.testing.assert_close(stacked[1].W, 2 * net.W)
    torch.testing.assert_close(net.equivalent_weights()[1], (net.W[1, 0] + net.W[1, 1]).detach() / 2)


def test_the_readout_has_the_sign_of_the_probabilities(net, x):
    readout = BinaryReadout(net, LABELS)
    p = net(x).softmax(dim=1)
    difference = p[:, 0] + p[:, 1] - p[:, 2]
    assert torch.equal(readout(x) > 0, difference > 0)
    torch.testing.assert_close(readout(x), torch.log((p[:, 0] + p[:, 1]) / p[:, 2]))


def test_closed_gradients_are_autograd(net, x):
    readout = BinaryReadout(net, LABELS)
    x = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(readout(x).sum(), x)
    value, gradient = readout.input_gradient(x.detach())
    torch.testing.assert_close(gradient, expected)
    torch.testing.assert_close(value, readout(x).detach())
    y = torch.where(torch.arange(9) % 2 == 0, 1.0, -1.0).double()
    P, slope_P, N, slope_N = readout.convex_parts(x.detach(), y)
    torch.testing.assert_close(P - N, y * value)
    torch.testing.assert_close(slope_P - slope_N, y.unsqueeze(1) * gradient)
    basis = torch.linalg.qr(net.W.detach().reshape(6, 6).T).Q
    torch.testing.assert_close(readout.in_coordinates(basis)(x.detach() @ basis), value)


def test_parts_are_convex(net, generator):
    readout = BinaryReadout(net, LABELS)
    a, b = (2 * torch.randn(200, 6, generator=generator).double() for _ in range(2))
    y = torch.ones(200).double()
    middle, left, right = (readout.convex_parts(p, y) for p in ((a + b) / 2, a, b))
    for part in (0, 2):
        assert bool((middle[part] <= (left[part] + right[part]) / 2 + 1e-12).all())


def test_shared_features_are_their_formula():
    mu = math.sqrt(5) * torch.eye(5).double()[:4]
    labels = torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    W = shared_features_net(mu, labels).W[:, 0]
    torch.testing.assert_close(W[0], 2 * mu[0] + mu[1])
    torch.testing.assert_close(W[3], mu[2] + 2 * mu[3])


def test_bad_labels_are_refused(net):
    with pytest.raises(ValueError, match="label"):
        BinaryReadout(net, torch.ones(2).double())
    with pytest.raises(ValueError, match="Both"):
        BinaryReadout(net, torch.ones(3).double())
    with pytest.raises(ValueError, match="weights"):
        GroupedNet(torch.full((1, 1, 2), math.nan))


def test_three_read_outs_of_one_network(generator):
    net = GroupedNet(torch.randn(5, 2, 7, generator=generator).double())
    labels = torch.tensor([1.0, 1.0, -1.0, -1.0, -1.0]).double()
    x = torch.randn(40, 7, generator=generator).double()
    logits = net(x).detach()
    largest = BinaryReadout(net, labels, "max")
    torch.testing.assert_close(largest(x).detach(), logits[:, :2].amax(dim=1) - logits[:, 2:].amax(dim=1))
    summed = summed_readout(net, labels)(x).detach()
    torch.testing.assert_close(summed, logits[:, :2].sum(dim=1) - logits[:, 2:].sum(dim=1))
    z = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(largest(z).sum(), z)
    value, gradient = largest.input_gradient(x)
    torch.testing.assert_close(value, largest(x).detach())
    torch.testing.assert_close(gradient, slope)
    basis = torch.linalg.qr(torch.randn(7, 7, generator=generator).double()).Q
    torch.testing.assert_close(largest.in_coordinates(basis)(x @ basis), largest(x))
    with pytest.raises(ValueError, match="read-out"):
        BinaryReadout(net, labels, "median")
