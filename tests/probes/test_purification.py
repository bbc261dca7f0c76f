"""Purity, mixtures, tickets: neurons built to have known values."""

import math

import pytest
import torch
from sklearn.metrics import roc_auc_score

from featureprism.data import SparseCoding, dictionary, label_weights, sample_sparse, two_level
from featureprism.networks import SymmetricNet, symmetric_start
from featureprism.networks.symmetric import pure_net
from featureprism.papers.feature_purification.theory import expected_tickets
from featureprism.probes import lottery, purification
from featureprism.seeds import generator_for


def problem(dim=20, kind="haar"):
    return SparseCoding(
        dictionary(kind, dim, generator=generator_for("M", 0), dtype=torch.float64),
        label_weights("signs", dim, generator=generator_for("w", 0), dtype=torch.float64),
        two_level(dim, 4.0),
        noise=0.1,
    )


def mixed(coding, alpha=2.0, beta=0.05):
    """Neuron j is α w*_j M_j + β Σ_{j' ≠ j} w*_j' M_j'."""
    dim = len(coding.w)
    coefficients = torch.full((dim, dim), beta).double().fill_diagonal_(alpha)
    return (coefficients * coding.w) @ coding.M.T


def test_the_decomposition_finds_what_was_put_in():
    coding = problem()
    parts = purification.mixture(mixed(coding), coding)
    assert torch.equal(parts.own, torch.eye(20, dtype=torch.bool))
    assert parts.mean_beta == pytest.approx(0.05)
    assert parts.largest_beta == pytest.approx(0.05)
    assert parts.relative_mass == pytest.approx(19 * 0.05 / 2)
    assert (purification.mixture(mixed(coding), coding, num=3).own.sum(dim=1) == 3).all()


def test_purity_of_pure_dense_and_mixed_neurons():
    coding = problem()
    dense = coding.dense_direction.unsqueeze(0)
    W = torch.cat([3 * coding.M[:, :1].T, dense])
    assert purification.purity(W, coding.M).tolist() == pytest.approx([1.0, 20**-0.5])
    assert purification.weighted_purity(W, coding.M) == pytest.approx((9 + 20 * 20**-0.5) / 29)
    assert purification.share_along(dense, coding.dense_direction) == pytest.approx(1.0)
    assert purification.share_along(coding.M.T, coding.dense_direction) == pytest.approx(1 / 20)
    assert purification.weighted_mean(torch.tensor([1.0, 0.0]).double(), W) == pytest.approx(9 / 29)


def test_cosines_turning_and_drift(generator):
    W, V = (torch.randn(6, 4, generator=generator).double() for _ in range(2))
    slow = sum(float(W[i] @ W[j]) ** 2 for i in range(6) for j in range(6)) / float((W**2).sum()) ** 2
    kept = sum(float(W[i] @ V[i]) ** 2 for i in range(6))
    kept /= sum(float(W[i] @ W[i]) * float(V[i] @ V[i]) for i in range(6))
    found = purification.turning(W, V)
    assert found.together == pytest.approx(slow)
    assert found.from_start == pytest.approx(kept)
    assert purification.same_direction(W, -2 * W).tolist() == pytest.approx([1.0] * 6)
    assert len(purification.pairwise(W)) == 15
    assert purification.drift(1.5 * W, W) == pytest.approx(0.25)


def test_the_parts_of_a_drift_are_those_that_were_put_in_and_add_up(generator):
    coding, before = problem(), mixed(problem())
    norm = float((before**2).sum())
    pure = mixed(coding, beta=0.0)
    assert purification.drift_parts(pure, before, coding) == pytest.approx((0, 20 * 19 * 0.05**2 / norm, 0))
    smaller = mixed(coding, alpha=1.5)
    assert purification.drift_parts(smaller, before, coding) == pytest.approx((20 * 0.25 / norm, 0, 0))
    moved = before + 0.1 * torch.randn(20, 20, generator=generator).double()
    parts = purification.drift_parts(moved, before, coding)
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(purification.drift(moved, before))


def test_participation_and_support():
    coding = problem()
    delta = torch.stack([coding.dense_direction, coding.M[:, 3]])
    assert purification.participation(delta, coding.M).tolist() == pytest.approx([20.0, 1.0])
    z = torch.zeros(2, 20).double()
    z[:, 3] = 1
    assert purification.mass_on_support(delta, z, coding.M).tolist() == pytest.approx([1 / 20, 1.0])


def test_firing_and_the_linearisation_gap():
    net = SymmetricNet(torch.tensor([[1.0, 0.0], [0.0, 0.0]]).double(), 0.5, 0.0)
    x = torch.tensor([[1.0, 0.0], [0.1, 0.0], [-2.0, 0.0], [0.0, 3.0]]).double()
    assert purification.firing(net, x).tolist() == [0.5, 0.0]
    inside = torch.full((4, 2), 0.05).double()
    assert float(purification.linearisation_gap(net, x, inside).max()) < 1e-12
    across = torch.tensor([[-0.8, 0.0]]).double()
    assert float(purification.linearisation_gap(net, x[:1], across)) == pytest.approx(0.3)


def test_the_pull_is_the_derivative_of_the_loss(generator):
    coding = problem()
    s = sample_sparse(coding, 50, generator=generator)
    net = symmetric_start(5, 20, 0.3, 0.2, 0.1, generator=generator, dtype=torch.float64)
    pull = purification.pull_to_dense(net, s.x, s.y, coding.dense_direction)
    h, i = 1e-6, 2

    def loss(shift: float) -> float:
        W = net.W.detach().clone()
        W[i] += shift * coding.dense_direction
        with torch.no_grad():
            return float(torch.nn.functional.softplus(-s.y * SymmetricNet(W, 0.2, 0.1)(s.x)).mean())

    assert float(pull[i]) == pytest.approx((loss(-h) - loss(h)) / (2 * h), rel=1e-5)


def test_pure_features_are_pulled_to_the_dense_direction(generator):
    coding = problem(60, "identity")
    s = sample_sparse(coding, 3000, generator=generator)
    pull = purification.pull_to_dense(
        pure_net(coding.M, coding.w, 0.2, 0.04), s.x, s.y, coding.dense_direction
    )
    assert bool((pull > 0).all())


def test_all_four_conditions_of_regular_neurons():
    """d = 100, σ_w = 1: each row but the first breaks one condition of S_ept."""
    coding, log = problem(100, "identity"), math.log(100)
    t = lottery.Thresholds(2.4, 0.02, math.sqrt(2.4 * log), 100)
    W = torch.full((5, 100), 0.5).double()
    W[:, :10] = 0.0
    W[1] *= 4  # ‖w‖² = 360 > 2d
    W[2, 50:53] = 4.0  # three coefficients above √((c1 - c2) ln d)
    W[3, 50:80] = 2.08  # more than 2^-√ln d of them above √(2 √ln d)
    W[4, :10] = 0.5  # none below 1/ln d
    assert lottery.tickets(W, coding, t, few=3).regular.tolist() == [True, False, False, False, False]


def test_large_neurons_and_their_mixtures():
    coding = problem(20, "haar")
    A = torch.zeros(3, 20).double()
    A[0, 3], A[1, 5], A[2, 7] = 1.0, 0.8, 0.1
    A += 0.01
    W = (A * coding.w) @ coding.M.T
    large = purification.large_neurons(W, coding)
    assert large.number == 2
    assert large.beta == pytest.approx(0.01)
    assert large.alpha == pytest.approx((1.01 + 0.81) / 2)
    assert large.ratio == pytest.approx((0.01 / 1.01 + 0.01 / 0.81) / 2)


def test_expected_numbers_of_tickets(generator):
    coding = problem(30, "identity")
    t = lottery.Thresholds(2.0, 0.3, math.sqrt(2.0 * math.log(30)), 30)  # σ_w = 1
    W = torch.randn(20000, 30, generator=generator).double()
    found = lottery.tickets(W, coding, t)
    expected = expected_tickets(20000, 30, t.high, t.low)
    assert float(found.sure.sum()) / 30 == pytest.approx(expected.sure, rel=0.1)
    assert float(found.potential.sum()) / 30 == pytest.approx(expected.potential, rel=0.05)


def test_predictions_and_their_quality(generator):
    coding = problem(20, "identity")
    W = torch.zeros(2, 20).double()
    W[0, 4], W[0, 7] = -2 * coding.w[4], 1.0 * coding.w[7]
    feature, value = lottery.predicted_feature(W, coding)
    assert int(feature[0]) == 7
    assert float(value[0]) == 1.0
    assert int(lottery.learned_feature(W, coding)[0]) == 4
    score = torch.randn(50, generator=generator).double().round(decimals=1)
    label = torch.randn(50, generator=generator) > 0
    assert lottery.ranking_quality(score, label) == pytest.approx(roc_auc_score(label.numpy(), score.numpy()))
    assert math.isnan(lottery.ranking_quality(score, torch.ones(50, dtype=torch.bool)))
