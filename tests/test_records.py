import math

import pytest
import torch

from featureprism.data import to_signs
from featureprism.records import Claim, Dataset, Premise, RadiusBracket, judge


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
    RadiusBracket(torch.tensor([0.0, 1.0]), torch.tensor([math.inf, 1.0]))
    with pytest.raises(ValueError, match="exceeds"):
        RadiusBracket(torch.tensor([1.0]), torch.tensor([0.9]))
    with pytest.raises(ValueError, match="NaN"):
        RadiusBracket(torch.tensor([math.nan]), torch.tensor([0.9]))


def test_premises_know_their_slack():
    premise = Premise("x.size", "x", 0.02, "<=", 0.10)
    assert premise.holds is True
    assert premise.slack == pytest.approx(0.08)
    assert Premise("x.size", "x", 0.02, ">=", 0.10).slack == pytest.approx(-0.08)
    assert Premise("x.size", "x", math.nan, "<=", 1).holds is None


def test_claims_are_judged_on_the_mean_and_can_fail():
    claim = judge("c", "s", "t", [1.0, 2.0, 3.0], "in", (1.5, 2.5))
    assert (claim.measured, claim.spread, claim.num_seeds, claim.holds) == (2.0, 1.0, 3, True)
    assert judge("c", "s", "t", [1.0, 2.0], "<", 1.5).holds is False
    assert judge("c", "s", "t", [], "<", 1.5).holds is None
    with pytest.raises(ValueError, match="relation"):
        _ = Claim("c", "s", "t", 1.0, "==", 1.0).holds
