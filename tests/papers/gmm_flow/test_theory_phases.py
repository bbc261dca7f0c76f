"""The laws of the alignment phase against their equations, and the printed constants against brute force."""

import math

import pytest
import torch

from featureprism.papers.gmm_flow import theory_phases as phases
from featureprism.papers.gmm_flow.theory import OrthonormalGMM, nominal_mass
from featureprism.probes import cosines
from featureprism.probes.voronoi import nondegeneracy_gap, nondegeneracy_margin


@pytest.mark.parametrize("p", [2.5, 3.0, 4.0])
def test_one_centre_alone_has_closed_forms(p):
    c = torch.tensor([[0.4]]).double()
    law = phases.nominal_alignment(c, torch.ones(1).double(), torch.ones(1).double(), p, 3.0)
    end = float(law.cosines[-1])
    assert phases.aligning_time(0.4, end, p) == pytest.approx(3.0, rel=1e-5)
    assert math.exp(2 * float(law.growth[-1])) == pytest.approx(phases.mass_gain(0.4, end, p), rel=1e-5)
    # t₁ grows like ln(1/α)/p
    slower = phases.aligning_time(0.4, 1 - 1e-6, p) - phases.aligning_time(0.4, 1 - 1e-4, p)
    assert slower == pytest.approx(math.log(10) / p, rel=1e-3)


def test_a_void_neuron_is_repelled_and_shrinks():
    c = torch.tensor([[-0.3, 0.5]]).double()
    labels = torch.tensor([1.0, -1.0]).double()
    law = phases.nominal_alignment(c, torch.ones(1).double(), labels, 3.0, 400.0)
    assert float(law.cosines[-1, 0, 1]) < 0.01
    assert float(law.cosines[-1, 0, 0]) < -0.3
    assert math.exp(2 * float(law.growth[-1])) == pytest.approx(phases.mass_gain(0.5, 0.0, 3.0), rel=1e-3)


def test_a_centre_of_the_other_class_speeds_the_own_one_up():
    """Lemmas 6 and 7 ask for |c_l| < c_k for these centres too, without need."""
    signs, labels = torch.ones(2).double(), torch.tensor([1.0, -1.0]).double()
    c = torch.tensor([[0.4, 0.0], [0.4, 0.7]]).double()
    law = phases.nominal_alignment(c, signs, labels, 3.0, 0.2)
    assert float(law.cosines[-1, 1, 0]) > float(law.cosines[-1, 0, 0]) > 0.4


@pytest.mark.parametrize("p", [2.5, 3.0, 4.0])
def test_travel_times_bound_their_equations(p):
    """Lemmas 9, 10 and 15, by stepping through the equation with equality."""

    def travel(speed, start, end, step=1e-3):
        z, t = start, 0.0
        while z < end:
            z, t = z + step * speed(z + step / 2 * speed(z)), t + step
        return t

    assert travel(lambda z: 2 * z ** (p - 1), 0.3, 0.9) <= phases.travel_time_9(2, 0.3, p) + 2e-3
    assert travel(lambda z: 2 * (1 - z), 0.3, 0.99) <= phases.travel_time_10(2, 0.99) + 2e-3
    assert travel(lambda z: (0.8 - z) * z, 0.01, 0.79) <= phases.travel_time_15(math.log(0.01), 0.79, 0.2)
    # sharp enough to be missed: from nearer to 0 the first and the third double and grow
    assert travel(lambda z: 2 * z ** (p - 1), 0.02, 0.9) > 0.5 * phases.travel_time_9(2, 0.02, p)


@pytest.mark.parametrize("p", [2.5, 3.0, 4.0])
def test_the_first_leg_is_far_shorter_than_lemma_9_says_and_masses_grow_on_it(p):
    """With the constants of the proof of Proposition 4; Lemma 14 lets masses fall."""
    cosine, gap = 0.4, 0.02
    least, factor = phases.lemma_5(gap, p)
    assert least < cosine
    first_leg = phases.aligning_time(cosine, math.sqrt(0.8), p)
    assert first_leg < 0.1 * phases.travel_time_9(p * factor / 20, least, p)
    assert phases.mass_gain(cosine, math.sqrt(0.8), p) > 1


def test_lemma_5_holds_up_to_its_gap_and_fails_above(generator):
    w = torch.randn(20_000, 3, generator=generator).double()
    centres, labels, signs = torch.eye(3).double()[:2], torch.ones(2).double(), torch.ones(len(w)).double()
    c = cosines(w, centres)
    inside = c.amax(dim=1) > 0
    gap = nondegeneracy_gap(nondegeneracy_margin(w, signs, centres, labels))[inside]
    nearest, second = c[inside].amax(dim=1), c[inside].amin(dim=1)
    printed = torch.tensor([phases.lemma_5(float(g), 3.0)[0] for g in gap]).double()
    small = gap <= 1 - 2**-0.5
    assert bool((nearest >= printed - 1e-9)[small].all())
    assert not bool((nearest >= printed)[~small].all())
    assert bool((nearest >= (2 * gap - gap**2).sqrt() - 1e-9).all())  # corrected
    ratio = torch.where(second > 0, second / nearest, torch.zeros_like(second))
    assert bool((ratio <= 1 - (2 * gap).sqrt() + 1e-9)[second > 0].all())  # (F.2)


def test_the_printed_second_leg_is_too_short_for_p_4_and_small_noise():
    for p, alpha in ((3.0, 0.01), (4.0, 0.01)):
        leg = phases.aligning_time(math.sqrt(0.8), 1 - alpha**2, p)
        printed, corrected = phases.second_leg(alpha, p)
        assert leg <= corrected
        assert (leg <= printed) == (p == 3.0)


@pytest.mark.parametrize("p", [2.5, 3.0, 4.0])
def test_the_printed_end_of_the_phase_comes_before_its_beginning(p):
    for alpha in (1e-2, 1e-4, 1e-6):
        s = OrthonormalGMM(dim=100, positive=2, negative=2, alpha=alpha, per_cluster=100, p=p)
        assert phases.alignment_end(s, 1, s.log_epsilon) < phases.aligning_time(0.7, 1 - alpha**2, p)


def test_masses_under_each_loss_solve_their_equations():
    times = torch.tensor([0.0, 1.0, 2.0, 4.0]).double()
    logistic_curve = [nominal_mass(0.01, float(t)) for t in times]
    assert phases.mass_under("square", 0.01, times).tolist() == pytest.approx(logistic_curve, rel=1e-4)
    for kind in ("exponential", "logistic"):
        near = torch.tensor([9.99, 10.0, 10.01]).double()
        low, mass, high = phases.mass_under(kind, 0.01, near).tolist()
        pull = float(phases.PULLS[kind](torch.tensor(mass).double()))
        assert (high - low) / 0.02 == pytest.approx(2 * mass * pull, rel=1e-3)
    late = float(phases.mass_under("exponential", 0.5, torch.tensor([1e6]).double()))
    assert late == pytest.approx(math.log(2e6 * math.log(2e6)), rel=0.02)


def test_the_tilt_under_the_exponential_loss_solves_its_equation():
    """δ' = -(p/2S)(δ + (pS - p + 1)) in units of Ĉμ, from S near 0 to 8, by small steps."""
    p, mass, departure, step = 3.0, 0.01, 2.0, 1e-4
    while mass < 8:
        departure -= step * p / (2 * mass) * (departure + p * mass - p + 1)
        mass += step
    s = OrthonormalGMM(dim=400, positive=1, negative=1, alpha=0.1, per_cluster=100, p=p)
    tilt = math.hypot(0.01, departure * 0.01 / 200)
    assert phases.tilt_under_margin_loss(s, 8.0) == pytest.approx(tilt, rel=1e-4)


def test_the_critical_power_is_where_the_mean_of_a_class_stops_being_a_maximum():
    """By brute force: the height Σ_own c^p - Σ_other c^p falls on every side of the mean below it, and rises somewhere above."""
    for cosine in (0.0, 0.3, 0.6):
        gram = torch.full((6, 6), cosine).double().fill_diagonal_(1)
        values, vectors = torch.linalg.eigh(gram)
        mu = vectors @ torch.diag(values.clamp_min(0).sqrt()) @ vectors.T
        mean = mu[:3].sum(dim=0) / torch.linalg.vector_norm(mu[:3].sum(dim=0))
        step = 1e-2 * (mu[0] - mu[1]) / torch.linalg.vector_norm(mu[0] - mu[1])
        near = (mean + step) / torch.linalg.vector_norm(mean + step)

        def height(u, p, mu=mu):
            powers = (mu @ u).clamp_min(0) ** p
            return float(powers[:3].sum() - powers[3:].sum())

        critical = phases.critical_power(cosine, 3, 3)
        assert height(near, 0.97 * critical) < height(mean, 0.97 * critical)
        assert height(near, 1.03 * critical) > height(mean, 1.03 * critical)
    assert phases.critical_power(0.0, 3, 3) == pytest.approx(2.0)
    assert phases.critical_power(0.5, 4, 0) == pytest.approx(2 + 4 * 0.5 / 0.5)
    assert phases.averaged_radius(0.2, 4) == pytest.approx(math.sqrt(0.1))


def test_the_border_between_centres_of_unequal_norms():
    """Where (a/r)^p = (b/r')^p in the plane of both centres, by a fine line search."""
    norms, labels = torch.tensor([1.0, 0.6]).double(), torch.tensor([1.0, -1.0]).double()
    slope = torch.linspace(0, 3, 100_001).double()
    line = torch.stack([slope, 0.6 * slope], dim=1)  # a/1 = b/0.6
    for centre, radius in ((torch.tensor([1.0, 0.0]), 0), (torch.tensor([0.0, 0.6]), 1)):
        nearest = torch.linalg.vector_norm(line - centre.double(), dim=1).min()
        assert float(phases.unequal_radius(norms, labels)[radius]) == pytest.approx(float(nearest), rel=1e-6)
    same = torch.ones(3).double()
    torch.testing.assert_close(
        phases.unequal_radius(same, torch.tensor([1.0, 1.0, -1.0]).double()), same * 2**-0.5
    )
