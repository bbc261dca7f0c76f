import math
from dataclasses import replace

import pytest
import torch

from featureprism.attacks import flipping_norm
from featureprism.data import class_labels, equicorrelated_centres, orthogonal_clusters, sample
from featureprism.data.clusters import orthogonal_centres, sphere_centres
from featureprism.networks import ReLU, TwoLayerNet, robust_margin_classifier
from featureprism.papers.double_edged import theory
from featureprism.training import margin_descent, max_margin_network
from featureprism.training.margins import log_loss
from featureprism.verify import Budget, robust_radius


def setting(dim, k, sigma, n=400, coherence=0.0):
    return theory.Separation(dim=dim, clusters=k, sigma=sigma, points=n, coherence=coherence, balance=0.5)


@pytest.mark.parametrize(
    ("dim", "sigma", "most"),
    [(1000, 1000**-0.5, 3), (5000, 5000**-0.5, 14), (10000, 1e-2, 26), (1000, 1e-3, 53), (200, 1 / 200, 7)],
)
def test_how_many_clusters_the_assumption_allows(dim, sigma, most):
    """The largest k for orthogonal means, as on the formula sheet."""
    allowed = [k for k in range(1, 200) if theory.holds(theory.assumption_2_2(setting(dim, k, sigma)))]
    assert max(allowed) == most


def test_ordinary_settings_are_far_outside():
    usual = setting(1000, 8, 1.0)
    assert not theory.holds(theory.assumption_2_2(usual))
    assert usual.crowding > 10
    assert math.isnan(theory.largest_sum(usual))
    assert math.isnan(sum(theory.printed_step(usual)))


def test_the_printed_perturbation_in_the_small_noise_limit():
    """η → 9/(ck), so ‖z‖ = 18 √(d/k) for balanced classes: longer than √d below k = 324."""
    s = setting(10**9, 4, 1e-12)
    assert sum(theory.printed_step(s)) == pytest.approx(9 / (0.5 * 4), rel=1e-6)
    norm = sum(theory.printed_step(s)) * math.sqrt(4 * s.dim)
    assert norm == pytest.approx(18 * math.sqrt(s.dim / 4), rel=1e-6)


def test_bounds_at_the_worst_case_of_the_assumption():
    """c' = 1/10 and Δ = d/21 give 7/8·5/16 - 2/8 as d grows. Lemma A.12."""
    d = 10**9
    s = replace(setting(d, 1, 0.1), measured_spread=d / 21)
    s = replace(s, coherence=(d - s.spread + 1) / 10 - s.spread - 1)
    assert s.crowding == pytest.approx(0.1)
    assert theory.least_test_margin(s) == pytest.approx(7 / 8 * 5 / 16 - 2 / 8, rel=1e-2)


def test_the_loss_threshold_is_where_one_margin_can_be_zero():
    """All margins huge but one at 0: n L is ℓ(0), 1 for the exponential loss and ln 2 for the natural logistic loss."""
    assert theory.loss_threshold(10, "exponential") == pytest.approx(0.1)
    assert theory.loss_threshold(10, "logistic") == pytest.approx(math.log1p(math.exp(-0.0)) / 10)


@pytest.mark.parametrize("loss", ["exponential", "logistic"])
def test_below_the_threshold_every_margin_is_positive(loss, generator):
    """One margin that is not positive alone makes n L at least ℓ(0). Theorem 2.1."""
    for scale in (0.1, 1.0, 30.0):
        margins = scale * torch.rand(10, generator=generator).double()
        margins[3] = -margins[3]
        assert not theory.holds(theory.theorem_2_1(float(log_loss(margins, loss)), 10, loss))
    sure = torch.full((10,), 5.0).double()
    assert theory.holds(theory.theorem_2_1(float(log_loss(sure, loss)), 10, loss))


def test_events_hold_on_samples_and_widths_are_tight(generator):
    clusters = orthogonal_clusters(400, 2, 2, 0.2, generator=generator)
    data = sample(clusters, 60, generator=generator)
    sizes = theory.MixtureSizes(dim=400, clusters=4, sigma=0.2, points=60)
    s = theory.separation(sizes, clusters.mu, clusters.labels)
    assert s.coherence < 1e-9
    assert s.balance == 0.5
    assert theory.holds(theory.sample_events(s, data))
    measured = theory.on_sample(s, data)
    assert 0 < measured.spread < s.spread
    names = ("(P4)", "(P5)")
    at = [
        p
        for p in theory.sample_events(replace(s, measured_spread=measured.spread + 1e-6), data)
        if p.name[:4] in names
    ]
    below = [
        p
        for p in theory.sample_events(replace(s, measured_spread=0.99 * measured.spread), data)
        if p.name[:4] in names
    ]
    assert theory.holds(at)
    assert not theory.holds(below)


def test_a_spoilt_sample_breaks_its_events(generator):
    clusters = orthogonal_clusters(400, 2, 2, 0.2, generator=generator)
    data = sample(clusters, 60, generator=generator)
    sizes = theory.MixtureSizes(dim=400, clusters=4, sigma=0.2, points=60)
    s = theory.separation(sizes, clusters.mu, clusters.labels)
    far = replace(data, x=data.x + 2 * torch.ones_like(data.x))
    assert not theory.holds(theory.sample_events(s, far))
    one = replace(data, cluster=torch.zeros_like(data.cluster))
    assert not theory.holds(theory.sample_events(s, one))


def test_size_conditions_and_probabilities():
    """d = 1000, δ = ε = 0.05: n up to 11302; d = 200: up to 66 (formula sheet)."""
    for dim, most in ((1000, 11302), (200, 66)):
        fits = [theory.size_conditions(setting(dim, 1, 1.0, n))[1].holds for n in (most, most + 2)]
        assert fits == [True, False]
    assert theory.failure_probability(setting(3000, 4, 0.01, 257)) < 1e-6
    assert theory.test_error_bound(setting(3000, 4, 0.01, 257)) < 1e-9


def inside_the_assumption(generator, dim=200, k=4):
    """Training and test points of a setting inside Assumption 2.2, with its separation."""
    clusters = orthogonal_clusters(dim, k // 2, k // 2, 1 / dim, generator=generator)
    sizes = theory.MixtureSizes(dim=dim, clusters=k, sigma=1 / dim, points=40)
    s = theory.separation(sizes, clusters.mu, clusters.labels)
    assert theory.holds(theory.assumption_2_2(s))
    train = sample(clusters, 40, generator=generator)
    assert theory.holds(theory.sample_events(s, train))
    return s, clusters, train, sample(clusters, 100, generator=generator)


def test_what_cannot_fail_inside_the_assumption(generator):
    """Lemma 2.1, Theorem A.1 and Theorem 4.2 with its printed z, longer than the points: N(x - y z) ≤ -1 on the side of x."""
    s, clusters, train, test = inside_the_assumption(generator)
    u = theory.linear_direction(clusters.mu, clusters.labels)
    assert float((test.y * (test.x @ u)).min()) >= theory.linear_margin(s.dim)
    net = max_margin_network(train.x, train.y).net
    z = sum(theory.printed_step(s)) * u
    assert float(z.norm()) > math.sqrt(s.dim)
    with torch.no_grad():
        assert float((test.y * net(test.x)).min()) > 0
        assert float((test.y * net(test.x - test.y.unsqueeze(1) * z)).max()) <= -1


def test_the_constructed_network_keeps_its_promise(generator):
    """y N ≥ 1 and no flip within √d/8, Theorem 4.1; with σ = 1 as well."""
    for sigma in (1 / 200, 1.0):
        clusters = orthogonal_clusters(200, 2, 2, sigma, generator=generator)
        test = sample(clusters, 12, generator=generator)
        net = robust_margin_classifier(clusters.mu, clusters.labels)
        with torch.no_grad():
            assert float((test.y * net(test.x)).min()) >= 1
        bracket = robust_radius(net, test.x, test.y, gap=0.5, budget=Budget(branches=4))
        assert float(bracket.certified.min()) > theory.PROMISED_ROBUST * math.sqrt(200)


def breaking_steps(mu, labels):
    """k times the step along u at which each mean flips at the exact KKT point of the means themselves."""
    net, u = max_margin_network(mu, labels).net, theory.linear_direction(mu, labels)
    unit = theory.critical_norm(mu, labels)
    return torch.tensor(
        [flipping_norm(net, mu[q : q + 1], labels[q : q + 1], u) / unit for q in range(len(mu))]
    )


def test_the_critical_norm_of_orthogonal_and_of_correlated_means(generator):
    labels = class_labels(3, 3)
    mu = orthogonal_centres(6, 80, math.sqrt(80), generator=generator)
    assert theory.critical_norm(mu, labels) == pytest.approx(math.sqrt(80 / 6))
    mu = equicorrelated_centres(6, 80, math.sqrt(80), 0.3, generator=generator)
    assert theory.critical_norm(mu, labels) == pytest.approx(math.sqrt(0.7 * 80 / 6))
    assert breaking_steps(mu, labels).tolist() == pytest.approx([1.0] * 6, rel=1e-5)


@pytest.mark.parametrize("positives", [1, 2, 4])
def test_a_bias_adds_to_the_breaking_norm_of_unequal_classes(positives, generator):
    """1/(k - k²(1-2c)²/(d+1)) to first order, for orthogonal means."""
    mu, labels = orthogonal_centres(8, 400, 20.0, generator=generator), class_labels(positives, 8 - positives)
    expected = 1 + 8 * (1 - 2 * positives / 8) ** 2 / 401
    assert breaking_steps(mu, labels).tolist() == pytest.approx([expected] * 8, abs=5e-4)


def test_the_mean_over_clusters_is_the_law_for_any_means(generator):
    """Clusters break at different steps, whose mean is 1/k; means of many sizes and cosines, equal classes."""
    mu = sphere_centres(8, 60, 1.0, generator=generator) * torch.linspace(5, 9, 8).double().unsqueeze(1)
    steps = breaking_steps(mu, class_labels(4, 4))
    assert float(steps.max() - steps.min()) > 0.01
    assert float(steps.mean()) == pytest.approx(1, abs=0.01)


def test_the_spread_of_test_points_covers_both_kinds_of_products(generator):
    """Lemma A.12's conditions hold with it and fail with less, by a loop over pairs."""
    clusters = orthogonal_clusters(30, 2, 2, 0.5, generator=generator)
    train, test = sample(clusters, 20, generator=generator), sample(clusters, 9, generator=generator)
    spread, needed = theory.test_spread(train, test, 0.0, 30), 0.0
    for i in range(20):
        for j in range(9):
            product = float(train.x[i] @ test.x[j])
            needed = max(needed, abs(product - 30) if train.cluster[i] == test.cluster[j] else abs(product))
    assert spread == pytest.approx(needed)


@pytest.mark.parametrize("mixing", [0.0, 0.2, 1 / 3, 1.0])
def test_the_radius_of_partly_mixed_features(mixing):
    """Six clusters on the axes, against the bracket of the network itself."""
    labels = class_labels(3, 3)
    same = (labels.unsqueeze(1) == labels).double()
    net = TwoLayerNet(torch.eye(6).double() + mixing * same, labels, activation=ReLU())
    bracket = robust_radius(
        net, torch.eye(6).double()[[0, 5]], labels[[0, 5]], gap=0.005, budget=Budget(branches=200)
    )
    law = theory.mixed_radius(mixing, 6)
    assert bool((bracket.certified <= law * 1.0001).all())
    assert bool((bracket.attacked >= law * 0.9999).all())
    assert float(bracket.gap.max()) < 0.01


def test_when_the_flow_from_the_robust_network_passes(generator):
    """Flow on the means alone, small steps: the features at the law's ln(1/L) are mixed as much as the law says."""
    mu, labels = orthogonal_centres(8, 100, 10.0, generator=generator), class_labels(4, 4)
    robust, scale = robust_margin_classifier(mu, labels), 0.3
    start = TwoLayerNet(*(scale * p.detach() for p in robust.parameters()), activation=ReLU())
    law = theory.robust_start_passage(100, 8, scale)
    run = margin_descent(start, mu, labels, step_size=0.5, steps=round(2 * law))
    clock = -float(log_loss(labels * run.last(mu).detach(), "exponential"))
    inputs = (mu @ run.last.W.T).detach() / 100
    mixing = float(inputs[1, 0] / (inputs[0, 0] - inputs[1, 0]))
    assert clock == pytest.approx(law, rel=0.03)
    assert theory.mixed_radius(mixing, 8) == pytest.approx(1.1 / math.sqrt(8), rel=0.02)


def test_the_law_of_the_passage_speaks_only_where_it_can():
    with pytest.raises(ValueError, match="equal size"):
        theory.robust_start_passage(100, 7)
    with pytest.raises(ValueError, match="not mixed"):
        theory.robust_start_passage(100, 8, share=1.4)


def test_the_printed_step_is_the_formula_and_ends_with_the_assumption():
    s = replace(setting(1000, 4, 0.1, coherence=2.0), measured_spread=10.0)
    r, c = theory.alignment_room(s), s.crowding
    first, second = theory.printed_step(s)
    assert r == pytest.approx(1000 - 10 - 4 * (2 + 10), abs=2)
    assert first == pytest.approx((2 * 10 + 2 + 1) / r)
    assert second == pytest.approx(
        3 * (3 * 1000 + 10 + 1) * (1 - 2 * c) / (r * (1 - 3 * c) * 0.5 * 4), rel=1e-12
    )
    crowded = replace(s, clusters=40)
    assert theory.alignment_room(crowded) > 0
    assert crowded.crowding > 1 / 3
    assert all(map(math.isnan, theory.printed_step(crowded)))


@pytest.mark.parametrize("cosine", [-0.1, 0.0, 0.3])
def test_a_group_that_is_the_whole_class_breaks_where_the_mean_does(cosine):
    sizes = theory.MixtureSizes(dim=50, clusters=6, sigma=0.1, points=60)
    assert theory.group_norm(sizes, cosine, 3) == pytest.approx(1)
    if 50 * cosine + 1 > 0:
        with pytest.raises(ValueError, match="only a part"):
            theory.group_norm(sizes, cosine, 2)
    else:
        assert theory.group_norm(sizes, cosine, 1) > theory.group_norm(sizes, cosine, 2) > 1
