"""Gates: closed forms against quadrature and slow twins, both number types, all of them and few."""

import math

import pytest
import torch

from featureprism.networks.gates import FEW, gates, normal_cdf, openings, smoothed_relu, smoothed_step


@pytest.mark.parametrize("s", [0.05, 0.3, 2.0])
def test_smoothed_relu_is_the_gaussian_average(s):
    rho, u = torch.linspace(-9, 9, 20001).double(), torch.linspace(-3, 3, 13).double()
    density = torch.exp(-(rho**2) / 2) / math.sqrt(2 * math.pi)
    average = torch.trapezoid(torch.relu(u.unsqueeze(1) + s * rho) * density, rho, dim=1)
    assert torch.allclose(smoothed_relu(u, s), average, atol=1e-6)
    assert torch.allclose(smoothed_relu(u, s) - smoothed_relu(-u, s), u, atol=1e-12)


def test_smoothed_relu_at_zero_its_slope_and_its_tail():
    u = torch.linspace(-2, 2, 9).double().requires_grad_()
    (slope,) = torch.autograd.grad(smoothed_relu(u, 0.4).sum(), u)
    assert torch.allclose(slope, smoothed_step(u.detach(), 0.4), atol=1e-12)
    zero = torch.zeros(1).double()
    assert float(smoothed_relu(zero, 0.4)) == pytest.approx(0.4 / math.sqrt(2 * math.pi))
    far = torch.tensor([-20.0, -1e6]).double()
    assert float(normal_cdf(far)[0]) == pytest.approx(2.7536241186062e-89, rel=1e-6)
    assert float(smoothed_relu(far, 1.0)[0]) > 0
    assert float(smoothed_relu(far, 1.0)[1]) == 0
    assert torch.equal(smoothed_relu(u.detach(), 0.0), torch.relu(u.detach()))


@pytest.mark.parametrize("bias", [0.0, 0.1, 0.39, 0.4, 0.6, 5.0])
def test_single_precision_gates_are_the_slow_twin(bias, generator):
    u, s = torch.randn(700, 11, generator=generator) * 0.5, 0.08
    value, opened = gates(u.clone(), bias, s)
    up, down = u.double() - bias, -u.double() - bias
    assert torch.allclose(opened.double(), smoothed_step(up, s) + smoothed_step(down, s), atol=1e-6)
    slow = (smoothed_relu(up, s) - smoothed_relu(down, s)).sum(dim=1)
    assert torch.allclose(value.double(), slow, atol=1e-5)


@pytest.mark.parametrize("by_neuron", [False, True])
def test_few_openings_are_what_all_gates_give(by_neuron, generator):
    u, table = torch.randn(300, 40, generator=generator) * 0.2, torch.randn(300, 40, generator=generator)
    bias, s = 0.5 + 0.1 * torch.rand(40, generator=generator), 0.01
    value, opened = gates(u.clone(), bias, s)
    few = openings(u, bias, s, by_neuron=by_neuron)
    assert few is not None
    assert 0 < len(few.row) < FEW * u.numel()
    point, neuron = (few.column, few.row) if by_neuron else (few.row, few.column)
    assert torch.allclose(torch.zeros(300).index_add_(0, point, few.value), value, atol=1e-6)
    assert torch.allclose(torch.zeros_like(u).index_put_((point, neuron), few.open), opened, atol=1e-6)
    product = opened.T @ table if by_neuron else opened @ table[:40]
    assert torch.allclose(few.sums(few.open, table, len(product)), product, atol=1e-5)


def test_openings_are_left_to_the_gates_where_they_are_many_or_exact(generator):
    u = torch.randn(30, 4, generator=generator)
    assert openings(u, 0.1, 0.01) is None
    assert openings(u.double(), 5.0, 0.01) is None
    assert openings(u, 5.0, 1.0) is None
    assert openings(u, 5.0, 0.0) is None
    none = openings(u, 50.0, 0.01)
    assert none is not None
    assert torch.equal(none.sums(none.open, torch.ones(4, 3), 30), torch.zeros(30, 3))


@pytest.mark.parametrize("bias", [0.1, 0.4, 0.9])
def test_double_precision_gates_are_exact_far_in_the_tail(bias, generator):
    u, s = torch.randn(50, 3, generator=generator).double() * 0.01, 0.08
    value, opened = gates(u.clone(), bias, s)
    expected = smoothed_step(u - bias, s) + smoothed_step(-u - bias, s)
    assert torch.allclose(opened, expected, rtol=1e-6, atol=0)
    assert torch.allclose(
        value, (smoothed_relu(u - bias, s) - smoothed_relu(-u - bias, s)).sum(dim=1), rtol=1e-4
    )


@pytest.mark.parametrize("scale", [0.02, 0.3, 3.0])
def test_double_precision_leaves_a_half_out_only_where_it_is_a_rounding_error(scale, generator):
    u = scale * torch.randn(40, 30, generator=generator).double()
    bias, s = 0.3, 0.02
    up, down = u - bias, -u - bias
    value = (smoothed_relu(up, s) - smoothed_relu(down, s)).sum(dim=1)
    found = gates(u.clone(), bias, s)
    assert torch.allclose(found.value, value, rtol=1e-9, atol=1e-200)
    assert torch.allclose(found.open, smoothed_step(up, s) + smoothed_step(down, s), rtol=1e-6, atol=1e-49)
