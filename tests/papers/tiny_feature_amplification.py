"""The smallest settings of feature-amplification for which every claim has a value."""

from dataclasses import replace

from featureprism.papers.feature_amplification import PAPER

SMALL = {"points": 80, "width": 20, "test_points": 100}
OTHER = {
    "figure-1": {"steps": 6},
    "label-noise": {"dim": 20, "points": 100, "rates": (0.05, 0.15)},
    "robustness": {"dim": 10, "width": 10, "steps": 20, "radius_points": 1, "max_cells": 1},
    "memorisation": {"steps": 120},
}
TINY: dict[str, list] = {
    e.id: list(dict.fromkeys(replace(s, **(SMALL | OTHER.get(e.item, {}))) for s in e.settings("quick")))
    for e in PAPER.experiments
}
