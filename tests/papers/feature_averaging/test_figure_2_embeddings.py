"""Heads on embeddings: Figure 2 (c), (d)."""

from dataclasses import replace

import pytest
import torch

from featureprism.data.real import real_data
from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.experiment import fields_of
from featureprism.networks.grouped import GroupedNet
from featureprism.papers.feature_averaging.embedded import GROUPS, gaps
from featureprism.papers.feature_averaging.figure_2_embeddings import (
    FIGURE_2_EMBEDDINGS,
    equivalent_weights,
    least_gap,
    off_diagonal_share,
)

(QUICK,) = FIGURE_2_EMBEDDINGS.settings("quick")
TINY = {FIGURE_2_EMBEDDINGS.id: [replace(QUICK, train_points=200, descent_steps=5, step_size=1.0)]}


def test_the_first_five_classes_are_merged():
    assert GROUPS.tolist() == [0] * 5 + [1] * 5


def test_gaps_of_matrices_made_by_hand():
    groups = torch.tensor([0, 0, 1, 1])
    same = groups.unsqueeze(1) == groups
    averaging = gaps(torch.where(same, 0.7, -0.2), groups)
    assert averaging.averaging == pytest.approx(0.9)
    assert averaging.decoupling == pytest.approx(0.7 - (4 * 0.7 - 8 * 0.2) / 12)
    decoupled = gaps(torch.eye(4), groups)
    assert decoupled.decoupling == 1.0
    assert decoupled.averaging == pytest.approx(0.5)


def test_uniformly_larger_and_nearly_diagonal_matrices_made_by_hand():
    def rows(table):
        return Rows.gather(
            {"kind": "cosine", "seed": 0, "cluster": i, "neuron": j, "cosine": float(table[i, j])}
            for i in range(10)
            for j in range(10)
        )

    same = GROUPS.unsqueeze(1) == GROUPS
    table = torch.where(same, 0.7, -0.2)
    assert least_gap(rows(table)) == pytest.approx(0.9)
    table[0, 4], table[0, 5] = 0.1, 0.3
    assert least_gap(rows(table)) == pytest.approx(-0.2)
    table = 0.8 * torch.eye(10) + 0.2 * torch.ones(10, 10)
    assert off_diagonal_share(rows(table)) == pytest.approx(0.2)
    assert off_diagonal_share(rows(2 * torch.eye(10) - table)) == pytest.approx(0.2)


def test_three_neurons_at_a_time_make_a_weight():
    W = torch.arange(30.0).double().unsqueeze(1)
    for k in (2, 10):
        found = equivalent_weights(GroupedNet(W.reshape(k, 30 // k, 1)))
        assert found[:, 0].tolist() == [1.0 + 3 * i for i in range(10)]


@pytest.mark.slow
def test_what_holds_on_embeddings_at_quick(data_folder):
    if real_data(QUICK.data, data_folder) is None:
        pytest.skip("the CIFAR-10 embeddings are not here")
    rows = Rows.gather(
        {"seed": seed, **fields_of(QUICK), **row}
        for seed in (0, 1)
        for row in FIGURE_2_EMBEDDINGS.measure(QUICK, seed, Context(data=data_folder))
    )
    for claim in FIGURE_2_EMBEDDINGS.claims:
        if claim.name != "uniform":
            assert claim.bound.holds(float(claim.value(rows).mean())), claim.name
