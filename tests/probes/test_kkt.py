import itertools
import math

import pytest
import torch
from scipy.optimize import nnls

from featureprism.networks import ReLU, Tanh, TwoLayerNet
from featureprism.probes import direction_cosines, kkt_audit
from featureprism.probes.kkt import _Gradients, _solver, _steady, cluster_sums, summed_neurons
from featureprism.training import max_margin_network


def two_points(distance):
    """Points ±c e₁ without biases: the KKT point is u₊ = e₁/c, u₋ = -e₁/c, λ = 1/c² each."""
    x = torch.tensor([[distance, 0.0], [-distance, 0.0]], dtype=torch.float64)
    w = math.sqrt(1 / distance)
    W = torch.tensor([[w, 0.0], [-w, 0.0]], dtype=torch.float64)
    return (
        TwoLayerNet(W, torch.tensor([w, -w], dtype=torch.float64), activation=ReLU()),
        x,
        torch.tensor([1.0, -1.0]).double(),
    )


@pytest.mark.parametrize("distance", [0.3, 1.0, 40.0])
def test_a_kkt_point_known_in_closed_form(distance):
    net, x, y = two_points(distance)
    audit = kkt_audit(net, x, y)
    torch.testing.assert_close(audit.multipliers, torch.full((2,), 1 / distance, dtype=torch.float64))
    assert audit.stationarity < 1e-12
    assert abs(audit.feasibility) < 1e-12
    assert audit.slackness < 1e-12
    assert audit.balance < 1e-12
    assert audit.sum_gap < 1e-12
    assert audit.normalised_margin == pytest.approx(distance / 4)
    assert int(audit.support.sum()) == 2
    assert audit.on_kink == 0


def test_the_audit_does_not_depend_on_the_scale_of_the_network():
    net, x, y = two_points(2.0)
    larger = TwoLayerNet(3 * net.W, 3 * net.a, activation=ReLU())
    torch.testing.assert_close(kkt_audit(net, x, y).multipliers, kkt_audit(larger, x, y).multipliers)
    assert kkt_audit(larger, x, y).feasibility == pytest.approx(1 - 9)


@pytest.mark.parametrize("part", ["W", "a"])
def test_a_disturbed_network_is_no_kkt_point(part):
    net, x, y = two_points(1.0)
    with torch.no_grad():
        getattr(net, part)[0] += 0.1
    assert kkt_audit(net, x, y).stationarity > 0.01


def test_gradients_are_those_of_autograd(generator):
    """θ - Σ λ_i y_i ∇N(x_i), by hand, against the residual of the audit."""
    x = torch.randn(7, 4, generator=generator).double()
    net = TwoLayerNet(
        torch.randn(3, 4, generator=generator).double(),
        torch.tensor([1.0, -0.5, 2.0]).double(),
        torch.randn(3, generator=generator).double(),
        activation=ReLU(),
    )
    x = x[(net(x) != 0).detach()]
    y = torch.sign(net(x)).detach()
    off, on = torch.rand(len(y), generator=generator).double(), torch.zeros(len(y)).double()
    with torch.no_grad():
        root = float((y * net(x)).min()) ** 0.5
        scaled = TwoLayerNet(net.W / root, net.a / root, net.b / root, activation=ReLU())
    total = (off * y * scaled(x)).sum()
    slopes = torch.autograd.grad(total, list(scaled.parameters()))
    parts = [(p - g).detach() for p, g in zip(scaled.parameters(), slopes, strict=True)]
    size = math.sqrt(sum(float((p.detach() ** 2).sum()) for p in scaled.parameters()))
    audit = kkt_audit(net, x, y, tolerance=0.0, multipliers=(off + on, on))
    expected = [float(p.norm()) / size for p in parts]
    assert [audit.stationarity_w, audit.stationarity_v, audit.stationarity_b] == pytest.approx(expected)


def test_the_fit_is_the_best_of_many_multipliers(generator):
    x = torch.randn(12, 3, generator=generator).double()
    net = TwoLayerNet(
        torch.randn(4, 3, generator=generator).double(),
        torch.tensor([1.0, -1.0, 0.5, -2.0]).double(),
        torch.randn(4, generator=generator).double(),
        activation=ReLU(),
    )
    y = torch.where(net(x) > 0, 1.0, -1.0).double().detach()
    keep = (net(x).abs() > 1e-9).detach()
    x, y = x[keep], y[keep]
    best = kkt_audit(net, x, y, tolerance=0.0)
    zero = torch.zeros(len(y)).double()
    for _ in range(200):
        other = (best.multipliers + 0.1 * torch.randn(len(y), generator=generator).double()).clamp_min(0)
        assert (
            kkt_audit(net, x, y, tolerance=0.0, multipliers=(other, zero)).stationarity
            >= best.stationarity - 1e-12
        )


def test_kinks_need_fractional_derivatives(generator):
    """Random clusters put opposite points on kinks; with derivatives 0 or 1 the exact point does not look like one."""
    x = torch.randn(40, 12, generator=generator).double()
    y = torch.where(x[:, 0] > 0, 1.0, -1.0).double()
    x[:, 0] += 0.5 * y
    net = max_margin_network(x, y).net
    free, hard = (kkt_audit(net, x, y, tolerance=t).stationarity for t in (1e-9, 0.0))
    assert free < 1e-9
    assert hard > 1e-4


def on_three_kinks(generator):
    """Random points, half of them orthogonal to three of four neurons, and a network that is right on all of them."""
    W = torch.randn(4, 7, generator=generator).double()
    x = torch.randn(10, 7, generator=generator).double()
    basis = torch.linalg.qr(W[:3].T).Q
    x[:5] -= x[:5] @ basis @ basis.T
    net = TwoLayerNet(W, torch.tensor([1.0, -1.0, 0.5, 2.0]).double(), activation=ReLU())
    kept = (net(x).abs() > 1e-3).detach()
    x = x[kept]
    return net, x, torch.sign(net(x)).detach()


def every_gradient(net, x, y):
    """θ and, as columns, y ∇N(x) for every choice of off and on of the kink neurons of every point, by hand."""
    root = float((y * net(x)).min().detach()) ** 0.5
    W, v = net.W.detach() / root, net.a.detach() / root
    columns = []
    for point, label in zip(x, y, strict=True):
        z = W @ point
        kinks = torch.nonzero(z.abs() < 1e-9)[:, 0].tolist()
        for on in itertools.product((0.0, 1.0), repeat=len(kinks)):
            active = (z > 1e-9).double()
            active[kinks] = torch.tensor(on).double()
            rows = label * (v * active).unsqueeze(1) * point
            columns.append(torch.cat([rows.flatten(), label * z.clamp_min(0)]))
    return torch.cat([W.flatten(), v]), torch.stack(columns, dim=1)


def test_every_pair_on_a_kink_has_its_own_derivative(generator, monkeypatch):
    """The least residual over mixtures of all 2^r gradients of a point, by non-negative least squares over all of them."""
    gains = []
    for _ in range(20):
        net, x, y = on_three_kinks(generator)
        theta, columns = every_gradient(net, x, y)
        least = nnls(columns.numpy(), theta.numpy())[1] / float(theta.norm())
        audit = kkt_audit(net, x, y, tolerance=1e-9)
        assert audit.on_kink == 3 * int(((x @ net.W[0]).abs() < 1e-9).sum())
        assert audit.stationarity == pytest.approx(least, rel=0.02)
        assert float(audit.on_kink_share.min()) >= 0
        assert float(audit.on_kink_share.max()) <= 1 + 1e-12
        with monkeypatch.context() as patched:
            patched.setattr("featureprism.probes.kkt.ROUNDS", 0)  # one derivative for all neurons of a point
            gains.append(kkt_audit(net, x, y, tolerance=1e-9).stationarity - audit.stationarity)
    assert min(gains) >= -1e-9
    assert max(gains) > 1e-4


def test_two_kinks_of_one_point_with_two_derivatives_in_closed_form():
    """x₀ = e₀ is on the kinks of two neurons; θ is made of λ = 1 and derivatives ¼ and ¾ there, beside two points of their own."""
    x = torch.tensor([[1.0, 0.0, 0.0], [0.25, 1.0, -0.5], [0.75, -0.5, 1.0]]).double()
    y = torch.tensor([-1.0, 1.0, 1.0]).double()
    W = x[1:] - torch.tensor([[0.25], [0.75]]).double() * x[0]  # λ x₁ - λ φ x₀: orthogonal to x₀
    assert (W @ x[0]).abs().max() == 0
    gradients = _Gradients(W, torch.ones(2).double(), x, y, 1e-9)
    weights, shares = gradients.fit()
    rows, _ = gradients.residual(
        torch.ones(3).double(), torch.tensor([[0.25, 0.75], [0, 0], [0, 0]]).double()
    )
    assert rows.abs().max() < 1e-12
    torch.testing.assert_close(shares[0] * weights[0], weights[1:] * torch.tensor([0.25, 0.75]).double())


def test_cluster_sums_of_the_closed_form():
    """One point a cluster at distance c: S_own = λ v² = 1/c², the other sign 0."""
    net, x, y = two_points(2.0)
    sums = cluster_sums(net, x, y, torch.tensor([0, 1]), kkt_audit(net, x, y))
    torch.testing.assert_close(sums, torch.tensor([[0.25, 0.0], [0.0, 0.25]]).double())


def test_splitting_neurons_changes_nothing():
    net, x, y = two_points(1.0)
    half = math.sqrt(0.5)
    split = TwoLayerNet(half * net.W.repeat(2, 1), half * net.a.repeat(2), activation=ReLU())
    torch.testing.assert_close(summed_neurons(split), summed_neurons(net))
    torch.testing.assert_close(direction_cosines(split, net), torch.ones(2).double())
    assert kkt_audit(split, x, y).stationarity < 1e-12


def test_what_cannot_be_audited_is_refused():
    net, x, y = two_points(1.0)
    with pytest.raises(ValueError, match="on 2 of 2 points"):
        kkt_audit(net, x, -y)
    with pytest.raises(ValueError, match="tolerance"):
        kkt_audit(net, x, y, tolerance=-0.1)
    with pytest.raises(ValueError, match="ReLU"):
        kkt_audit(TwoLayerNet(net.W, net.a, activation=Tanh()), x, y)


@pytest.mark.parametrize(
    "beyond", [0.0, 1e-9]
)  # within the ridge, and so far beyond 1 that no Cholesky factor exists
def test_columns_that_depend_on_each_other_still_solve_for_what_they_span(beyond):
    gram = torch.tensor([[1.0, 1.0 + beyond], [1.0 + beyond, 1.0]], dtype=torch.float64)
    assert bool(torch.linalg.cholesky_ex(_steady(gram)).info) == (beyond > 0)
    target = torch.tensor([2.0, 2.0]).double()
    assert torch.allclose(gram @ _solver(gram)(target), target, atol=1e-6)
