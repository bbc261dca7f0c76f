"""The page of the contest: its sentences follow from rows whose winners are known."""

from dataclasses import replace

import pytest

import featureprism as fp
from featureprism.lab import Rows
from featureprism.papers.beyond.contest import CONTEST, ahead
from featureprism.papers.beyond.contest_page import contest_page

TINY = {
    "beyond/contest": [
        replace(CONTEST.settings("quick")[-1], width=4, epochs=1, num_subclasses=2, test_points=3)
    ]
}
SLOW = ("beyond/contest",)  # ten heads take seconds

FIELD = {"data": "wine", "classes": 3, "train_points": 100, "test_points": 30}


def head(name, family, accuracy, radius, seed):
    return {
        **FIELD,
        "kind": "head",
        "seed": seed,
        "head": name,
        "family": family,
        "held_accuracy": accuracy,
        "held_points": 2000,
        "accuracy": accuracy,
        "certified_radius": radius + 0.01 * (seed % 2),
        "attacked_radius": 1.5 * radius,
        "train_seconds": 0.1,
    }


def split(seed, ours):
    rows = [
        head("PReLUHead", "pReLU", 0.9, ours, seed),
        head("ReLU network", "MLP", 0.91, 1.0, seed),
        head("1-nearest neighbour", "neighbour", 0.6, 5.0, seed),  # far, but not accurate enough
    ]
    return [*rows, {**FIELD, "seed": seed, **ahead(rows)}]


@pytest.mark.parametrize(("ours", "winner"), [(2.0, "ours"), (0.5, "the others'"), (1.0, "undecided")])
def test_the_side_with_the_larger_proven_radius_wins(ours, winner):
    page = contest_page(Rows.gather(row for seed in range(5) for row in split(seed, ours)))
    standings = next(line for line in page.splitlines() if line.startswith("| wine"))
    assert standings.endswith(f"| {winner} |")
    assert "PReLUHead (5) | ReLU network (5)" in standings
    assert "Most accurate: ReLU network. Largest radius, whatever the accuracy: 1-nearest neighbour" in page
    assert "5 splits" in page
    assert "beyond/contest --scale quick --seeds 5 --seed 0 --out runs\n" in page
    assert f"here with version {fp.__version__} on seeds 0, 1, 2, 3, 4." in page
    assert "Not measured: cifar10 embeddings (2)" in page


def test_the_page_names_the_scale_whose_sizes_the_rows_have():
    sizes = {"train_points": 100, "test_points": 50}
    page = contest_page(Rows.gather({**row, **sizes} for seed in range(2) for row in split(seed, 2.0)))
    assert "beyond/contest --scale standard --seeds 2 --seed 0" in page


def test_the_lead_is_the_difference_over_the_sum_and_one_where_a_side_has_nobody():
    rows = split(0, 3.0)[:3]
    assert ahead(rows)["proven_lead"] == pytest.approx((3 - 1) / (3 + 1))
    assert ahead(rows)["attacked_lead"] == pytest.approx(0.5)
    assert ahead([rows[0], {**rows[1], "held_accuracy": 0.5}])["proven_lead"] == 1
    alone = ahead([{**rows[0], "held_accuracy": 0.5}, rows[1]])
    assert alone["proven_lead"] == -1
    assert alone["ours"] == "nobody"
