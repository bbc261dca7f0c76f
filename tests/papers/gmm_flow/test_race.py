import numpy as np
import pytest
import torch

from featureprism.networks import PolynomialReLU, TwoLayerNet, gaussian_start
from featureprism.papers.gmm_flow import race
from featureprism.probes.voronoi import voronoi_region
from featureprism.seeds import generator_for


def descended(net: TwoLayerNet, mu: torch.Tensor, labels: torch.Tensor, step: float) -> TwoLayerNet:
    """The slow twin: gradient descent in small steps on the centres themselves, until all are learned."""
    for _ in range(20_000):
        left = labels - net(mu)
        if float(left.detach().abs().max()) < race.LEARNED:
            break
        slopes = torch.autograd.grad((left**2).sum() / 2, list(net.parameters()))
        with torch.no_grad():
            for value, slope in zip(net.parameters(), slopes, strict=True):
                value -= step * slope
    return net


@pytest.mark.parametrize("std", [0.05, 0.2])
def test_the_race_ends_where_gradient_descent_on_the_centres_does(std):
    mu = torch.eye(4, 30).double()
    labels = torch.tensor([1.0, 1.0, -1.0, -1.0]).double()
    net = gaussian_start(30, 30, std, PolynomialReLU(3.0), generator=generator_for("start", 3))
    start = race.neurons_of(net.W.detach().numpy(), net.a.detach().numpy(), mu.numpy())
    end = race.run_race(start, labels.numpy())
    net = descended(net, mu, labels, 5e-3)
    norms = net.W.norm(dim=1)
    cosines = (net.W @ mu.T / norms.unsqueeze(1)).detach().numpy()
    assert end.masses == pytest.approx((net.a * norms).detach().numpy(), abs=0.05)
    counts = np.abs(end.masses) > 0.05
    assert counts.sum() >= 2
    assert end.cosines[counts] == pytest.approx(cosines[counts], abs=0.05)


def test_two_centres_of_a_class_part_as_the_cube_of_cosh_u(monkeypatch):
    """1/c_l - 1/c_k = (1/c_l - 1/c_k)(0) cosh³ u / cosh³ u(0) while nothing is learned."""
    monkeypatch.setattr(race, "MOST_STEPS", 400)
    monkeypatch.setattr(race, "TURN", 0.01)
    start = race.Neurons(np.array([[0.2, 0.15]]), np.array([0.1]), np.array([1e-12]))
    end = race.run_race(start, np.ones(2))
    assert end.cosines[0, 0] > 0.5

    def gap(neurons):
        return (1 / neurons.cosines[0, 1] - 1 / neurons.cosines[0, 0]) / np.cosh(neurons.growth[0]) ** 3

    assert gap(end) == pytest.approx(gap(start), rel=1e-3)


def test_a_start_in_high_dimension_has_the_law_of_the_whole_network():
    generator = np.random.default_rng(0)
    drawn = race.random_neurons(4000, 100, 3, 0.1, generator)
    net = gaussian_start(4000, 100, 0.1, PolynomialReLU(3.0), generator=generator_for("start", 0))
    whole = race.neurons_of(net.W.detach().numpy(), net.a.detach().numpy(), np.eye(3, 100))
    for one, other in zip(drawn, whole, strict=True):
        assert one.std() == pytest.approx(other.std(), rel=0.06)
        assert one.mean() == pytest.approx(other.mean(), abs=0.01)


def test_votes_larger_than_their_neurons_are_refused():
    with pytest.raises(ValueError, match="less than"):
        race.neurons_of(np.ones((1, 2)), np.array([3.0]), np.eye(2))


@pytest.mark.parametrize(("width", "positive", "negative"), [(10, 2, 3), (30, 4, 2), (1, 1, 1)])
def test_how_often_a_centre_has_no_neuron(width, positive, negative):
    """Against counting regions of random starts."""
    k, draws = positive + negative, 4000
    generator = generator_for("regions", 0)
    shape = torch.randn(draws * width, k, generator=generator, dtype=torch.float64)
    signs = torch.sign(torch.randn(draws * width, generator=generator, dtype=torch.float64))
    labels = torch.cat([torch.ones(positive), -torch.ones(negative)]).double()
    region = voronoi_region(shape, signs, torch.eye(k).double(), labels).reshape(draws, width)
    empty = torch.stack([(region != q).all(dim=1) for q in range(k)], dim=1).any(dim=1)
    expected = race.uncovered(width, positive, negative)
    assert float(empty.double().mean()) == pytest.approx(expected, abs=4 * (expected / draws) ** 0.5 + 1e-3)
