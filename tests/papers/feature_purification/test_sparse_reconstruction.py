"""Sparse reconstruction of points by neurons."""

import pytest
import torch

from featureprism.papers.feature_purification.sparse_reconstruction import (
    SPARSE_RECONSTRUCTION,
    lasso_codes,
    sparsity_curve,
    used_at,
)
from papers.feature_purification.sizes import BATTERY, small

TINY = small(SPARSE_RECONSTRUCTION, BATTERY | {"reconstructed": 3})


def test_lasso_thresholds_softly_on_an_orthonormal_basis(generator):
    targets = torch.randn(4, 6, generator=generator).double()
    codes = lasso_codes(torch.eye(6).double(), targets, 0.3)
    assert torch.allclose(codes, torch.sign(targets) * torch.relu(targets.abs() - 0.3), atol=1e-6)
    assert [round(used, 6) for _, used, _ in sparsity_curve(torch.eye(6), torch.eye(6)[:2])] == [1.0] * 7


def test_atoms_used_at_an_error():
    curve = [(0.0, 1.0), (10.0, 0.6), (20.0, 0.2), (30.0, 0.1)]
    assert used_at(curve, 0.4) == pytest.approx(15.0)
    assert used_at(curve, 0.05) == 30.0
    assert used_at(curve, 1.0) == 0.0
