"""Activation sparsity on scikit-learn's digits."""

import pytest

from featureprism.lab import Rows
from featureprism.papers.feature_purification.figure_5 import FIGURE_5, sparsity
from papers.feature_purification.sizes import IMAGES, small

TINY = small(FIGURE_5, IMAGES)


def test_sparsity_is_that_of_the_deeper_half():
    shares = {(0, 1): 0.9, (0, 2): 0.5, (4, 1): 0.9, (4, 2): 0.25}
    rows = Rows.gather(
        {"kind": "activation", "seed": 0, "epoch": epoch, "layer": layer, "share": share}
        for (epoch, layer), share in shares.items()
    )
    assert [sparsity(rows, when)[0] for when in ("start", "end")] == [0.5, 0.25]
    assert FIGURE_5.claims[0].value(rows) == pytest.approx([0.5])
