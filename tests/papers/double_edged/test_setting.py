"""What the items of double-edged share."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.papers.double_edged.setting import MixtureSetting, clusters_of


def test_the_three_cases_have_the_means_they_say():
    for made in (MixtureSetting.usual, MixtureSetting.on_sphere, MixtureSetting.within):
        clusters = clusters_of(made(50, 6), 0)
        gram = clusters.mu @ clusters.mu.T
        assert torch.diagonal(gram).tolist() == pytest.approx([50.0] * 6)
        apart = float(gram.fill_diagonal_(0).abs().max())
        assert (apart > 1) == (made == MixtureSetting.on_sphere)
        assert clusters.labels.tolist() == [1, 1, 1, -1, -1, -1]


def test_free_settings_have_the_classes_norms_and_cosines_they_say():
    few = clusters_of(replace(MixtureSetting.usual(60, 8), positives=1), 0)
    assert int((few.labels > 0).sum()) == 1
    uneven = clusters_of(replace(MixtureSetting.usual(60, 8), norm_spread=0.3), 0)
    norms = uneven.mu.norm(dim=1) / math.sqrt(60)
    assert sorted(norms.tolist()) == pytest.approx(torch.linspace(0.7, 1.3, 8).tolist())
    mixed = clusters_of(replace(MixtureSetting.usual(60, 8), means="mixed cosines"), 0)
    cosines = (mixed.mu @ mixed.mu.T / 60)[~torch.eye(8, dtype=torch.bool)]
    assert -0.1 <= float(cosines.min()) < 0 < 0.2 < float(cosines.max()) <= 0.3
