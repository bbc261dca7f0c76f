"""Flow from a robust network at a small size."""

import math
from dataclasses import replace

import pytest

from featureprism.papers.double_edged.initialisation import INITIALISATION, passage

TINY = {
    "double-edged/initialisation": [
        replace(s, dim=20, points=40, sigma=0.002, scale=0.3, shares=(1.5,), radius_points=1)
        for s in INITIALISATION.settings("quick")[1:]
    ]  # a few steps to the passage
}
SLOW = frozenset(TINY)  # several brackets for each setting


def test_the_passage_is_interpolated_in_the_logarithm():
    assert passage([1.0, 4.0, 16.0], [3.0, 2.0, 1.0], 1.5) == pytest.approx(8.0)
    assert math.isnan(passage([1.0, 4.0], [3.0, 2.0], 1.5))
