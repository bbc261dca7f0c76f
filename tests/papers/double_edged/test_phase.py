from dataclasses import replace
from math import sqrt

import pytest
import torch

from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.phase import PHASE

TINY = {
    "double-edged/phase": [
        replace(setting, draws=1, starts=1, widths=(20,), points=40, steps=150)
        for setting in PHASE.settings("quick")
        if setting.product == -64.0
    ]
}


def test_the_law_of_one_neuron_a_cluster_counts_the_responses_that_stay_negative():
    """By brute force: the sums of the points of each cluster, tried on all points of the other clusters of their class."""
    clusters, points, product, noise, dim, draws = 4, 20, -3.0, 1.0, 400, 400
    generator = torch.Generator().manual_seed(0)
    gram = torch.full((clusters, clusters), product, dtype=torch.float64).fill_diagonal_(dim)
    mu = torch.zeros(clusters, dim).double()
    mu[:, :clusters] = torch.linalg.cholesky(gram)
    kept, each = 0, points // clusters
    for _ in range(draws):
        noises = (
            noise / sqrt(dim) * torch.randn(clusters, each, dim, generator=generator, dtype=torch.float64)
        )
        x = mu.unsqueeze(1) + noises
        responses = torch.einsum("qd,rid->qri", x.mean(dim=1), x) + 1
        kept += bool((responses[[0, 1, 2, 3], [1, 0, 3, 2]] < 0).all())
    law = theory.one_a_cluster_probability(clusters, points, product, noise)
    assert 0.2 < law < 0.8
    assert kept / draws == pytest.approx(law, abs=0.1)


def test_the_boundary_is_where_half_of_the_samples_keep_the_pattern():
    noise = theory.boundary_noise(8, 80, -64.0)
    assert theory.one_a_cluster_probability(8, 80, -64.0, noise) == pytest.approx(0.5)


def test_the_law_of_the_width_counts_neurons_that_see_their_whole_class():
    seen = torch.rand(4000, 2, 10, 3, generator=torch.Generator().manual_seed(0)) < 0.5
    share = seen.all(dim=3).any(dim=2).all(dim=1).double().mean()
    assert float(share) == pytest.approx(theory.one_a_class_probability(6, 20), abs=0.03)
