"""The theorems as data: ranges by hand, the printed schedule, the floor against Monte Carlo."""

import math

import pytest
import torch

from featureprism.data import SparseCoding, dictionary, label_weights, sample_sparse, two_level
from featureprism.data.sparse_coding import dictionary_norms
from featureprism.networks import LinearClassifier
from featureprism.papers.feature_purification import theory
from featureprism.seeds import generator_for


def setting(**more):
    values = {
        "dim": 200,
        "sparsity": 7,
        "width": 250,
        "noise": 0.3,
        "penalty": 2.0,
        "radius": 0.1,
    }
    return theory.Sizes(**values | more)


def failing(premises):
    return {p.id for p in premises if not p.holds}


def test_ranges_of_k():
    """The window d^(1/3) to (d/ln d)^(2/5) is 5.85 to 4.27 at d = 200, empty; at d = 10^8 it is 464 to 494."""
    assert failing(theory.sparsity_premises(setting(width=201))) == {"theorem-f-1.sparsity"}
    wide = {p.id: p.holds for p in theory.sparsity_premises(setting(width=400, sparsity=6))}  # c0 = 0.13
    assert (wide["theorem-e-1.sparsity"], wide["printed-e-1.sparsity"]) == (False, True)
    large = setting(dim=10**8, width=10**8 + 1, sparsity=480)
    assert not failing(theory.sparsity_premises(large))
    held = {p.source: p.holds for p in theory.sparsity_premises(setting(width=201, sparsity=4))}
    assert held["Theorem F.1"] is True
    held = {p.id: p.holds for p in theory.sparsity_premises(setting(width=201, sparsity=5))}
    assert held["theorem-e-1.sparsity"] is False
    held = {p.source: p.holds for p in theory.sparsity_premises(setting(width=201, sparsity=9))}
    assert held["Theorem F.1"] is False
    assert held["Section 2"] is True


def test_premises_of_both_trainings():
    assert all(p.holds for p in theory.clean_premises(setting(), time=500.0))
    assert failing(theory.clean_premises(setting(width=150), time=500.0)) == {"theorem-5-1.width"}
    assert failing(theory.clean_premises(setting(), time=100.0)) == {"theorem-5-1.time"}
    near = setting(width=201, noise=0.1, radius=0.03)
    assert failing(theory.adversarial_premises(near, time=100.0)) == {"theorem-e-1.radius"}
    assert failing(theory.adversarial_premises(setting(noise=0.1, radius=0.5), time=100.0)) == {
        "theorem-5-3.radius",
        "theorem-5-3.small-radius",
    }
    assert theory.rest_premise(0.03).holds
    assert not theory.bias_rate_premise(0.15, 0.26).holds
    identity = dictionary_norms(torch.eye(200))
    assert failing(theory.linf_premises(setting(), identity, 0.01)) == {"theorem-e-1.linf-radius"}
    assert failing(theory.linf_premises(setting(), identity, 0.03)) == {"theorem-5-4.radius"}
    assert not failing(theory.lower_bound_premises(setting(noise=0.0), torch.eye(200)))
    turned = torch.eye(200).roll(1, dims=0)
    assert failing(theory.lower_bound_premises(setting(noise=0.0), turned)) == {"theorem-5-6.dictionary"}


def test_adversarial_training_may_last_a_few_times_its_order():
    """k² (m/d) ln d = 49·1.25·5.298 = 324.5; the main text has k^(2+c) = 49.1."""
    assert theory.adversarial_time(setting()) == pytest.approx(324.5, abs=0.1)
    for time, failed in ((48.0, "time"), (1290.0, None), (1310.0, "most-time")):
        near = setting(noise=0.1, radius=0.03)
        found = failing(theory.adversarial_premises(near, time=time)) - {"theorem-e-1.radius"}
        assert found == ({f"theorem-5-3.{failed}"} if failed else set())


def test_the_lottery_needs_larger_dimensions_than_any_here():
    """m = d^1.15: one sure winner in ten at d = 100 to 1600; even with m = d^2 one is expected from d = 10^32 on only."""
    found = [theory.ticket_premise(setting(dim=d, width=round(d**1.15))) for d in (100, 400, 1600)]
    assert [p.measured for p in found] == pytest.approx([0.1] * 3, abs=0.04)
    assert not any(p.holds for p in found)
    assert not theory.ticket_premise(setting(dim=10**30, width=10**60)).holds
    assert theory.ticket_premise(setting(dim=10**40, width=10**80)).holds


def test_where_sure_winners_stand():
    assert theory.bias_cap_premise(setting(), 0.04 / math.sqrt(7)).holds
    assert theory.bias_cap_premise(setting(), 0.5 / math.sqrt(7)).measured == pytest.approx(1.0)


def test_the_radius_at_which_clean_training_breaks():
    """k^-0.51 = 0.371 beside √200/49 = 0.289 at k = 7; at k = 3 the second is the larger."""
    assert theory.breaking_radius(setting()) == pytest.approx(7**-0.51)
    assert theory.breaking_radius(setting(sparsity=3)) == pytest.approx(math.sqrt(200) / 9)
    assert theory.breaking_radius_linf(setting()) == pytest.approx(1 / 49)
    at_it = setting(radius=math.sqrt(200) / 49 * (1 + 1e-9))
    assert "theorem-e-1.radius" not in failing(theory.adversarial_premises(at_it, time=100.0))


def test_the_printed_schedule():
    s = theory.printed_schedule(setting(width=200), 1e-3)
    triple = math.log(math.log(math.log(200)))
    assert s.start_bias == pytest.approx(math.sqrt(2 * math.log(200)) * 1e-3)
    assert s.penalty * 200 == pytest.approx(triple)
    assert s.smoothing_first / s.smoothing_later == pytest.approx(math.sqrt(math.log(200)))
    assert s.bias_cap == pytest.approx(7**-0.5001)
    with pytest.raises(ValueError, match="d ≥ 16"):
        theory.printed_schedule(setting(dim=10, width=20), 1e-3)


def test_assumption_2_1_holds_on_a_sample_and_fails_on_a_wrong_one(generator):
    hidden = two_level(60, 5.0)
    z, w = hidden.sample(4000, generator=generator), torch.ones(60)
    assert all(p.holds for p in theory.hidden_vector_premises(hidden, z, w))
    shared = z * torch.sign(z[:, :1]).abs().clamp_min(0.2)  # all coordinates shrink together
    assert "assumption-2-1.support" in failing(theory.hidden_vector_premises(hidden, shared, w))
    assert "assumption-2-1.symmetry" in failing(theory.hidden_vector_premises(hidden, z.abs(), w))


def test_independence_sees_a_condition_on_the_sum_that_no_pair_shows(generator):
    """Keeping |⟨w*, z⟩| ≥ m multiplies its variance; the correlation of a pair changes by 1/d only."""
    hidden, w = two_level(100, 10.0), label_weights("signs", 100, generator=generator)
    z = hidden.sample(12000, generator=generator)
    kept = z[(z @ w).abs() >= 2.0]
    failed = failing(theory.hidden_vector_premises(hidden, kept, w))
    assert {"assumption-2-1.sum", "assumption-2-1.principal"} <= set(failed)
    assert "assumption-2-1.independence" not in failed
    assert theory.variance_ratio(kept, w) > 2
    assert theory.variance_ratio(z, w) == pytest.approx(1, abs=0.05)


def test_the_first_eigenvalue_of_independent_coordinates_ends_at_the_edge(generator):
    assert theory.principal_ratio(torch.randn(2000, 200, generator=generator)) == pytest.approx(1, abs=0.03)
    assert theory.principal_ratio(torch.randn(500, 1, generator=generator).expand(500, 4)) == pytest.approx(
        4 / (1 + math.sqrt(4 / 500)) ** 2
    )


def test_the_rate_of_a_winner_by_enumeration():
    """Two coordinates, |z| = 1 or 0: y z_1 is 1 unless z_2 outweighs it or ties, where sign(0) = +1 cancels."""
    values, chances = (-1.0, 0.0, 1.0), (0.2, 0.6, 0.2)
    counts = {
        (a, b): round(100 * p * q)
        for a, p in zip(values, chances, strict=True)
        for b, q in zip(values, chances, strict=True)
    }
    z = torch.tensor([pair for pair, count in counts.items() for _ in range(count)])
    expected = (
        0.5 * 2 * sum(count / 100 * a * (1.0 if a + b >= 0 else -1.0) for (a, b), count in counts.items())
    )
    assert theory.winner_rate(z, torch.ones(2)) == pytest.approx(expected)


def test_the_accuracy_of_the_pure_network_in_the_limit(generator):
    """Against draws of A ~ Skellam(½, ½) and G ~ N(0, 1)."""
    up, down = (torch.poisson(torch.full((400_000,), 0.5).double(), generator=generator) for _ in range(2))
    g = torch.randn(400_000, generator=generator).double()
    score, sign = up - down, torch.sign(up - down + g)
    for t, radius in ((0.5, 0.0), (0.5, 0.335), (0.14, 0.1)):
        drawn = float((sign * (score + (1 - t) * g) > radius).double().mean())
        assert theory.pure_accuracy(t, radius) == pytest.approx(drawn, abs=0.003)
    assert theory.pure_accuracy(0.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="below the signal"):
        theory.pure_accuracy(1.0)


def test_the_floor_is_the_exact_accuracy_of_the_linear_classifier():
    coding = SparseCoding(
        dictionary("haar", 80, generator=generator_for("M", 0), dtype=torch.float64),
        label_weights("uniform", 80, generator=generator_for("w", 0), dtype=torch.float64),
        two_level(80, 6.0),
        noise=0.6,
    )
    s = sample_sparse(coding, 20000, generator=generator_for("test", 0))
    radius = LinearClassifier(coding.dense_direction).exact_radius(s.x, s.y)
    predicted = theory.linear_robust_accuracy(s.z @ coding.w, coding.w, 0.6, 0.1)
    assert float((radius > 0.1).double().mean()) == pytest.approx(predicted, abs=0.01)
    silent = theory.linear_robust_accuracy(s.z @ coding.w, coding.w, 0.0, 0.1)
    norm = float(coding.w.norm())
    assert silent == pytest.approx(float(((s.z @ coding.w).abs() > 0.1 * norm).double().mean()))


def test_constants_and_orders():
    c1, c2 = theory.ticket_constants(0.2)
    assert (c1, c2) == pytest.approx((2.36, 0.02))
    assert theory.mean_beta(setting()) == pytest.approx(7 / 200)
    assert theory.beta_bound(setting()) > theory.mean_beta(setting())


def test_a_point_exactly_at_the_radius_is_not_robust():
    score, weights = torch.tensor([1.0, -1.0, 2.0, -0.5]), torch.tensor([1.0])
    assert theory.linear_robust_accuracy(score, weights, 0.0, 1.0) == 0.25
