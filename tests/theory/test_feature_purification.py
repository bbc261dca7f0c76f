"""The theorems as data: ranges by hand, the printed schedule, the floor against Monte Carlo."""

import math

import pytest
import torch

from featureprism.data import SparseCoding, dictionary, label_weights, sample_sparse, two_level
from featureprism.data.sparse_coding import dictionary_norms
from featureprism.networks import LinearClassifier
from featureprism.seeds import generator_for
from featureprism.theory import feature_purification as theory


def setting(**more):
    values = {
        "dim": 200,
        "sparsity": 7,
        "width": 250,
        "noise": 0.3,
        "penalty": 2.0,
        "radius": 0.1,
    }
    return theory.Setting(**values | more)


def failing(premises):
    return {p.id for p in premises if not p.holds}


def test_ranges_of_k():
    """The window d^(1/3) to d^(2/5) is 5.85 to 8.32 at d = 200."""
    assert all(p.holds for p in theory.sparsity_premises(setting(width=201)))
    held = {p.source: p.holds for p in theory.sparsity_premises(setting(width=201, sparsity=5))}
    assert held["Theorem E.1"] is False
    held = {p.source: p.holds for p in theory.sparsity_premises(setting(width=201, sparsity=9))}
    assert held["Theorem F.1"] is False
    assert held["Section 2"] is True


def test_premises_of_both_trainings():
    assert all(p.holds for p in theory.clean_premises(setting(), time=500.0))
    assert failing(theory.clean_premises(setting(width=150), time=500.0)) == {"theorem-5-1.width"}
    assert failing(theory.clean_premises(setting(), time=100.0)) == {"theorem-5-1.time"}
    assert all(p.holds for p in theory.adversarial_premises(setting(width=201, noise=0.1), time=100.0))
    assert "theorem-5-3.radius" in failing(theory.adversarial_premises(setting(radius=0.5), time=100.0))
    identity = dictionary_norms(torch.eye(200))
    assert [p.holds for p in theory.linf_premises(setting(), identity, 0.01)] == [True] * 4
    assert theory.lower_bound_premises(setting(noise=0.0))[0].holds is True


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
    z = hidden.sample(4000, generator=generator)
    assert all(p.holds for p in theory.hidden_vector_premises(hidden, z))
    shared = z * torch.sign(z[:, :1]).abs().clamp_min(0.2)  # all coordinates shrink together
    assert "assumption-2-1.support" in failing(theory.hidden_vector_premises(hidden, shared))
    assert "assumption-2-1.symmetry" in failing(theory.hidden_vector_premises(hidden, z.abs()))


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
    assert theory.critical_radius(setting()) == pytest.approx(math.sqrt(200) / 49)
