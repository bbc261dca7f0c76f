"""Sparse codes of natural image patches."""

import numpy as np
import pytest
import torch

from featureprism.geometry import unit_rows
from featureprism.papers.feature_purification.real_codes import REAL_CODES, matching_pursuit
from papers.feature_purification.sizes import SPARSER, small

TINY = small(
    REAL_CODES,
    SPARSER | {"test_points": 30, "patches": 400, "learning": 300, "epochs": 1, "side": 4, "steps": 40},
)


def test_matching_pursuit_is_that_of_scikit_learn(generator):
    sparse_encode = pytest.importorskip("sklearn.decomposition").sparse_encode
    M = unit_rows(torch.randn(20, 20, generator=generator).double()).T
    x = torch.randn(30, 20, generator=generator).double()
    theirs = sparse_encode(x.numpy(), M.T.numpy(), algorithm="omp", n_nonzero_coefs=4)
    assert np.allclose(matching_pursuit(x, M, 4).numpy(), theirs, atol=1e-9)
