"""Perturbations of networks on scikit-learn's digits."""

import torch

from featureprism.papers.feature_purification.figure_7 import FIGURE_7, amplified
from papers.feature_purification.sizes import IMAGES, small

TINY = small(FIGURE_7, IMAGES)


def test_perturbations_are_amplified_around_grey():
    delta = torch.tensor([-2.0, 1.0, 0.0, 0.0]).reshape(1, 1, 2, 2)
    assert amplified(delta).flatten().tolist() == [0.0, 0.75, 0.5, 0.5]
