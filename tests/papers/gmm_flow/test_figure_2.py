"""Figure 2, from one start and with its own starts: radii are withheld where they would mislead."""

import math
from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.papers.gmm_flow.figure_2 import FIGURE_2
from featureprism.papers.gmm_flow.robust_accuracy import half_radius

SMALL = {"dim": 30, "per_cluster": 5, "positive": 2, "negative": 2, "width": 12, "epochs": 60}
TINY = {
    "gmm-flow/figure-2": [
        replace(setting, max_cells=1, test_points=1, **SMALL) for setting in FIGURE_2.settings("quick")
    ]
}


def test_radii_are_withheld_when_the_attack_fails_its_self_test():
    row = {"kind": "summary", "seed": 0, "model": "relu", "half_radius": 0.3}
    good = {**row, "self_test_passed": True, "train_accuracy": 1.0}
    assert half_radius(Rows.gather([good]), "relu") == [0.3]
    for flaw in ({"self_test_passed": False}, {"train_accuracy": 0.99}):
        assert math.isnan(half_radius(Rows.gather([good | flaw]), "relu")[0])


def test_deviations_from_averaging_do_not_cancel():
    (claim,) = [c for c in FIGURE_2.claims if c.name == "averaging"]
    fitted = {"kind": "summary", "self_test_passed": True, "train_accuracy": 1.0}
    rows = Rows.gather(
        {**fitted, "seed": seed, "model": model, "half_radius": factor / math.sqrt(20)}
        for seed, factor in ((0, 0.9), (1, 1.1))
        for model in ("tanh", "logistic")
    )
    assert claim.value(rows).tolist() == pytest.approx([0.1, 0.1])
