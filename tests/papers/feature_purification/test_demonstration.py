"""The trainable demonstration at a small size."""

from dataclasses import replace

from featureprism.papers.feature_purification.demonstration import DEMONSTRATION
from papers.feature_purification.sizes import BATTERY, small, values

TINY = small(DEMONSTRATION, BATTERY | {"proven_points": 5, "max_cells": 2, "population_points": 200})
TINY = {id: [settings[0], replace(settings[1], dim=50), settings[2]] for id, settings in TINY.items()}


def test_network_and_population_are_compared_stage_by_stage():
    rows = [
        {"kind": kind, "seed": 0, "dim": 10, "is_compared": compared, "stage": stage, "worst": worst}
        for kind, pair in (("network", (0.2, 0.7)), ("population", (0.35, 0.75)))
        for stage, worst in zip(("clean", "adversarial"), pair, strict=True)
        for compared in (False, True)
    ]
    assert [round(v, 6) for v in values(DEMONSTRATION, "population-robust", rows)] == [0.15]
    assert [round(v, 6) for v in values(DEMONSTRATION, "gain", rows)] == [0.5]
