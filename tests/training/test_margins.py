import math

import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.networks import ReLU, TwoLayerNet, biased_start
from featureprism.probes import direction_cosines, kkt_audit
from featureprism.training import Loss, gradient_flow, margin_descent, max_margin_network
from featureprism.training.margins import log_loss, margin_ascent, point_weights
from featureprism.training.trajectory import Ended


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_the_log_domain_agrees_where_the_plain_loss_is_finite(loss):
    q = torch.linspace(-4, 40, 23, dtype=torch.float64).requires_grad_()
    plain = Loss(loss).value(q, torch.ones(23).double())
    assert float(log_loss(q, loss).exp().detach()) == pytest.approx(float(plain.detach()), rel=1e-10)
    (slope,) = torch.autograd.grad(plain.log(), q)
    torch.testing.assert_close(point_weights(q.detach(), loss), -slope, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_margins_of_any_size(loss):
    q = torch.tensor([1e6, 1e6 + 1, 1e6 + 700]).double()
    assert float(log_loss(q, loss)) == pytest.approx(-1e6 + math.log((1 + math.exp(-1)) / 3))
    torch.testing.assert_close(point_weights(q, loss), torch.softmax(-q, dim=0), rtol=1e-9, atol=1e-300)


@pytest.fixture
def problem(generator):
    data = sample(orthogonal_clusters(30, 2, 2, 0.5, generator=generator), 24, generator=generator)
    return biased_start(8, 30, 0.3, generator=generator), data.x, data.y


def test_small_steps_follow_gradient_flow(problem):
    """At equal loss the two networks point the same way: the clock is the only difference."""
    net, x, y = problem
    run = gradient_flow(net, x, y, loss=Loss("exponential"), t_end=0.5, step_size=5e-2)
    with torch.no_grad():
        reached, began = (float(log_loss(y * n(x), "exponential")) for n in (run.last, net))
    assert reached < began - 0.5
    ours = margin_descent(net, x, y, step_size=(began - reached) / 1000, steps=1000).last
    with torch.no_grad():
        assert float(log_loss(y * ours(x), "exponential")) == pytest.approx(reached, abs=0.02)
    flat = [torch.cat([p.detach().flatten() for p in n.parameters()]) for n in (ours, run.last)]
    assert float(torch.linalg.vector_norm(flat[0] - flat[1]) / flat[1].norm()) < 1e-2


@pytest.mark.parametrize("method", ["flow", "normalised"])
@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_training_turns_to_the_exact_point(problem, method, loss):
    net, x, y = problem
    run = margin_descent(
        net, x, y, loss=loss, method=method, step_size={"flow": 1.0, "normalised": 0.05}[method], steps=600
    )
    assert float(direction_cosines(run.last, max_margin_network(x, y).net).min()) > 0.98
    with torch.no_grad():
        assert float(log_loss(y * run.last(x), loss)) < -200


def test_the_ascent_comes_closer(problem):
    net, x, y = problem
    rough = margin_descent(net, x, y, method="normalised", step_size=0.1, steps=150).last
    fine = margin_ascent(rough, x, y, sharpness=(30.0, 300.0, 3000.0), iterations=100)
    exact = max_margin_network(x, y)
    best = kkt_audit(exact.net, x, y, tolerance=1e-9).normalised_margin
    shares = [kkt_audit(n, x, y, tolerance=1e-2).normalised_margin / best for n in (rough, fine)]
    assert shares[0] < shares[1] <= 1 + 1e-9
    assert shares[1] > 0.999
    assert float((y * fine(x)).min().detach()) == pytest.approx(1)


def test_silent_networks_say_so(problem):
    _, x, y = problem
    dead = TwoLayerNet(
        torch.zeros(2, 30).double(), torch.ones(2).double(), -torch.ones(2).double(), activation=ReLU()
    )
    assert margin_descent(dead, x, y, step_size=0.1, steps=5).ended is Ended.SILENT


def test_what_cannot_be_trained_is_refused(problem):
    net, x, y = problem
    with pytest.raises(ValueError, match="flow or normalised"):
        margin_descent(net, x, y, method="adam", step_size=0.1, steps=1)
    with pytest.raises(ValueError, match="exponential or logistic"):
        margin_descent(net, x, y, loss="hinge", step_size=0.1, steps=1)
    with pytest.raises(ValueError, match="margin is positive first"):
        margin_ascent(net, x, -y if float((y * net(x)).min().detach()) > 0 else y)
