"""KKT points by activation pattern, against closed forms and the solver for one neuron a class."""

import math

import pytest
import torch

from featureprism.data import class_labels, equicorrelated_centres
from featureprism.networks import ReLU, TwoLayerNet, biased_start
from featureprism.probes import kkt_audit
from featureprism.training import (
    NotSeparableError,
    flow_limit,
    margin_descent,
    max_margin_network,
    pattern_point,
)

BOTH = torch.tensor([1.0, -1.0]).double()


def random_problem(num, dim, generator):
    x = torch.randn(num, dim, generator=generator).double()
    return x, torch.where(torch.arange(num) % 2 == 0, 1.0, -1.0).double()


def test_one_neuron_a_class_is_the_max_margin_network(generator):
    x, y = random_problem(12, 30, generator)
    point = pattern_point(x, y, BOTH, y.unsqueeze(1) == BOTH)
    best = max_margin_network(x, y).net
    ours, theirs = (kkt_audit(net, x, y, tolerance=1e-9) for net in (point.net, best))
    assert ours.stationarity < 1e-12
    assert ours.normalised_margin == pytest.approx(theirs.normalised_margin, rel=1e-10)


def test_one_neuron_a_cluster_in_closed_form(generator):
    """Means with ⟨μ, μ'⟩ < -1: w_q = λv μ_q, b_q = λv with λ = v² = (d + 1)^(-1/2)."""
    mu, y = equicorrelated_centres(6, 400, 20.0, -0.01, generator=generator), class_labels(3, 3)
    point = pattern_point(mu, y, y, torch.eye(6).bool())
    assert point.num_changes == 0
    assert point.net.a.abs().tolist() == pytest.approx([401**-0.25] * 6)
    assert point.multipliers.tolist() == pytest.approx([401**-0.5] * 6)
    order = [int((mu @ w).argmax()) for w in point.net.W.detach()]
    torch.testing.assert_close(point.net.W.detach(), 401**-0.75 * mu[order])
    audit = kkt_audit(point.net, mu, y, tolerance=1e-9, multipliers=(point.multipliers, point.kink_shares))
    assert audit.stationarity < 1e-13


def test_orthogonal_means_leave_one_neuron_a_class(generator):
    """Its bias opens the neuron of one cluster to the others of its class."""
    mu, y = equicorrelated_centres(6, 400, 20.0, 0.0, generator=generator), class_labels(3, 3)
    point = pattern_point(mu, y, y, torch.eye(6).bool())
    assert len(point.net.a) == 2
    assert point.num_changes > 0


@pytest.mark.parametrize("seed", range(4))
def test_every_pattern_of_a_random_network_leads_to_a_kkt_point(seed):
    generator = torch.Generator().manual_seed(seed)
    x, y = random_problem(14, 6, generator)
    W = torch.randn(12, 6, generator=generator).double()
    signs = torch.cat([torch.ones(6), -torch.ones(6)]).double()
    try:
        point = pattern_point(x, y, signs, x @ W.T > -0.5)
    except NotSeparableError:
        return
    audit = kkt_audit(point.net, x, y, tolerance=1e-9, multipliers=(point.multipliers, point.kink_shares))
    assert audit.stationarity < 1e-9
    assert abs(audit.feasibility) < 1e-9
    assert audit.slackness < 1e-9
    assert bool((point.multipliers >= 0).all())


def test_the_flow_creeps_towards_its_limit(generator):
    """The margin rises towards that of the pattern's KKT point, which stays the same."""
    mu, y = equicorrelated_centres(8, 100, 10.0, -0.08, generator=generator), class_labels(4, 4)
    start = biased_start(20, 100, 0.1, generator=generator)
    run = margin_descent(start, mu, y, step_size=0.5, steps=1600, record=(200, 1600))
    margins = [kkt_audit(net, mu, y, tolerance=1e-2).normalised_margin for net in run.snapshots]
    limits = [
        kkt_audit(flow_limit(net, mu, y).net, mu, y, tolerance=1e-9).normalised_margin
        for net in run.snapshots
    ]
    assert margins[0] < margins[1] < limits[1]
    assert limits[0] == pytest.approx(limits[1], rel=1e-9)


def test_a_pattern_that_sees_nothing_of_a_point_separates_nothing():
    x, y = torch.eye(3).double(), torch.tensor([1.0, 1.0, -1.0]).double()
    pattern = torch.tensor([[True, False], [False, False], [False, True]])
    with pytest.raises(NotSeparableError):
        pattern_point(x, y, BOTH, pattern)


def test_labels_are_checked():
    with pytest.raises(ValueError, match="abel"):
        pattern_point(torch.eye(2).double(), torch.tensor([0.0, 1.0]).double(), BOTH, torch.ones(2, 2).bool())


def test_two_neurons_of_one_pattern_are_one():
    x, y = 2 * torch.eye(2).double(), torch.tensor([1.0, -1.0]).double()
    net = TwoLayerNet(
        torch.cat([x, x]),
        torch.tensor([1.0, -1.0, 1.0, -1.0]).double(),
        torch.zeros(4).double(),
        activation=ReLU(),
    )
    limit = flow_limit(net, x, y)
    assert len(limit.net.a) == 2
    assert math.isclose(float((y * limit.net(x).detach()).min()), 1.0)
