"""What the phase diagrams read off their cells, on curves that are known."""

import math

import numpy as np
import pytest
from phase_cells import cells

from featureprism.papers.beyond.phases import crossing, farthest_from_1, largest_gap


def test_a_crossing_is_the_first_rise_past_the_level():
    assert crossing([3, 1, 2, 0], [9, 4, 2, 0], 3) == pytest.approx(0.75)
    assert math.isnan(crossing([0, 1], [4, 0], 3))


def test_the_largest_gap():
    table = cells({"k": 3, "m": 1.0, "p": 4.0}, {"k": 1, "m": 2.0, "p": 1.0}, {"k": 2, "m": 0.0, "p": 0.0})
    assert largest_gap(table, "m", "p").tolist() == [3.0]


def test_the_ratio_farthest_from_1_may_be_below():
    assert farthest_from_1(np.array([1.1, 0.8, 1.0])) == 0.8
    assert math.isnan(farthest_from_1(np.array([])))
