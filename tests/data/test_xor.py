import pytest
import torch

from featureprism.data import LabelNoise, sample_xor, xor_clusters
from featureprism.data.xor import LAWS, best_classifier, standard_noise, with_flips
from featureprism.seeds import generator_for


@pytest.mark.parametrize("law", LAWS)
def test_every_law_is_standard(law):
    draws = standard_noise(law, 40_000, 3, generator=generator_for(law, 0))
    torch.testing.assert_close(draws.mean(dim=0), torch.zeros(3).double(), atol=0.03, rtol=0)
    covariance = draws.T @ draws / len(draws)
    torch.testing.assert_close(covariance, torch.eye(3).double(), atol=0.05, rtol=0)


def test_points_sit_at_their_centres_with_the_label_of_xor(generator):
    clusters = xor_clusters(30, 0.0, generator=generator)
    found = sample_xor(clusters, 200, LabelNoise(), generator=generator)
    torch.testing.assert_close(found.data.x, clusters.centres[found.data.cluster])
    assert not bool(found.flipped.any())
    assert torch.equal(best_classifier(clusters.directions, found.data.x).sign(), found.clean)
    assert torch.equal(found.data.y, found.clean)
    gram = clusters.directions @ clusters.directions.T
    torch.testing.assert_close(gram, torch.eye(2).double())


def test_flips_can_be_replaced(generator):
    clusters = xor_clusters(5, 0.1, generator=generator)
    found = sample_xor(clusters, 40, LabelNoise("constant", 0.2), generator=generator)
    other = with_flips(found, ~found.flipped)
    assert torch.equal(other.data.y, -found.data.y)
    assert torch.equal(other.clean, found.clean)
    assert other.data.x is found.data.x


def test_bad_choices_are_refused(generator):
    with pytest.raises(ValueError, match="law"):
        xor_clusters(5, 0.1, "cauchy", generator=generator)
    with pytest.raises(ValueError, match="two dimensions"):
        xor_clusters(1, 0.1, generator=generator)
