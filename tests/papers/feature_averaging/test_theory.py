"""Laws against their differential equations and hand calculations; premises that hold and fail."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.data import orthogonal_clusters, sample
from featureprism.papers.feature_averaging import theory
from featureprism.seeds import generator_for

BASELINE = theory.Sizes(
    dim=3072, positive=5, negative=5, points=1000, per_class=5, step_size=1e-3, start=1e-5
)


@pytest.mark.parametrize("k", [None, 3, 10])
def test_growth_laws_solve_their_equations(k):
    q, dt, rate = 0.0, 1e-3, 0.7
    for _ in range(20_000):
        slope = rate / (1 + math.exp(q)) if k is None else rate * (k - 1) / (k - 1 + math.exp(q))
        q += dt * slope
    law = theory.two_class_margin(rate, 20.0) if k is None else theory.k_class_margin(rate, 20.0, k)
    assert law == pytest.approx(q, rel=1e-3)
    assert theory.two_class_margin(rate, 0.0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("elapsed", [1e-9, 1e-3, 1.0, 1e6, 1e12])
def test_growth_is_solved_at_every_scale(elapsed):
    q = theory.two_class_margin(1.0, elapsed)
    assert q + math.exp(q) == pytest.approx(1 + elapsed, rel=1e-12)


def test_constants_of_the_baseline():
    assert theory.critical_radius(3072, 10) == pytest.approx(17.527, abs=1e-3)
    assert theory.printed_attack_norm(BASELINE) == pytest.approx(70.1, abs=0.05)
    assert theory.printed_attack_norm(BASELINE) > theory.largest_radius(3072)  # vacuous
    assert theory.epsilon(BASELINE) == pytest.approx(58, abs=0.5)
    assert theory.cosine_law(5, 10, 1000) == pytest.approx(0.445, abs=1e-3)
    assert theory.cosine_law(5, 10, 1000, signal=2.0) == pytest.approx(theory.cosine_law(5, 10, 4000))
    assert theory.printed_shared_attack_norm(BASELINE) == pytest.approx(105.2, abs=0.05)
    for norm, last in ((theory.printed_attack_norm, 32), (theory.printed_shared_attack_norm, 72)):
        at, beyond = (replace(BASELINE, positive=k // 2, negative=k // 2) for k in (last - 2, last + 2))
        assert norm(at) > theory.largest_radius(3072) > norm(beyond)  # vacuous up to that many clusters
    assert theory.growth_rate(BASELINE, 5) == pytest.approx(3.072 / 5 * (0.1 + 0.001))
    assert theory.two_class_margin(theory.growth_rate(BASELINE, 5), 100) == pytest.approx(1.705, abs=2e-3)
    assert theory.k_class_margin(theory.growth_rate(BASELINE, 1), 100, 10) == pytest.approx(5.444, abs=2e-3)


def test_derivative_ratios_obey_the_corrected_lemma(generator):
    q = 3 * torch.randn(500, generator=generator).double()
    for a, b in zip(q[::2].tolist(), q[1::2].tolist(), strict=True):
        large, small = max(a, b), min(a, b)
        ratio = (1 + math.exp(large)) / (1 + math.exp(small))
        low, high = theory.derivative_ratio_bounds(large, small)
        assert ratio <= high * (1 + 1e-12)
        if large + small >= 0:
            assert ratio >= low * (1 - 1e-12)


def test_premises_and_events():
    clusters = orthogonal_clusters(3072, 5, 5, 1.0, generator=generator_for("centres", 0))
    held = {p.id: p.holds for p in theory.premises(BASELINE, clusters.mu)}
    assert held["assumption-3-2.cosines"]
    assert held["assumption-3-3.balance"]
    assert not held["assumption-4-3.dim"]
    assert not held["assumption-4-3.step-size"]
    assert len(held) == 10
    bent = clusters.mu.clone()
    bent[0] += 0.1 * bent[1]
    held = {p.id: p.holds for p in theory.premises(BASELINE, bent)}
    assert not held["assumption-3-2.cosines"]
    events = theory.sample_events(sample(clusters, 200, generator=generator_for("train", 0)))
    assert all(e.holds for e in events[:5])
    start = torch.randn(10, 3072, generator=generator_for("start", 0)).double()
    first, second = theory.start_events(BASELINE, 1e-5 * start, torch.zeros(10).double())
    assert first.holds
    assert second.holds
    assert not theory.start_events(BASELINE, 2e-5 * start, torch.ones(10).double())[0].holds
    assert theory.activation_event(BASELINE, 2.0).holds  # n/(3km²) = 1.33
    assert not theory.activation_event(BASELINE, 1.0).holds


def test_training_is_long_enough_for_one_theorem_and_not_for_the_other():
    long = replace(BASELINE, positive=2, negative=2)
    held = {p.id: p.holds for p in theory.training_time(long, 2000) + theory.training_time(long, 2000, "4.7")}
    assert held["theorem-4-5.least-steps"]
    assert not held["theorem-4-7.least-steps"]
    assert not held["theorem-4-5.most-steps"]
    assert theory.training_time(long, 7)[1].holds


def test_margins_of_unequal_clusters_differ_by_the_logarithm_of_their_sizes():
    """The slope is the derivative of the growth law in the logarithm of its rate."""
    for elapsed in (0.5, 6.2, 62.0, 1e5):
        q, step = theory.two_class_margin(elapsed, 1.0), 1e-5
        high, low = (theory.two_class_margin(elapsed * math.exp(sign * step), 1.0) for sign in (1, -1))
        assert theory.balance_slope(q) == pytest.approx((high - low) / (2 * step), rel=1e-5)
    assert theory.balance_slope(4.07) == pytest.approx(1.0347, abs=1e-3)
    assert theory.balance_slope(40.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("own", "dim"), [(5, 3072), (2, 512), (2, 59049)])
def test_the_opposite_share_is_the_share_of_points_that_are_still_active(own, dim, generator):
    share = theory.opposite_share(own, 2 * own, 10**9, dim)
    noise = math.sqrt(own / dim) * torch.randn(2_000_000, generator=generator).double()
    assert float((noise > share).double().mean()) == pytest.approx(share, rel=0.02)


def test_the_law_of_the_gap_is_that_of_its_parts():
    """Neurons made of a mean feature and the three differences, compared on the sphere by random search in their span."""
    s = replace(BASELINE, dim=10**9, points=4000)
    growth = 2.0
    slope = theory.balance_slope(growth * (1 + s.num_clusters / s.points))
    rho = math.sqrt(s.num_clusters / s.points * (1 + (slope / growth) ** 2))
    assert theory.approach_law(s, growth) == pytest.approx(math.sqrt(2) * rho, rel=1e-3)
    rng = torch.Generator().manual_seed(0)
    # coordinates: both class means, noise of both classes; f and f_FA as in the derivation
    x = torch.randn(400_000, 4, generator=rng).double() * torch.tensor([0.05, 0.05, 1.0, 1.0]).double()
    x = x / x.norm(dim=1, keepdim=True)
    f = (x[:, 0] + rho * x[:, 2]).clamp_min(0) - (x[:, 1] + rho * x[:, 3]).clamp_min(0)
    gap = (f - x[:, 0].clamp_min(0) + x[:, 1].clamp_min(0)).abs().max()
    assert float(gap) == pytest.approx(math.sqrt(2) * rho, rel=0.02)


def test_summed_logits_break_where_all_rivals_rise_at_once():
    """min ‖δ‖ with s₁ - Σ_l [s_l]₊ ≤ 0 from (√d, 0, …, 0): brute force over two numbers."""
    dim, others = 100, 5
    down = torch.linspace(0, 10, 2001).double()
    up = (10 - down) / others
    brute = (down**2 + others * up**2).sqrt().min()
    assert theory.summed_radius(dim, others) == pytest.approx(float(brute), rel=1e-4)
    assert theory.summed_radius(dim, 1) == theory.largest_radius(dim)


def test_correlated_centres_reduce_to_orthogonal_ones():
    flat = theory.correlated_cosine(BASELINE, 0.0)
    opposite = theory.opposite_share(5, 10, 1000, 3072)
    assert flat == pytest.approx(theory.cosine_law(5, 10, 1000) / math.sqrt(1 + opposite**2), rel=1e-9)
    assert theory.correlated_radius(3072, 10, 0.0) == theory.critical_radius(3072, 10)
    assert theory.correlated_radius(3072, 10, 0.19) == pytest.approx(0.9 * theory.critical_radius(3072, 10))


def test_the_share_of_averaging_counts_the_start_beside_what_was_learned():
    s = replace(BASELINE, start=1e-3)
    q = theory.two_class_margin(theory.growth_rate(s, 5), 100)
    growth = theory.own_growth(q, 10, 1000)
    assert growth == pytest.approx(q / 1.01)
    learned = 5 * growth**2 * 1.01 / 3072  # ‖λ Σ μ_j/d‖² and memorised noise k/n of it
    expected = 1 / math.sqrt(1 + 1e-6 * 3072 / learned)
    assert theory.averaging_share(s, 100) == pytest.approx(expected, rel=2e-3)
    assert theory.averaging_share_domain(s, 100).holds
    assert not theory.averaging_share_domain(replace(s, start=1.0), 100).holds


def test_activations_of_a_start_are_uniform_shares(generator):
    """Proposition A.12 by simulation: the share of starts that activate every neuron on n/(3km²) points of every cluster."""
    s = replace(BASELINE, positive=2, negative=1, per_class=3, points=3 * 10**6)
    shares = torch.special.ndtr(torch.randn(20_000, 6 * 3, generator=generator).double())
    happened = float((shares * s.points / 3 >= theory.needed_activations(s)).all(dim=1).double().mean())
    assert theory.activation_chance(s) == pytest.approx(happened, abs=0.015)
    large = replace(s, positive=500, negative=500, per_class=1000)
    assert theory.activation_chance(large) == pytest.approx(math.exp(-2 / 3), abs=1e-3)
    assert theory.printed_activation_chance(s) == pytest.approx(1 - 3**-0.01)
    assert (
        1 - (2.0**103) ** -0.01 < math.exp(-2 / 3) < 1 - (2.0**104) ** -0.01
    )  # where the printed one is too large
    assert theory.start_events_chance(s) == pytest.approx(1 - 2 / 27, abs=1e-9)
    assert theory.sample_events_chance(replace(s, dim=59049, points=2187)) > 1 - 1e-12


def test_derivatives_of_many_classes_obey_their_lemma(generator):
    """Lemma C.18: own logits q ≥ 0, all others between 0 and ε."""
    k, epsilon = 6, 0.1
    own = 4 * torch.rand(300, generator=generator).double()
    others = epsilon * torch.rand(300, k - 1, generator=generator).double()
    slope = 1 - own.exp() / (own.exp() + others.exp().sum(dim=1))
    for i in range(0, 300, 2):
        a, b = (i, i + 1) if own[i] >= own[i + 1] else (i + 1, i)
        low, high = theory.multi_class_ratio_bounds(float(own[a] - own[b]), k, epsilon)
        assert low <= float(slope[b] / slope[a]) <= high


def test_statements_of_the_appendix_name_their_lemmas():
    found = dict.fromkeys(
        [
            "least_noise",
            "most_noise",
            "cluster_sum_gap",
            "sum_gap",
            "gap",
            "cluster_derivative_ratio",
            "derivative_ratio",
            "own_active",
            "opposite_feature",
            "opposite_noise",
            "largest_bias",
            "feature_error",
            "noise_error",
            "point_error",
            "sum_error",
            "noise_ratio",
            "margin_above",
            "margin_below",
            "slope_above",
            "slope_below",
            "least_feature",
            "most_feature",
            "feature_ratio",
        ],
        1.0,
    )
    statements = {p.id: p for p in theory.lemma_b(BASELINE, 1000, found)}
    assert statements["lemma-b-7.4"].required == pytest.approx(65 * theory.epsilon(BASELINE))
    assert statements["lemma-b-7.4"].source == "Lemma B.7"
    assert statements["lemma-b-20-least"].source == "Lemma B.20"
    assert statements["lemma-b-23-most"].required == pytest.approx(4 * math.log(1001))
    assert all(p.holds is not None for p in statements.values())


def test_clusters_are_split_into_whole_numbers():
    """100·0.29 is a little less than 29 in floats."""
    assert theory._split(100, 0.29) == (29, 71)
    for share in (0.0, 0.004, 1.0):
        with pytest.raises(ValueError, match="both classes"):
            theory._split(100, share)


def test_the_time_until_a_neuron_is_active_everywhere_by_hand():
    """One active point raises the rest from -1 to 0 in one unit of time; then two of them raise the last by 3."""
    unit = 2 * 1000 * 5 / (1e-3 * 3072)
    assert theory.activation_time(BASELINE, torch.tensor([-1.0, 3.0, -4.0])) == pytest.approx(
        unit * (1 + 3 / 2)
    )
    assert theory.activation_time(BASELINE, torch.tensor([1.0, 0.0])) == 0
    assert theory.activation_time(BASELINE, torch.tensor([-1.0, -2.0])) == math.inf
