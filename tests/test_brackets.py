import math

import numpy as np
import pytest
import torch

from featureprism.brackets import RadiusBracket
from featureprism.data import to_signs
from featureprism.data.dataset import Dataset
from featureprism.lab.premise import Premise


def dataset(x, y):
    return Dataset(x, y, torch.zeros(len(x), dtype=torch.long), torch.zeros(1, x.shape[1]))


def test_bad_points_and_labels_are_refused_with_advice():
    x = torch.zeros(3, 2)
    with pytest.raises(ValueError, match="to_signs"):
        dataset(x, torch.tensor([0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="NaN"):
        dataset(torch.full((3, 2), math.nan), torch.ones(3))


def test_zero_one_labels_become_signs():
    assert to_signs(torch.tensor([0, 1, 1])).tolist() == [-1, 1, 1]
    with pytest.raises(ValueError, match="two label values"):
        to_signs(torch.tensor([0, 1, 2]))


def test_a_bracket_refuses_a_certificate_above_an_attack():
    RadiusBracket(np.array([0.0, 1.0]), np.array([math.inf, 1.0]))
    with pytest.raises(ValueError, match="exceeds"):
        RadiusBracket(np.array([1.0]), np.array([0.9]))
    with pytest.raises(ValueError, match="NaN"):
        RadiusBracket(np.array([math.nan]), np.array([0.9]))


def test_radii_of_a_curve_come_in_whatever_holds_numbers():
    bracket = RadiusBracket(np.array([0.1, 0.3]), np.array([0.2, 0.5]))
    for radii in ([0, 0.15, 0.4], (0.0, 0.15, 0.4), np.array([0, 0.15, 0.4]), torch.tensor([0, 0.15, 0.4])):
        low, high = bracket.accuracy(radii)
        assert low.tolist() == [1.0, 0.5, 0.0]
        assert high.tolist() == [1.0, 1.0, 0.5]


def test_a_bracket_of_points_that_nothing_flips_says_so():
    certified, unknown = (
        np.array([0.1, 0.1, 0.05]),
        np.array([math.inf, math.inf, 0.06]),
    )
    line = repr(RadiusBracket(certified, unknown))
    assert line.startswith("3 points: half break beyond 0.1 (proven), the attack flips 1; ")
    assert line.endswith("nearest to breaking: points 2 (0.06)")
    assert "inf" not in repr(RadiusBracket(certified, np.full(3, math.inf)))


def test_premises_know_their_slack():
    premise = Premise("theorem.x", "x", 0.02, "<=", 0.10)
    assert premise.holds is True
    assert premise.slack == pytest.approx(0.08)
    assert Premise("theorem.x", "x", 0.02, ">=", 0.10).slack == pytest.approx(-0.08)
    assert Premise("theorem.x", "x", math.nan, "<=", 1).holds is None
