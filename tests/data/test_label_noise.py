"""Label noise has the rate that was asked for, whatever its kind; chances against a search for λ."""

import pytest
import torch

from featureprism.data import LabelNoise, sample_xor, xor_clusters
from featureprism.data.label_noise import NOISES, budget, capped_chances, flip_chances, flips
from featureprism.data.xor import best_classifier
from featureprism.seeds import generator_for


def drawn(kind, rate, dim, num=1000, sigma=None, **other):
    clusters = xor_clusters(dim, sigma or 1 / (16 * dim**0.5), generator=generator_for("centres", 0))
    noise = LabelNoise(kind, rate, **other)
    return clusters, sample_xor(clusters, num, noise, generator=generator_for("train", 0))


@pytest.mark.parametrize("dim", [50, 5000])
@pytest.mark.parametrize(("kind", "rate"), [("constant", 0.48), ("one cluster", 0.15), ("boundary", 0.48)])
def test_counted_noise_has_the_rate_in_any_dimension(kind, rate, dim):
    _, found = drawn(kind, rate, dim, 400 if dim > 1000 else 1000, counted=True)
    assert int(found.flipped.sum()) == rate * len(found.flipped)


@pytest.mark.parametrize("kind", NOISES)
def test_coins_flip_as_many_labels_as_asked_where_they_should(kind):
    clusters, found = drawn(kind, 0.1, 10, 20_000, sigma=0.2)
    assert float(found.flipped.double().mean()) == pytest.approx(0.1, abs=0.01)
    assert torch.equal(found.data.y != found.clean, found.flipped)
    margin = best_classifier(clusters.directions, found.data.x) * found.clean
    if kind == "one cluster":
        assert set(found.data.cluster[found.flipped].tolist()) == {0}
    if kind == "boundary":
        assert float(margin[found.flipped].mean()) < float(margin[~found.flipped].mean()) - 0.1


def test_chances_are_those_of_a_search_for_their_scale(generator):
    logits = 5 * torch.randn(50, generator=generator).double()
    for total in (0.5, 3.0, 24.7, 49.0):
        low, high = -50.0, 50.0
        for _ in range(200):
            middle = (low + high) / 2
            too_much = float((logits + middle).clamp_max(0).exp().sum()) > total
            low, high = (low, middle) if too_much else (middle, high)
        torch.testing.assert_close(capped_chances(logits, total), (logits + low).clamp_max(0).exp())
    far = capped_chances(logits - 5000, 10.0)  # exp(-5000) is 0
    torch.testing.assert_close(far, capped_chances(logits, 10.0))


def test_a_counted_label_is_flipped_with_its_chance():
    margin, cluster = torch.tensor([0.1, 0.3, 0.5, 0.9, 1.0]).double(), torch.zeros(5, dtype=torch.long)
    noise = LabelNoise("boundary", 0.4, counted=True)
    generator = generator_for("flips", 0)
    draws = torch.stack([flips(noise, margin, cluster, 0.3, generator=generator) for _ in range(1000)])
    assert set(draws.sum(dim=1).tolist()) == {2}
    chances = flip_chances(noise, margin, cluster, 0.3)
    torch.testing.assert_close(draws.double().mean(dim=0), chances, atol=0.06, rtol=0)
    assert chances[0] == 1  # the cap


def test_without_spread_the_boundary_is_as_near_to_all():
    noise = LabelNoise("boundary", 0.25, counted=True)
    found = flip_chances(noise, torch.ones(8).double(), torch.zeros(8, dtype=torch.long), 0.0)
    torch.testing.assert_close(found, torch.full((8,), 0.25).double())


def test_what_cannot_be_realised_is_refused():
    with pytest.raises(ValueError, match="label noise"):
        LabelNoise("random", 0.1)
    with pytest.raises(ValueError, match="out of range"):
        LabelNoise("one cluster", 0.3)
    with pytest.raises(ValueError, match="within 1 %"):
        budget(0.05, 30)
    with pytest.raises(ValueError, match="one cluster of"):
        flip_chances(
            LabelNoise("one cluster", 0.2, counted=True), torch.ones(10).double(), torch.ones(10).long(), 1.0
        )
    with pytest.raises(ValueError, match="cannot sum"):
        capped_chances(torch.tensor([0.0, torch.inf]).double(), 1.0)
    assert budget(0.07, 100) == 7
