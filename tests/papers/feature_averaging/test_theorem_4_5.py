"""Averaged weights: Theorem 4.5."""

from dataclasses import replace

import pytest
import torch

from featureprism.data import orthogonal_clusters
from featureprism.papers.feature_averaging.features import feature_fit
from featureprism.papers.feature_averaging.theorem_4_5 import THEOREM_4_5
from featureprism.seeds import generator_for

TINY = {
    THEOREM_4_5.id: [
        replace(THEOREM_4_5.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1)
    ]
}


def test_averaged_weights_have_no_error():
    five = orthogonal_clusters(100, 3, 2, 1.0, generator=generator_for("centres", 0))
    own = torch.tensor([1.0, -1.0]).double().unsqueeze(1) == five.labels
    averaged = 0.07 * torch.stack([five.mu[:3].sum(dim=0), five.mu[3:].sum(dim=0)]) / 100
    fit = feature_fit(averaged, own, five.mu)
    assert fit.growth == pytest.approx(0.07)
    assert fit.relative_error < 1e-9
    spoiled = averaged.clone()
    spoiled[0] += 0.5 * torch.ones(100).double()
    mistake = feature_fit(spoiled, own, five.mu)
    assert mistake.relative_error > mistake.mean_error > 0.05
    model = mistake.growth * own.double() @ five.mu / 100
    error = torch.linalg.vector_norm(spoiled - model, dim=1).max()
    assert mistake.scaled_error == pytest.approx(10 * float(error))
