"""Forgetting a point, and other data with the same network."""

import math

import pytest
import torch

from featureprism.networks import ReLU, TwoLayerNet
from featureprism.probes import forget, kkt_audit, other_data
from featureprism.probes.forgetting import approximation
from featureprism.training import max_margin_network


def exact(num_points, dim, generator):
    """Random points and labels, and their exact KKT point."""
    x = torch.randn(num_points, dim, generator=generator, dtype=torch.float64)
    y = torch.where(torch.arange(num_points) % 2 == 0, 1.0, -1.0).double()
    return max_margin_network(x, y).net, x, y


def on_axes():
    """x = ±e_j for labels ±, a neuron for each point without bias: w_j = x_j, v_j = y_j, λ = 1."""
    x = torch.eye(4).double()
    y = torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    return TwoLayerNet(x, y, activation=ReLU()), x, y


def test_forgetting_on_orthogonal_points_is_exact():
    """The step removes the point's own neuron, and what is left is a KKT point of the others to rounding."""
    net, x, y = on_axes()
    found = forget(net, x, y, 2, tolerance=1e-9)
    assert found.multiplier == pytest.approx(1)
    assert found.margin == pytest.approx(0)
    assert found.least == pytest.approx(1)
    assert found.share == pytest.approx(math.sqrt(2 / 8))
    assert float(found.net.W.detach()[2].norm()) == pytest.approx(0)
    assert found.after is not None
    epsilon, delta = approximation(found.after)
    assert epsilon == pytest.approx(0, abs=1e-9)
    assert delta == pytest.approx(0, abs=1e-9)
    assert approximation(found.before)[0] == pytest.approx(
        math.sqrt(2)
    )  # the neuron that nothing explains any more


def test_the_step_is_that_of_autograd(generator):
    """θ - λ_r y_r ∇N(x_r) at least margin 1."""
    net, x, y = exact(6, 40, generator)
    audit = kkt_audit(net, x, y, tolerance=1e-9)
    index = int(audit.multipliers.argmax())
    found = forget(net, x, y, index, tolerance=0.0)
    net(x[index : index + 1]).sum().backward()
    weight = kkt_audit(net, x, y, tolerance=0.0).multipliers[index] * y[index]
    for name in ("W", "a", "b"):
        old = getattr(net, name)
        torch.testing.assert_close(getattr(found.net, name).detach(), (old - weight * old.grad).detach())


def test_a_point_without_multiplier_is_forgotten_by_doing_nothing(generator):
    net, x, y = exact(8, 30, generator)
    far = torch.cat([x, 3 * x[:1]])  # behind another point: its margin is larger
    labels = torch.cat([y, y[:1]])
    found = forget(net, far, labels, 8, tolerance=1e-9)
    assert found.multiplier == pytest.approx(0, abs=1e-12)
    assert found.share == pytest.approx(0, abs=1e-12)
    assert found.before.stationarity < 1e-10


def test_a_twin_takes_over_the_multiplier(generator):
    """Of two equal points either may be dropped: the old network is a KKT point of the rest, and the step does harm."""
    net, x, y = exact(6, 30, generator)
    twins, labels = torch.cat([x, x[:1]]), torch.cat([y, y[:1]])
    multipliers = kkt_audit(net, twins, labels, tolerance=1e-9).multipliers
    index = 0 if multipliers[0] > multipliers[6] else 6
    found = forget(net, twins, labels, index, tolerance=1e-9)
    assert found.before.stationarity < 1e-8
    assert found.after is None or found.after.stationarity > 1e-3
    assert found.least < 0.9


def test_what_cannot_be_forgotten(generator):
    net, x, y = exact(6, 30, generator)
    with pytest.raises(ValueError, match="numbered from 0 to 5"):
        forget(net, x, y, 6)
    with pytest.raises(ValueError, match="only point"):
        forget(net, x[:1], y[:1], 0)


@pytest.mark.parametrize("distance", [0.5, 20.0])
def test_two_data_sets_one_network(distance, generator):
    """Directions that no neuron sees: any length, both residuals below 1e-8."""
    net, x, y = exact(10, 25, generator)
    other = other_data(net, x, y, generator=generator, distance=distance)
    assert float(other.moved.max()) == pytest.approx(distance)
    assert len(other.y) > len(y)
    for points, labels in ((x, y), (other.x, other.y)):
        audit = kkt_audit(net, points, labels, tolerance=1e-9)
        assert audit.stationarity < 1e-8
        assert audit.slackness < 1e-8
        assert abs(audit.feasibility) < 1e-8
    torch.testing.assert_close(other.y, y[other.origin])


def many_neurons():
    """A KKT point whose neurons span all of space, each along a point of its own."""
    x = torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]).double()
    y = torch.tensor([1.0, 1.0, -1.0]).double()
    size = math.sqrt(0.5)
    return TwoLayerNet(x / 2 * size, y * size, activation=ReLU()), x, y


def test_inside_the_cell_when_neurons_see_every_direction():
    """Every neuron but one is on its kink for each point: no point can move, and this is said."""
    net, x, y = many_neurons()
    assert kkt_audit(net, x, y, tolerance=1e-9).stationarity < 1e-12
    with pytest.raises(ValueError, match="determine"):
        other_data(net, x, y, generator=torch.Generator().manual_seed(0))


def test_moves_within_the_cell(generator):
    """More neurons than dimensions: a point moves along its level line, no farther than its cell goes."""
    x = torch.tensor([[2.0, 1.0], [-2.0, -1.0]]).double()
    y = torch.tensor([1.0, -1.0]).double()
    root = (1 / (4 * 5)) ** 0.25  # two copies of each sign share the norm
    W = root * torch.stack([x[0], x[0], x[1], x[1]]) / math.sqrt(5)
    extra = (
        torch.tensor([[-1.0, 2.0]]).double() * 1e-9
    )  # a neuron that votes with nothing, but sees the other direction
    net = TwoLayerNet(
        torch.cat([W, extra]), root * torch.tensor([1.0, 1.0, -1.0, -1.0, 0.0]).double(), activation=ReLU()
    )
    other = other_data(net, x + torch.tensor([-0.1, 0.2]).double(), y, generator=generator, distance=5.0)
    assert 0 < float(other.moved.max()) < 5
    torch.testing.assert_close(
        y[other.origin] * net(other.x).detach(), y[other.origin] * net(x[other.origin]).detach()
    )


def test_a_line_determines_its_points():
    net = TwoLayerNet(
        torch.tensor([[1.0], [-1.0]]).double(), torch.tensor([1.0, -1.0]).double(), activation=ReLU()
    )
    x, y = torch.tensor([[1.0], [-1.0]]).double(), torch.tensor([1.0, -1.0]).double()
    with pytest.raises(ValueError, match="determine"):
        other_data(net, x, y, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="positive"):
        other_data(net, x, y, generator=torch.Generator().manual_seed(0), distance=0.0)
