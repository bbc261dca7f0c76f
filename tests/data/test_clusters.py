from math import sqrt

import pytest
import torch

from featureprism.data import (
    GaussianClusters,
    equicorrelated_centres,
    orthogonal_clusters,
    orthonormal_clusters,
    sample,
    sample_balanced,
    sample_in_span,
)
from featureprism.data.clusters import centres_with_cosines, sample_blocks, sphere_centres
from featureprism.data.noise import NOISE_LAWS
from featureprism.seeds import generator_for


def test_orthonormal_clusters_have_unit_centres_and_noise_of_norm_alpha(generator):
    clusters = orthonormal_clusters(500, 3, 2, 0.2, generator=generator)
    torch.testing.assert_close(clusters.mu @ clusters.mu.T, torch.eye(5).double())
    data = sample_balanced(clusters, 50, generator=generator)
    noise = (data.x - clusters.mu[data.cluster]).norm(dim=1)
    assert float(noise.mean()) == pytest.approx(0.2, rel=0.01)


def test_orthogonal_clusters_are_orthonormal_ones_times_root_d(generator):
    clusters = orthogonal_clusters(400, 2, 2, 1.0, generator=generator)
    torch.testing.assert_close(clusters.mu @ clusters.mu.T, 400 * torch.eye(4).double())
    assert clusters.noise_std == 1.0


@pytest.mark.parametrize("cosine", [-0.2, 0.0, 1e-3, 0.5])
def test_equicorrelated_centres_have_that_cosine(cosine, generator):
    mu = equicorrelated_centres(5, 40, sqrt(40), cosine, generator=generator)
    expected = torch.full((5, 5), cosine).double()
    expected.fill_diagonal_(1)
    torch.testing.assert_close(mu @ mu.T / 40, expected)


def test_sphere_centres_lie_on_the_sphere(generator):
    assert torch.allclose(
        sphere_centres(9, 30, 2.5, generator=generator).norm(dim=1), torch.tensor(2.5).double()
    )


def test_balanced_samples_are_sorted_and_equal_and_iid_ones_are_not(clusters, generator):
    balanced = sample_balanced(clusters, 7, generator=generator)
    assert torch.bincount(balanced.cluster).tolist() == [7] * 5
    assert balanced.cluster.tolist() == sorted(balanced.cluster.tolist())
    assert torch.equal(balanced.y, clusters.labels[balanced.cluster])
    loose = sample(clusters, 5000, generator=generator)
    assert torch.bincount(loose.cluster).float().std() > 0
    assert torch.bincount(loose.cluster).min() > 900


def test_impossible_mixtures_are_refused(generator):
    with pytest.raises(ValueError, match="do not fit"):
        orthonormal_clusters(4, 3, 2, 0.1, generator=generator)
    with pytest.raises(ValueError, match="cannot all have"):
        equicorrelated_centres(3, 9, 1.0, -0.9, generator=generator)
    with pytest.raises(ValueError, match="needs a cluster"):
        orthonormal_clusters(9, 3, 0, 0.1, generator=generator)
    with pytest.raises(ValueError, match=r"-1 or \+1"):
        GaussianClusters(torch.eye(2), torch.tensor([0.0, 1.0]), 0.1)
    with pytest.raises(ValueError, match="noise_std"):
        GaussianClusters(torch.eye(2), torch.tensor([-1.0, 1.0]), -0.1)


def test_centres_have_the_cosines_that_are_asked_for(generator):
    cosines = torch.tensor([[1.0, 0.3, -0.1], [0.3, 1.0, 0.0], [-0.1, 0.0, 1.0]]).double()
    mu = centres_with_cosines(cosines, 20, 3.0, generator=generator)
    torch.testing.assert_close(mu @ mu.T, 9 * cosines)
    with pytest.raises(ValueError, match="positive semidefinite"):
        centres_with_cosines(1.9 * torch.eye(3).double() - 0.9, 20, 3.0, generator=generator)


@pytest.mark.parametrize("num_points", [5, 64, 101])
def test_blocks_hold_the_points_of_one_sample(num_points, clusters):
    whole = sample(clusters, num_points, generator=torch.Generator().manual_seed(3))
    parts = list(sample_blocks(clusters, num_points, generator=torch.Generator().manual_seed(3), block=16))
    assert max(len(part.y) for part in parts) <= 16
    for name in ("x", "y", "cluster"):
        torch.testing.assert_close(
            torch.cat([getattr(p, name) for p in parts]), getattr(whole, name), rtol=0, atol=0
        )


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_every_noise_has_mean_zero_and_unit_variance_on_average(law, generator):
    noise = NOISE_LAWS[law]((400, 500), generator)
    assert noise.shape == (400, 500)
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert float((noise**2).mean()) == pytest.approx(1, rel=0.2 if law == "heavy" else 0.02)


def test_a_sample_in_its_span_has_the_inner_products_of_a_sample():
    """Slow twin: means and variances of inner products of many samples drawn in full and in their span."""
    clusters = orthogonal_clusters(40, 1, 1, 1.0, generator=generator_for("centres", 0))
    grams: dict[str, list] = {"full": [], "span": []}
    for seed in range(400):
        full = sample(clusters, 6, generator=generator_for("full", seed))
        span = sample_in_span(40, 1, 1, 6, generator=generator_for("span", seed))
        for name, data in (("full", full), ("span", span)):
            noise = data.x - data.centres[data.cluster]
            grams[name].append(torch.cat([noise @ noise.T, noise @ data.centres.T], dim=1))
    assert span.x.shape == (6, 8)
    torch.testing.assert_close(span.centres @ span.centres.T, 40 * torch.eye(2).double())
    full, span = (torch.stack(grams[name]) for name in ("full", "span"))
    # standard errors: 9 of means of numbers with std 9, a tenth of variances of 80 and 40
    assert float((full.mean(dim=0) - span.mean(dim=0)).abs().max()) < 2.5
    assert float((full.var(dim=0) / span.var(dim=0)).log().abs().max()) < 0.5
    assert float((full.var(dim=0) / span.var(dim=0)).log().mean().abs()) < 0.1
    with pytest.raises(ValueError, match="use sample"):
        sample_in_span(40, 1, 1, 39, generator=generator_for("span", 0))
