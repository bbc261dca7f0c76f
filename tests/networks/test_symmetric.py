"""The symmetric network: closed forms against autograd, oddness, one bias or one for each neuron."""

import pytest
import torch

from featureprism.geometry import LpBall
from featureprism.networks import SymmetricNet, symmetric_start
from featureprism.networks.low_complexity import CubicNet, IndicatorClassifier, PolynomialKernel, TangentNet
from featureprism.networks.symmetric import pure_net, reachable, unsmoothed
from featureprism.probes.purification import firing


def net(smoothing: float, generator, dtype=torch.float64) -> SymmetricNet:
    return symmetric_start(7, 5, 0.4, 0.3, smoothing, generator=generator, dtype=dtype)


@pytest.mark.parametrize("s", [0.0, 0.01, 0.06, 0.2])
def test_closed_gradient_is_autograd_and_f_is_odd(s, generator):
    f, x = net(s, generator), torch.randn(30, 5, generator=generator).double()
    value, gradient = f.input_gradient(x)
    points = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(f(points).sum(), points)
    assert torch.allclose(value, f(x).detach(), atol=1e-12)
    assert torch.allclose(gradient, expected, atol=1e-9)
    assert torch.allclose(f(-x), -f(x), atol=1e-12)
    assert torch.allclose(f.slopes(x) @ f.W, gradient, atol=1e-9)


def test_sampled_noise_averages_to_the_smoothed_network(generator):
    f, x = net(0.2, generator), torch.randn(3, 5, generator=generator).double()
    draws = torch.stack([f.sampled(x, generator=generator) for _ in range(4000)])
    assert torch.allclose(
        draws.mean(dim=0), f(x).detach(), atol=5 * float(draws.std(dim=0).max()) / 4000**0.5
    )
    assert net(0.0, generator).sampled(x, generator=generator).shape == (3,)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_neurons_with_a_bias_each_are_a_sum_of_networks_of_one_neuron(dtype, generator):
    W, b = torch.randn(6, 5, generator=generator).to(dtype), torch.linspace(0.2, 40.0, 6).to(dtype)
    x, ball = torch.randn(40, 5, generator=generator).to(dtype), LpBall(2, 0.3)
    for s in (0.0, 0.02):
        f = SymmetricNet(W, b, s)
        alone = [SymmetricNet(w.unsqueeze(0), float(own), s) for w, own in zip(W, b, strict=True)]
        expected = [sum(parts) for parts in zip(*(one.input_gradient(x) for one in alone), strict=True)]
        for found, wanted in zip(f.input_gradient(x), expected, strict=True):
            assert torch.allclose(found, torch.as_tensor(wanted), atol=1e-5)
        near = reachable(f, x, ball)
        assert near.width < 6
        assert torch.allclose(near(x), f(x), atol=1e-5)
        assert torch.equal(firing(f, x), torch.cat([firing(one, x) for one in alone]))
    assert torch.allclose(unsmoothed(SymmetricNet(W, b, 0.0))(x), SymmetricNet(W, b, 0.0)(x), atol=1e-5)
    assert SymmetricNet(W, b, 0.1).level == pytest.approx(20.1)


def test_coordinates_of_a_basis(generator):
    f = net(0.1, generator)
    basis = torch.linalg.qr(torch.randn(5, 5, generator=generator).double())[0]
    x = torch.randn(6, 5, generator=generator).double()
    assert torch.allclose(f.in_coordinates(basis)(x @ basis), f(x), atol=1e-12)


def test_the_pure_network_is_the_soft_classifier(generator):
    M = torch.linalg.qr(torch.randn(6, 6, generator=generator).double())[0]
    w = torch.tensor([1.0, -1, 1, 1, -1, -1]).double()
    x = torch.randn(20, 6, generator=generator).double()
    u = x @ M
    expected = ((torch.relu(u - 0.3) - torch.relu(-u - 0.3)) * w).sum(dim=1)
    assert torch.allclose(pure_net(M, w, 0.3)(x), expected, atol=1e-12)


def test_low_complexity_models():
    M, w = torch.eye(4).double(), torch.tensor([1.0, -1, 2, 1]).double()
    x = torch.tensor([[0.2, 0.6, -0.7, 0.1]]).double()
    assert float(IndicatorClassifier(M, w, 0.5)(x)) == pytest.approx(-0.6 - 1.4)
    assert float(CubicNet(M, w, w)(x).detach()) == pytest.approx(
        sum(float(c) * (float(t) + float(t) ** 3) for c, t in zip(w, x[0], strict=True))
    )


@pytest.mark.parametrize("as_printed", [False, True])
def test_tangent_features_are_odd_or_as_printed_even(as_printed, generator):
    W, V = (torch.randn(9, 4, generator=generator).double() for _ in range(2))
    p, x = TangentNet(W, V, 0.5, 0.4, as_printed=as_printed), torch.randn(12, 4, generator=generator).double()
    sign = 1 if as_printed else -1
    assert torch.allclose(p(-x), sign * p(x), atol=1e-10)
    points = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(p(points).sum(), points)
    value, gradient = p.input_gradient(x)
    assert torch.allclose(value, p(x).detach(), atol=1e-12)
    assert torch.allclose(gradient, expected, atol=1e-10)


def test_true_tangent_features_are_the_gradient_of_the_network(generator):
    f, V = net(0.3, generator), torch.randn(7, 5, generator=generator).double()
    x, h = torch.randn(8, 5, generator=generator).double(), 1e-6
    moved = [SymmetricNet(f.W.detach() + step * V, 0.3, 0.3)(x) for step in (h, -h)]
    p = TangentNet(f.W.detach(), V, 0.3, 0.3)
    assert torch.allclose((moved[0] - moved[1]) / (2 * h), p(x), atol=1e-7)


def test_bad_networks_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        SymmetricNet(torch.full((2, 2), float("nan")), 0.1, 0.1)
    with pytest.raises(ValueError, match="one for each of 2 neurons"):
        SymmetricNet(torch.ones(2, 2), torch.ones(3), 0.1)
    with pytest.raises(ValueError, match="at least 0"):
        SymmetricNet(torch.ones(2, 2), -0.1, 0.1)
    with pytest.raises(ValueError, match="smoothing > 0"):
        TangentNet(torch.ones(2, 2), torch.ones(2, 2), 0.1, 0.0)


def test_neurons_out_of_reach_change_nothing(generator):
    W = torch.randn(40, 6, generator=generator).double()
    W[::2] *= 1e-3
    x, ball = torch.randn(50, 6, generator=generator).double(), LpBall(2, 0.3)
    delta = ball.stretch(torch.randn(50, 6, generator=generator).double())
    for smoothing in (0.0, 0.02):
        whole = SymmetricNet(W, 0.3, smoothing)
        part = reachable(whole, x, ball)
        assert part.width < whole.width
        assert torch.allclose(part(x + delta), whole(x + delta), atol=1e-12)
    dead = SymmetricNet(1e-3 * W, 0.3, 0.02)
    assert reachable(dead, x, ball).width == dead.width


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_polynomial_kernel_is_odd_of_its_degree_and_fits_what_it_can(degree, generator):
    x = torch.randn(60, 3, generator=generator).double()
    model = PolynomialKernel(x, degree)
    expected = ((1 + 0.3) ** degree - (1 - 0.3) ** degree) / 2
    assert float(model._kernel(torch.tensor(0.3).double())[0]) == pytest.approx(expected)
    y = (x**degree).sum(dim=1)  # odd, of this degree
    features = model._kernel(x @ x.T)[0] @ model.root
    with torch.no_grad():
        model.v.copy_(torch.linalg.lstsq(features, y.unsqueeze(1)).solution.squeeze(1))
    new = torch.randn(20, 3, generator=generator).double()
    assert torch.allclose(model(new), (new**degree).sum(dim=1), atol=1e-3)
    assert torch.allclose(model(-new), -model(new), atol=1e-9)
    points = new.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(points).sum(), points)
    assert torch.allclose(model.input_gradient(new)[1], slope, atol=1e-8)
    with pytest.raises(ValueError, match="odd degree"):
        PolynomialKernel(x, 2)
