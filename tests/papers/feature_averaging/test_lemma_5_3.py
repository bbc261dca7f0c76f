"""Margins and their spread: Lemma 5.3."""

import math
from dataclasses import replace

import pytest
import torch

from featureprism.data.dataset import Dataset
from featureprism.papers.feature_averaging.lemma_5_3 import LEMMA_5_3, later_margins
from featureprism.papers.feature_averaging.margins import balance, spread_of
from featureprism.papers.feature_averaging.setting import problem, two_class_start
from featureprism.papers.feature_averaging.theorem_4_6 import size
from featureprism.training import first_layer_descent

TINY = {
    LEMMA_5_3.id: [
        replace(
            LEMMA_5_3.settings("quick")[0],
            dim=100,
            points=40,
            steps=10,
            step_size=0.03,
            test_points=1,
            times=(5, 10, 20),
        )
    ]
}


def test_balance_and_spread_of_margins_made_by_hand():
    cluster = torch.tensor([0] * 3 + [1] * 7 + [2] * 1)
    sizes = torch.tensor([3.0, 7.0, 1.0]).double()
    margin = (1.3 * (sizes + 1).log())[cluster]
    data = Dataset(torch.zeros(11, 2).double(), torch.ones(11).double(), cluster, torch.zeros(3, 2).double())
    assert balance(margin, data) == pytest.approx(1.3)
    margin[0] += 0.3
    found = spread_of(margin, data)
    slow = [[float(a - b) for a in margin for b in margin], []]
    assert found["gap"] == pytest.approx(max(slow[0]))
    assert found["cluster_gap"] == pytest.approx(0.3)
    ratios = [(1 + math.exp(float(a))) / (1 + math.exp(float(b))) for a in margin for b in margin]
    assert found["derivative_ratio"] == pytest.approx(max(ratios))


def test_margins_go_on_alone_as_descent_does_when_the_other_class_is_silent():
    s = size(2, 400, 12)  # one cluster a class: neurons of the other class fall silent at once
    data = problem(s, 0).train
    watched = []
    run = first_layer_descent(
        two_class_start(s, 0),
        data.x,
        data.y,
        step_size=s.step_size,
        steps=60,
        record=(5, 60),
        watch=lambda z: watched.append(z.clone()),
    )
    assert len(watched) == 61
    torch.testing.assert_close(watched[5], run.probes["pre_activations"][0])
    first, last = (data.y * net(data.x).detach() for net in run.snapshots)
    later = later_margins(first, data, s.step_size / (s.points * s.per_class), 5, (5, 60))
    torch.testing.assert_close(later[5], first)
    own = torch.sign(run.last.a.detach()) == data.y.unsqueeze(1)
    alone = all(bool(((z[0] > 0) == own).all()) for z in watched[5:])
    assert (later[60] - last).abs().max() < (1e-10 if alone else 0.05)
