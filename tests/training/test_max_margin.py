import numpy as np
import pytest
import torch
from scipy.optimize import LinearConstraint, minimize

from featureprism.data import orthogonal_clusters, sample
from featureprism.probes import kkt_audit
from featureprism.training import NotSeparableError, max_margin, max_margin_network


def audited(x, y):
    found = max_margin_network(x, y)
    return found, kkt_audit(
        found.net, x, y, tolerance=1e-9, multipliers=(found.multipliers, found.kink_shares)
    )


@pytest.mark.parametrize(("n", "d"), [(30, 60), (60, 60), (150, 20)])
@pytest.mark.parametrize("sigma", [1.0, 0.1])
def test_the_kkt_conditions_hold_to_rounding(n, d, sigma, generator):
    data = sample(orthogonal_clusters(d, 2, 2, sigma, generator=generator), n, generator=generator)
    found, audit = audited(data.x, data.y)
    assert audit.stationarity < 1e-11
    assert abs(audit.feasibility) < 1e-11
    assert audit.slackness < 1e-11
    assert audit.sum_gap < 1e-11
    assert bool((found.multipliers >= 0).all())


def test_against_a_general_solver(generator):
    """The same convex problem given to scipy's SLSQP, which knows nothing of duals."""
    x = torch.randn(10, 3, generator=generator).double()
    y = torch.where(x[:, 0] + 0.3 * x[:, 1] > 0, 1.0, -1.0).double()
    x[:, 0] += 0.4 * y
    lifted, signs = torch.cat([x, torch.ones(10, 1)], dim=1).numpy(), y.numpy()
    own = np.zeros((20, 8))
    for i in range(10):
        s = 0 if signs[i] > 0 else 1
        own[i, 4 * s : 4 * s + 4] = own[10 + i, 4 * s : 4 * s + 4] = lifted[i]
        own[10 + i, 4 * (1 - s) : 4 * (1 - s) + 4] = -lifted[i]
    norm = lambda u: np.linalg.norm(u[:4]) + np.linalg.norm(u[4:])  # noqa: E731
    start = np.random.default_rng(0).standard_normal(8)
    rough = minimize(
        norm, start, method="SLSQP", constraints=[LinearConstraint(own, 1, np.inf)], options={"maxiter": 500}
    )
    _, audit = audited(x, y)
    assert 1 / (2 * audit.normalised_margin) == pytest.approx(rough.fun, rel=1e-5)


@pytest.mark.parametrize("sigma", [1.0, 0.05])
def test_blocks_and_active_sets_find_the_same_multipliers(sigma, generator):
    data = sample(orthogonal_clusters(80, 2, 3, sigma, generator=generator), 50, generator=generator)
    problem = max_margin._Constraints(data.x.numpy() / 10, data.y.numpy())
    norms = np.array([0.7, 1.3])
    blocks, slowly = problem.least_norm(norms, problem.likely), problem._by_active_sets(norms)
    np.testing.assert_allclose(blocks, slowly, atol=1e-9 * slowly.max())
    assert problem.responses(problem.directions(norms, blocks)).min() == pytest.approx(1, abs=1e-12)


def test_two_points_in_closed_form():
    """x = ±c e: u₊ = (α e, β) with αc + β = 1 has least norm at (c, 1)/(c² + 1), and the other neuron is off there."""
    x = torch.tensor([[2.0, 0.0], [-2.0, 0.0]]).double()
    found = max_margin_network(x, torch.tensor([1.0, -1.0]).double())
    u = found.net.a.abs().unsqueeze(1) * torch.cat([found.net.W, found.net.b.unsqueeze(1)], dim=1)
    torch.testing.assert_close(u.detach(), torch.tensor([[0.4, 0.0, 0.2], [-0.4, 0.0, 0.2]]).double())


def test_duplicates_change_nothing(generator):
    data = sample(orthogonal_clusters(20, 1, 1, 0.5, generator=generator), 12, generator=generator)
    once, _ = audited(data.x, data.y)
    twice, audit = audited(data.x.repeat(2, 1), data.y.repeat(2))
    assert audit.stationarity < 1e-10
    torch.testing.assert_close(once.net.W, twice.net.W, rtol=1e-8, atol=1e-10)


def test_data_that_no_such_network_separates(generator):
    xor = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]).double()
    with pytest.raises(NotSeparableError, match="smallest violation of y N"):
        max_margin_network(xor, torch.tensor([1.0, 1.0, -1.0, -1.0]).double())
    same = torch.randn(1, 5, generator=generator).double().repeat(2, 1)
    with pytest.raises(NotSeparableError, match="points 0, 1"):
        max_margin_network(same, torch.tensor([1.0, -1.0]).double())


def test_random_labels_in_few_dimensions_are_never_certified(generator):
    """Either a network whose margins are all at least 1, or a refusal."""
    for _ in range(20):
        x = torch.randn(14, 2, generator=generator).double()
        y = torch.sign(torch.randn(14, generator=generator)).double()
        try:
            _, audit = audited(x, y)
        except NotSeparableError:
            continue
        assert abs(audit.feasibility) < 1e-6
        assert audit.stationarity < 1e-6


def test_a_class_without_points_is_refused():
    with pytest.raises(ValueError, match="both classes"):
        max_margin_network(torch.ones(3, 2).double(), torch.ones(3).double())
