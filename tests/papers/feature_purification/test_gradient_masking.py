"""Attacks that stop at tiny gradients."""

import torch

from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.gradient_masking import GRADIENT_MASKING, guarded_pgd
from papers.feature_purification.sizes import BATTERY, small

TINY = small(GRADIENT_MASKING, BATTERY)


def test_guarded_pgd_does_not_move_on_tiny_gradients_and_moves_on_others(generator):
    x = torch.randn(5, 3, generator=generator).double()
    y = torch.ones(5).double()
    W = torch.eye(3).double()
    assert float(guarded_pgd(SymmetricNet(1e-30 * W, 0.0, 0.1), x, y, 0.2, 4).abs().max()) < 1e-15
    moved = guarded_pgd(SymmetricNet(W, 0.0, 0.0), x, y, 0.2, 4)
    assert torch.allclose(moved, torch.full((5, 3), -0.2 / 3**0.5).double(), atol=1e-9)
