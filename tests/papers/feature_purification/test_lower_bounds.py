"""Models that Theorem 5.6 is about."""

import pytest
import torch

from featureprism.data import sample_sparse
from featureprism.networks.low_complexity import TangentNet
from featureprism.papers.feature_purification.lower_bounds import LOWER_BOUNDS
from featureprism.papers.feature_purification.setting import Battery, accuracy, coding
from papers.feature_purification.sizes import SPARSER, small

OPPONENTS = {"pool": 2500, "model_steps": 9, "model_batch": 40, "steps": 30, "anchors": 40}
TINY = small(LOWER_BOUNDS, SPARSER | OPPONENTS)


def test_tangent_features_as_printed_are_right_on_half_of_symmetric_data(generator):
    """Definition 5.5: an even function cannot fit odd labels; of x and -x it gets exactly one right."""
    sample = sample_sparse(coding(Battery(dim=40, sparsity=6), 0), 200, generator=generator)
    x, y = torch.cat([sample.x, -sample.x]), torch.cat([sample.y, -sample.y])
    W, V = (torch.randn(20, 40, generator=generator) for _ in range(2))
    assert accuracy(TangentNet(W, V, 0.5, 0.5, as_printed=True), x, y) == pytest.approx(0.5)
