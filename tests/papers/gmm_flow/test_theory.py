import math

import pytest
import torch

from featureprism.data import orthonormal_clusters, sample_balanced
from featureprism.papers.gmm_flow import theory
from featureprism.seeds import generator_for


def setting(**changes):
    sizes = {"dim": 400, "positive": 5, "negative": 5, "alpha": 0.1, "per_cluster": 100}
    return theory.OrthonormalGMM(**(sizes | changes))


def test_lemma_1_holds_for_every_matrix(generator):
    for _ in range(500):
        rows, columns = torch.randint(1, 6, (2,), generator=generator).tolist()
        values = torch.randn(rows, columns, generator=generator) + 2 * torch.randn(1, generator=generator)
        values[torch.rand(rows, columns, generator=generator) < 0.1] = 0
        assert theory.lemma_1_count(values) >= min(rows, columns)
    assert theory.lemma_1_count(torch.ones(2, 5)) == 5
    assert theory.lemma_1_count(-torch.ones(2, 5)) == 2


def test_proposition_1_is_the_share_of_the_smaller_class():
    assert theory.proposition_1(setting(positive=12, negative=8)) == 0.4


def test_proposition_2_is_vacuous_exactly_below_its_critical_nu():
    critical = 8 * 0.1 * math.sqrt(math.log(40) / 2000)
    assert theory.proposition_2(setting(dim=2000, positive=12, negative=8), 0.999 * critical).is_vacuous
    bound = theory.proposition_2(setting(dim=2000, positive=12, negative=8), 2 * critical)
    assert not bound.is_vacuous
    assert bound.probability == pytest.approx(1 - 40 * 40.0**-4)
    assert bound.radius == pytest.approx((math.sqrt(2) - 2 * critical) / 2)


def test_proposition_3_needs_closeness_and_says_so():
    assert theory.proposition_3(setting(alpha=0.05, positive=2, negative=2), 0.003).radius == pytest.approx(
        (math.sqrt(2) - 8 * 0.003 ** (1 / 3)) / 2
    )
    assert all(p.holds for p in theory.proposition_3_premises(setting(), 0.003))
    assert not all(p.holds for p in theory.proposition_3_premises(setting(), 0.006))


@pytest.mark.parametrize("p", [2.5, 3.0, 4.0])
def test_kappa_is_the_largest_difference_per_unit_tilt(p):
    tilt, phi = 1e-6, torch.linspace(-math.pi / 2, math.pi / 2, 200_001).double()
    gap = (torch.cos(phi - tilt).clamp_min(0) ** p - torch.cos(phi).clamp_min(0) ** p).abs().max() / tilt
    assert theory.kappa(p) == pytest.approx(float(gap), rel=1e-4)


def test_nominal_mass_solves_its_equation():
    S0, t, h = 0.003, 2.0, 1e-5
    S = theory.nominal_mass(S0, t)
    slope = (theory.nominal_mass(S0, t + h) - theory.nominal_mass(S0, t - h)) / (2 * h)
    assert slope == pytest.approx(2 * S * (1 - S), rel=1e-6)
    assert theory.nominal_mass(S0, 0.0) == pytest.approx(S0)


def test_one_target_cluster_aligns_as_the_single_equation_says():
    c = torch.tensor([[0.3]]).double()
    field = theory.nominal_alignment_field(c, torch.ones(1).double(), torch.ones(1).double(), 3.0)
    assert float(field) == pytest.approx(3 * 0.3**2 * (1 - 0.3**2))
    # a cluster of the other class repels
    both = torch.tensor([[0.3, 0.2]]).double()
    field = theory.nominal_alignment_field(
        both, torch.ones(1).double(), torch.tensor([1.0, -1.0]).double(), 3.0
    )
    assert float(field[0, 1]) < 0


def test_lemma_17_corrected_bounds_a_tilted_network_and_the_printed_one_does_not():
    # one neuron of norm 1, tilted by a small angle: distance κ·angle, 1 - c = angle²/2
    angle = 0.01
    printed, corrected = theory.lemma_17(1, 3.0, angle**2 / 2, 0.0, 0.0)
    assert printed < theory.kappa(3.0) * angle <= corrected


def test_the_good_event_holds_on_a_good_sample_and_fails_on_a_bad_one():
    clusters = orthonormal_clusters(200, 2, 2, 0.1, generator=generator_for("centres", 1))
    data = sample_balanced(clusters, 50, generator=generator_for("train", 1))
    assert all(premise.holds for premise in theory.good_event(data, 0.1))
    assert not any(premise.holds for premise in theory.good_event(data, 0.01))


def test_theorem_1_premises_read_their_orders():
    good = theory.theorem_1_premises(setting(), 8 * 10 * math.log(0.1))
    assert [p.holds for p in good] == [True] * 5
    paper = theory.theorem_1_premises(setting(dim=1000, per_cluster=500), math.log(1e-7))
    assert [p.holds for p in paper] == [True, True, True, True, False]  # no experiment reaches 1e-80
    assert theory.theorem_1(setting(dim=1000, per_cluster=500)).mean_square == pytest.approx(9e-5)


def test_assumptions_are_checked_on_a_start():
    margin, region = torch.tensor([0.3, 0.2, 0.5]).double(), torch.tensor([0, 1, 0])
    assert [p.holds for p in theory.assumption_2(margin, region, 2)] == [True, True, True]
    assert theory.assumption_2(margin, region, 3)[0].holds is False
    a = torch.tensor([0.5, -2.0]).double()
    W = torch.tensor([[0.3, 0.4], [2.0, 0.0]]).double()
    assert theory.assumption_1(W, a)[0].holds
    assert not theory.assumption_1(1.001 * W, a)[0].holds


def test_times_add_up():
    assert theory.alignment_time(0.1, 3.0) == pytest.approx(10 / 3)
    assert theory.learning_time(-20.0, 0.1, 3.0) == pytest.approx(10 / 3 + 10)


def test_constants_against_numbers_worked_out_by_hand():
    # Proposition 3: 2K exp(-Dν^(2/p)/(2K²α²)) + 4 exp(-3/(8α²)) with K = 2, D = 64, ν = 1/8, p = 3, α = 1: ν^(2/3) = 1/4
    bound = theory.proposition_3(setting(dim=64, alpha=1.0, positive=1, negative=1), 1 / 8)
    assert bound.probability == pytest.approx(1 - 4 * math.exp(-2) - 4 * math.exp(-3 / 8))
    # Proposition 2: ν at least 2√2 α² ln K / D
    least = theory.proposition_2_premises(setting(dim=10, alpha=1.0, positive=2, negative=1), 0.5)[0].required
    assert least == pytest.approx(2 * math.sqrt(2) * math.log(3) / 10)
    # Lemma 4 with K = 2 clusters of 5 points in 4 dimensions, α = 1, δ = 0.05
    clusters = orthonormal_clusters(4, 1, 1, 1.0, generator=generator_for("centres", 2))
    data = sample_balanced(clusters, 5, generator=generator_for("train", 2))
    required = [premise.required for premise in theory.good_event(data, 1.0)]
    assert required == pytest.approx(
        [
            math.sqrt(8 * math.log(16 * 10 / 0.05)),
            math.sqrt(2 * math.log(8 * 4 * 5 / 0.05) / 4),
            math.sqrt(2 * math.log(8 * 2 / 0.05) * 5),
            math.sqrt(8 * math.log(16 * 2 / 0.05) * 5),
            8 * math.log(16 * 2 / 0.05) * 5,
        ]
    )
    # Corollary 1: √2/2 - α^(2/p)
    assert theory.theorem_1(setting(dim=100, alpha=0.027, per_cluster=10)).radius == pytest.approx(
        math.sqrt(0.5) - 0.09
    )


@pytest.mark.parametrize("p", [2.5, 3.0, 4.0])
def test_the_drift_begins_where_its_integral_says(p):
    """∫ S^(1+p/2) dt from the distant past to t, S logistic with S(0) = ½, is t - delay."""
    t = torch.linspace(-20, 10, 300_001).double()
    integral = torch.trapezoid(torch.sigmoid(2 * t) ** (1 + p / 2), t)
    assert 10 - float(integral) == pytest.approx(theory.drift_delay(p), abs=1e-4)


def test_the_drift_is_that_of_the_sample_covariance():
    """u' = -p²Ĉu with the margin of the mean point held at 1, integrated on drawn noise; D = 300, N = 200."""
    dim, num, p = 300, 200, 3.0
    s = setting(dim=dim, alpha=0.3, per_cluster=num, p=p)
    noise = 0.3 / dim**0.5 * torch.randn(num, dim, generator=generator_for("noise", 3)).double()
    mu = torch.zeros(dim).double()
    mu[0] = 1
    centre = mu + noise.mean(dim=0)
    noise = noise - noise.mean(dim=0)
    u, step = centre.clone(), 0.5
    for time in range(1, 401):
        pull = noise.T @ (noise @ u) / num
        u = u - step * p**2 * (pull - (pull @ centre) / (centre @ centre) * centre)
        if time in (40, 400):
            tilt = float(torch.linalg.vector_norm(u[1:]) / u[0])
            predicted = theory.drift_tilt(s, time * step + theory.drift_delay(p))
            assert tilt == pytest.approx(predicted, rel=0.08)  # at the second time x(1+γ) is above 1
    assert theory.drift_tilt(s, 0.0) == pytest.approx(0.3 / num**0.5)


def test_distances_of_a_tilt_and_of_a_mass():
    for p in (2.5, 3.0, 4.0):
        assert theory.tilted_distance(1e-5, 0.0, p) == pytest.approx(1e-5 * theory.kappa(p), rel=1e-3)
        assert theory.tilted_distance(0.0, 0.1, p) == pytest.approx(0.1)
    s = setting(dim=100, alpha=0.1, per_cluster=100)
    late = theory.drift_distance(s, 1.0 + theory.stopping_time(s)) / theory.drift_distance(s, 5.0)
    assert 1.1 < late < 1.6  # √2 of the tilt alone
    assert theory.window_length(setting(p=4.0)) == pytest.approx(100)
    assert theory.window_length(setting(p=3.0)) == pytest.approx(10)


def test_the_largest_of_normal_variables():
    assert theory.expected_maximum(1) == pytest.approx(0.0, abs=1e-6)
    assert theory.expected_maximum(2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-6)
    assert theory.expected_maximum(3) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-6)


def test_the_radius_that_the_bayes_rule_loses_by_brute_force(generator):
    """min_l (1 + ⟨ε, μ_k - μ_l⟩)/√2 over the centres of the other class, for noise drawn along the centres."""
    s = setting(dim=100, positive=3, negative=5)
    noise = 0.1 / 10 * torch.randn(200_000, 8, generator=generator).double()
    lost = []
    for k in range(8):
        others = noise[:, 3:] if k < 3 else noise[:, :3]
        lost.append((others.amax(dim=1) - noise[:, k]).mean() / math.sqrt(2))
    assert theory.bayes_loss(s) == pytest.approx(float(torch.stack(lost).mean()), rel=0.01)


@pytest.mark.parametrize("num_clusters", [2, 20])
def test_the_drifted_distance_is_the_largest_of_the_clusters(num_clusters, generator):
    """Mean noise, drift and mass of each cluster drawn as Gaussian vectors; the largest distance, averaged over draws."""
    s = setting(dim=100, positive=num_clusters // 2, negative=num_clusters // 2, alpha=0.1, per_cluster=100)
    after, draws = 6.0, 100
    x = s.p**2 * s.alpha**2 / s.dim * (after - theory.drift_delay(s.p))
    largest = []
    for _ in range(draws):
        noise = s.alpha / s.dim**0.5 * torch.randn(num_clusters, 100, s.dim, generator=generator).double()
        mean = noise.mean(dim=1)
        along = noise[..., 0] - mean[:, None, 0]
        pull = (along.unsqueeze(2) * noise).mean(dim=1) * s.dim / s.alpha**2  # Ĉμ, its mean 1 along μ
        tilts = torch.linalg.vector_norm((mean - x / (1 + x) * pull)[:, 1:], dim=1)
        deficits = s.p * mean[:, 0] + 1 - theory.nominal_mass(0.5, after)
        largest.append(
            max(theory.tilted_distance(float(t), float(d), s.p) for t, d in zip(tilts, deficits, strict=True))
        )
    measured = sum(largest) / draws
    assert theory.drift_distance(s, after) == pytest.approx(measured, rel=0.03)


def test_the_chances_of_the_drifted_distance_add_up_to_one(monkeypatch):
    monkeypatch.setattr(theory, "_tilted_distances", lambda tilts, *_: torch.ones_like(tilts))
    assert theory.drift_distance(setting(), 6.0) == pytest.approx(1.0, abs=1e-12)


def test_a_neuron_that_serves_several_centres():
    """From a centre of the other class to where ⟨x, μ_1 + … + μ_s⟩ = ⟨x, ν⟩, by projection on that hyperplane."""
    for served in (1, 2, 3, 7):
        normal = torch.tensor([1.0] * served + [-1.0]).double()
        distance = 1 / float(torch.linalg.vector_norm(normal))
        assert theory.shared_radius(math.sqrt(served)) == pytest.approx(distance)
    assert theory.shared_radius(math.sqrt(2)) == pytest.approx(3**-0.5)
