"""Single features: Theorem 4.7."""

from dataclasses import replace

import pytest
import torch

from featureprism.data import orthogonal_clusters
from featureprism.papers.feature_averaging.features import feature_fit
from featureprism.papers.feature_averaging.theorem_4_7 import THEOREM_4_7
from featureprism.seeds import generator_for

TINY = {
    THEOREM_4_7.id: [
        replace(THEOREM_4_7.settings("quick")[0], dim=100, points=40, steps=10, step_size=0.03, test_points=1)
    ]
}


def test_single_features_have_no_error():
    five = orthogonal_clusters(100, 3, 2, 1.0, generator=generator_for("centres", 0))
    fit = feature_fit(0.3 * five.mu / 100, torch.eye(5), five.mu)
    assert fit.growth == pytest.approx(0.3)
    assert fit.scaled_error < 1e-9
