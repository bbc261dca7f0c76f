"""Sparse coding data: moments in closed form, orthogonality, conditioning, ties."""

import math

import pytest
import torch

from featureprism.data import SparseCoding, dictionary, label_weights, sample_sparse, two_level
from featureprism.data.sparse_coding import (
    DICTIONARIES,
    LABEL_WEIGHTS,
    dictionary_norms,
    power_law,
    sample_points,
    three_level,
)
from featureprism.seeds import generator_for


def coding(dim=40, k=5.0, **more):
    return SparseCoding(
        dictionary("identity", dim, generator=generator_for("M", 0)),
        label_weights("signs", dim, generator=generator_for("w", 0)),
        two_level(dim, k),
        **more,
    )


@pytest.mark.parametrize("make", [two_level, three_level, power_law])
def test_moments_of_the_hidden_vector(make, generator):
    hidden = make(50, 9.0)
    z = hidden.sample(20000, generator=generator, dtype=torch.float64)
    sizes = z.abs()[z != 0]
    assert float(sizes.min()) >= 1 / 3 - 1e-9
    assert float(sizes.max()) <= 1
    assert float((z**2).mean()) == pytest.approx(hidden.second_moment, rel=0.02)
    assert float((z != 0).double().mean()) == pytest.approx(hidden.density, rel=0.02)
    assert abs(float(z.mean())) < 4 * hidden.second_moment**0.5 / z.numel() ** 0.5
    assert hidden.second_moment == pytest.approx((2 if make is two_level else 3) / 50)


def test_two_levels_have_their_probabilities(generator):
    z = two_level(50, 16.0, 0.7, 0.5).sample(40000, generator=generator, dtype=torch.float64).abs()
    assert float((z == 1).double().mean()) == pytest.approx(0.7 / 50, rel=0.03)
    assert float((z == 0.25).double().mean()) == pytest.approx(0.5 * 16 / 50, rel=0.02)


@pytest.mark.parametrize("kind", DICTIONARIES)
def test_dictionaries_are_orthogonal_and_their_norms_known(kind, generator):
    M = dictionary(kind, 24, generator=generator, dtype=torch.float64)
    assert torch.allclose(M.T @ M, torch.eye(24).double(), atol=1e-12)
    norms = dictionary_norms(M)
    row = max(sum(abs(float(v)) for v in line) for line in M)
    column = max(sum(abs(float(v)) for v in line) for line in M.T)
    assert norms.largest_row_sum == pytest.approx(row)
    assert norms.largest_column_sum == pytest.approx(column)
    expected = {"identity": 1.0, "signed permutation": 1.0, "hadamard": 2.0}
    if kind in expected:
        assert norms.largest_row_sum == pytest.approx(expected[kind])


def test_label_weights(generator):
    for kind in LABEL_WEIGHTS:
        w = label_weights(kind, 1000, generator=generator)
        assert float(w.abs().min()) >= 0.5
        assert float(w.abs().max()) <= 1.5
    assert abs(float(w.mean())) < 0.15


def test_points_without_noise_give_their_hidden_vector_back(generator):
    M = dictionary("haar", 40, generator=generator, dtype=torch.float64)
    c = SparseCoding(M, torch.ones(40).double(), two_level(40, 5.0))
    found = sample_sparse(c, 100, generator=generator)
    assert torch.allclose(found.x @ M, found.z, atol=1e-12)
    assert torch.equal(found.y, torch.sign(found.z.sum(dim=1)))


def test_noise_has_the_stated_variance(generator):
    gaussian = sample_sparse(coding(noise=0.5), 4000, generator=generator)
    spiky_coding = coding(noise=0.3, spike=0.1)
    spiky = sample_sparse(spiky_coding, 4000, generator=generator)
    assert float(((gaussian.x - gaussian.z) ** 2).sum(dim=1).mean()) == pytest.approx(0.25, rel=0.03)
    assert float(((spiky.x - spiky.z) ** 2).sum(dim=1).mean()) == pytest.approx(2 * 0.09, rel=0.05)
    assert spiky_coding.spike_rate == pytest.approx((0.3 / 0.1) ** 2 / 40)


def test_the_margin_is_kept_and_the_acceptance_told(generator):
    free, kept = coding(), coding(margin=1.25)
    wide = sample_sparse(free, 20000, generator=generator)
    narrow = sample_sparse(kept, 2000, generator=generator)
    share = float(((wide.z @ free.w).abs() >= 1.25 - 1e-5).double().mean()) * wide.acceptance
    assert float((narrow.z @ kept.w).abs().min()) >= 1.25 - 1e-4
    assert narrow.acceptance == pytest.approx(share, abs=0.02)


def test_ties_are_dropped_or_positive(generator):
    dropped = sample_sparse(coding(), 3000, generator=generator)
    printed = sample_sparse(coding(ties="positive"), 3000, generator=generator)
    w = coding().w
    assert float((dropped.z @ w).abs().min()) > 1e-3
    tied = (printed.z @ w).abs() < 1e-4
    assert float(tied.double().mean()) == pytest.approx(printed.tie_share, abs=0.02)
    assert printed.acceptance == 1.0
    assert bool((printed.y[tied] == 1).all())
    assert dropped.acceptance == pytest.approx(1 - dropped.tie_share)


def test_bad_choices_are_refused(generator):
    with pytest.raises(ValueError, match="add up to at most 1"):
        two_level(10, 20.0)
    with pytest.raises(ValueError, match="Unknown dictionary"):
        dictionary("dct", 8, generator=generator)
    with pytest.raises(ValueError, match="power of 2"):
        dictionary("hadamard", 10, generator=generator)
    with pytest.raises(ValueError, match="rule for ties"):
        coding(ties="negative")
    with pytest.raises(ValueError, match="k > 1"):
        power_law(10, 1.0)
    with pytest.raises(ValueError, match="do not fit"):
        SparseCoding(torch.eye(4), torch.ones(4), two_level(5, 1.0))
    with pytest.raises(ValueError, match="lower the margin"):
        sample_sparse(coding(dim=4, k=1.0, margin=30.0), 1, generator=generator)
    assert math.isclose(coding().dense_direction.norm(), 40**0.5, rel_tol=1e-6)


def test_non_zeros_come_like_independent_trials():
    hidden = two_level(7, 4.0, 1.0, 1.0)  # density 5/7
    z = hidden.sample(30000, generator=generator_for("z", 0), dtype=torch.float64) != 0
    counts = torch.bincount(z.sum(dim=1), minlength=8).double() / len(z)
    p = hidden.density
    law = torch.tensor([math.comb(7, c) * p**c * (1 - p) ** (7 - c) for c in range(8)]).double()
    assert torch.allclose(counts, law, atol=0.01)
    neighbours = (z[:, 1:] & z[:, :-1]).double().mean()
    assert float(neighbours) == pytest.approx(p * p, abs=0.01)
    assert float(two_level(5, 2.0, 0.0, 0.0).sample(10, generator=generator_for("z", 0)).abs().max()) == 0
    full = two_level(5, 4.0, 1.0, 1.0).sample(100, generator=generator_for("z", 1))
    assert int((full == 0).sum()) == 0


def test_points_alone_have_the_law_of_whole_samples(generator):
    M, w = torch.eye(30), label_weights("signs", 30, generator=generator)
    hidden = power_law(30, 4.0)
    x, y = sample_points(SparseCoding(M, w, hidden, ties="positive"), 20000, generator=generator)
    assert torch.equal(y, torch.where(x @ w > -1e-5, 1.0, -1.0))
    assert float((x != 0).double().mean()) == pytest.approx(hidden.density, rel=0.03)
    assert float(x.double().square().mean()) == pytest.approx(hidden.second_moment, rel=0.03)
    noisy, _ = sample_points(
        SparseCoding(M, w, hidden, noise=0.6, ties="positive"), 20000, generator=generator
    )
    expected = hidden.second_moment + 0.6**2 / 30
    assert float(noisy.double().square().mean()) == pytest.approx(expected, rel=0.03)


def test_points_alone_are_whole_samples_where_some_are_drawn_again():
    coding = SparseCoding(torch.eye(12), torch.ones(12), two_level(12, 3.0), noise=0.3)
    x, y = sample_points(coding, 50, generator=generator_for("points", 0))
    whole = sample_sparse(coding, 50, generator=generator_for("points", 0))
    assert torch.equal(x, whole.x)
    assert torch.equal(y, whole.y)
