"""Lottery tickets of filters on scikit-learn's digits."""

import pytest
import torch
from scipy.stats import spearmanr

from featureprism.papers.feature_purification.figure_8_alexnet import (
    FIGURE_8_ALEXNET,
    own_minus_others,
    rank_correlation,
    tickets,
)
from papers.feature_purification.sizes import IMAGES, small

TINY = small(FIGURE_8_ALEXNET, IMAGES)


def test_a_ticket_is_what_the_start_favoured_and_what_was_gained_beside_it(generator):
    """Two neurons and the axes: the start counts for nothing in what is gained; each gains what it favoured, or both the same."""
    begin = torch.tensor([[2.0, 0.0, 0.0, 0.1], [0.0, 3.0, 0.0, 0.0]])
    end = begin + torch.tensor([[0.0, 0.0, 0.7, 0.0], [0.0, -1.0, 0.0, 5.0]])
    early, late = tickets(begin, end, torch.eye(4))
    assert early.argmax(dim=1).tolist() == [0, 1]
    assert late.argmax(dim=1).tolist() == [2, 3]
    assert float(late[1, 1]) == pytest.approx(0)
    assert own_minus_others(torch.eye(3), torch.eye(3)) == pytest.approx(1)
    assert own_minus_others(torch.eye(3), torch.ones(3, 3)) == pytest.approx(0)
    x, y = torch.rand(2, 30, generator=generator)
    assert rank_correlation(x, y) == pytest.approx(spearmanr(x, y).statistic)
