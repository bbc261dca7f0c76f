"""The units of Section 3."""

import math

import pytest
import torch

from featureprism.papers.feature_purification.figure_3 import FIGURE_3, soft_threshold
from papers.feature_purification.sizes import small

TINY = small(FIGURE_3, {"dim": 60, "width": 60, "sparsity": 5, "test_points": 20})


def test_the_soft_threshold_drops_most_of_the_noise(generator):
    """E[S_b(u)²]/E[u²] = 2((1 + t²)Φ(-t) - tφ(t)) for Gaussian u with t = b/σ."""
    t = 2.0
    density, tail = math.exp(-t * t / 2) / math.sqrt(2 * math.pi), math.erfc(t / math.sqrt(2)) / 2
    u = 0.3 * torch.randn(400_000, generator=generator).double()
    passed = float((soft_threshold(u, 0.3 * t) ** 2).mean() / (u**2).mean())
    assert passed == pytest.approx(2 * ((1 + t * t) * tail - t * density), rel=0.05)
    kept = soft_threshold(torch.tensor([-1.0, -0.1, 0.2, 0.7]), 0.2)
    assert kept.tolist() == pytest.approx([-0.8, 0.0, 0.0, 0.5])
