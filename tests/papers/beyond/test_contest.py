"""The contest of heads: leads and gains on rows whose winners are known."""

from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.experiment import fields_of
from featureprism.papers.beyond.contest import CIFAR, CONTEST, ahead, draw, measure

TINY = {
    "beyond/contest": [
        replace(CONTEST.settings("quick")[-1], width=4, epochs=1, num_subclasses=2, test_points=3)
    ]
}
SLOW = ("beyond/contest",)  # ten heads take seconds


def head(name, family, accuracy, radius, seed=0):
    return {
        "kind": "head",
        "data": CIFAR,
        "classes": 2,
        "seed": seed,
        "head": name,
        "family": family,
        "validation_accuracy": accuracy,
        "validation_points": 2000,
        "certified_radius": radius,
        "attacked_radius": 1.5 * radius,
    }


def split(ours, seed=0):
    return [
        head("PReLUHead", "pReLU", 0.9, ours, seed),
        head("ReLU network", "MLP", 0.91, 1.0, seed),
        head("1-nearest neighbour", "neighbour", 0.6, 5.0, seed),  # far, but not accurate enough
    ]


def test_the_lead_is_the_difference_over_the_sum_and_one_where_a_side_has_nobody():
    rows = split(3.0)
    assert ahead(rows)["proven_lead"] == pytest.approx((3 - 1) / (3 + 1))
    assert ahead(rows)["attacked_lead"] == pytest.approx(0.5)
    assert ahead([rows[0], {**rows[1], "validation_accuracy": 0.5}])["proven_lead"] == 1
    alone = ahead([{**rows[0], "validation_accuracy": 0.5}, rows[1]])
    assert alone["proven_lead"] == -1
    assert alone["featureprism"] == "nobody"


def test_a_gain_compares_a_proof_with_an_attack():
    table = Rows.gather(row for seed in (0, 1) for row in split(3.0, seed))
    assert CONTEST.claims[0].value(table).tolist() == [2.0, 2.0]


def test_missing_data_is_a_row_and_not_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("featureprism.data.images.cache_folder", lambda: tmp_path)
    setting = CONTEST.settings("quick")[0]
    (row,) = measure(setting, 0, Context(data=tmp_path))
    assert row["kind"] == "missing"
    rows = Rows.gather([{"seed": 0, **fields_of(setting), **row}])
    verdicts = CONTEST.judge(rows)
    assert {str(v.outcome) for v in verdicts} == {"not measured"}
    assert "data not found" in verdicts[1].note
    assert draw(rows)
