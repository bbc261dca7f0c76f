import math
from dataclasses import replace

import pytest
import torch

from featureprism.data import LabelNoise, sample_xor, xor_clusters
from featureprism.data.xor import LAWS, standard_noise
from featureprism.papers.feature_amplification import theory

PROOF_C0 = 4.0**5 * 1024**2 * math.exp(4)  # Definition 4.5
FIGURE_1 = theory.Sizes(
    dim=2,
    points=5000,
    width=500,
    sigma=1 / math.sqrt(50),
    noise_rate=0.15,
    start=1 / math.sqrt(16000),
    step_size=0.05,
    steps=3000,
)


def test_no_constant_fits_figure_1():
    low, high = theory.feasible_constants(FIGURE_1)
    assert low == pytest.approx(100)
    assert high < 1  # d = 2 breaks (A1) already
    failing = [p.id for p in theory.assumptions(FIGURE_1, low) if not p.holds]
    assert failing == [f"assumption.{name}" for name in ("a1", "a3", "a5", "a6")]


def test_the_theorem_stops_at_its_time():
    assert theory.stopping_time(FIGURE_1).measured == 3000 - 6
    assert theory.stopping_time(replace(FIGURE_1, steps=6)).holds
    assert not theory.stopping_time(replace(FIGURE_1, steps=5)).holds


def test_sets_are_as_large_as_the_lemma_says():
    assert theory.set_sizes(0.82, 10.0).holds
    assert not theory.set_sizes(0.8, 10.0).holds


@pytest.mark.parametrize("C", [4.0, 10.0, 16.0, 100.0])
def test_a_regime_meets_the_assumptions_it_is_the_edge_of(C):
    s = theory.Sizes.on_edge(C, dim=10**7, points=10**6, width=10**4)
    assert [p.name for p in theory.assumptions(s, C) if not p.holds] == []
    low, high = theory.feasible_constants(s)
    assert low <= C * (1 + 1e-9)
    assert high * (1 + 1e-9) >= C
    assert s.steps == s.theorem_steps == 1 + 1 / (4 * s.step_size)
    assert theory.Sizes.on_edge(C, dim=50, points=40, width=6, steps=7, start=0.5).steps == 7
    assert any(not p.holds for p in theory.assumptions(s, 100 * C))


def test_constants_of_the_proof():
    assert pytest.approx(8.26e-6, rel=1e-2) == theory.NO_CHANGE
    assert theory.edge_bound(1000, 4.0) == pytest.approx(1000 / 198, rel=0.01)
    assert theory.generalisation_bound(FIGURE_1, 0.15) > 1000  # vacuous
    assert theory.feature_change_bound(FIGURE_1, 16.0) == pytest.approx(4 / 16)
    assert theory.crossing_bound(FIGURE_1) == pytest.approx(0.15 / math.sqrt(500))


def test_events_of_the_start_and_of_the_sample(generator):
    s = theory.Sizes.on_edge(16.0, dim=300, points=800, width=200)
    clusters = xor_clusters(300, s.sigma, generator=generator)
    noisy = sample_xor(clusters, 800, LabelNoise("constant", s.noise_rate), generator=generator)
    W = s.start * torch.randn(200, 300, generator=generator).double()
    assert all(p.holds for p in theory.start_events(s, W, clusters.centres, 4.0))
    assert not theory.start_events(s, 2 * W, clusters.centres, 4.0)[1].holds
    constants = theory.sample_constants(s, noisy.data, noisy.flipped)
    assert {p.required for p in constants} == {4.0}  # √C
    assert theory.largest_c1(replace(s, points=48)) == pytest.approx((48 / math.log(20)) ** 0.25)
    assert all(p.holds for p in constants)
    # (b): ‖z‖²/d of standard Gaussians is a little above 1
    assert 1.0 < constants[2].measured < 1.6
    spoiled = replace(noisy.data, x=noisy.data.x + 0.9 * clusters.centres[0])
    assert not all(
        p.holds for p in theory.sample_constants(replace(s, sigma=s.sigma / 10), spoiled, noisy.flipped)
    )


def test_neurons_outside_a_set_add_no_more_than_their_share(generator):
    W, x = torch.randn(40, 6, generator=generator).double(), torch.randn(30, 6, generator=generator).double()
    a = torch.full((40,), 1 / math.sqrt(40)).double()
    added = (torch.relu(x @ W[:10].T) @ a[:10]).abs() / x.norm(dim=1)
    assert float(added.max()) <= math.sqrt(10 / 40) * float(torch.linalg.matrix_norm(W[:10]))  # Lemma 4.6
    assert theory.margin_bound(PROOF_C0) == pytest.approx(1 / 30266, rel=1e-3)


def test_the_margin_of_the_proof_is_half_of_that_of_its_subnetwork():
    """(45): 1/(2C_f) = (1-1/C₀)² e⁻²/(8·1024) is at least the printed e⁻²/(16·1024), since (1-1/C₀)² ≥ 1/2."""
    assert theory.margin_bound(PROOF_C0) / 2 >= theory.NO_CHANGE
    assert theory.margin_bound(PROOF_C0) ** 2 / 16 >= 2 / PROOF_C0  # |J^c|/m, as Lemma 4.6 asks for it


def test_how_large_c_must_be_for_the_proofs():
    small, large = (theory.Sizes.on_edge(C, dim=10**6, points=10**4, width=100) for C in (16.0, 1e10))
    assert not any(premise.holds for premise in theory.large_enough(small, 10.0))
    assert all(premise.holds for premise in theory.large_enough(large, 10.0))


def test_every_log_concave_law_gives_a_neuron_an_edge(generator):
    """Repair of Lemma 4.4: P(|Z| ≤ c) ≥ 0.08 c for c ≤ 0.14, Z a coordinate of mean 0 and variance 1 with a log-concave density."""
    for law in LAWS:
        z = standard_noise(law, 200_000, 1 if law != "ball" else 3, generator=generator)[:, 0].abs()
        for c in (0.02, 0.07, 0.14):
            assert float((z <= c).double().mean()) >= 0.08 * c


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"sigma": 1.2}, "σ² (A3)"),
        ({"step_size": 3.0}, "α, from above (A7)"),
        ({"step_size": 0.3}, "α, from below (A7)"),
    ],
)
def test_beyond_the_edge_of_a_regime_an_assumption_fails(change, name):
    s = theory.Sizes.on_edge(400, dim=10**7, points=10**6, width=10**4)
    ((field, factor),) = change.items()
    changed = replace(s, **{field: factor * getattr(s, field)})
    assert name in [p.name for p in theory.assumptions(changed, 400) if not p.holds]
