"""The smallest settings of feature-amplification for which every claim has a value."""

from dataclasses import replace

from featureprism.papers.feature_amplification import PAPER

SMALL = {"points": 80, "width": 20, "test_points": 100}
AS_THEY_ARE = ("proposition-b-1", "figure-1", "robustness", "memorisation")
OTHER = {
    "figure-1": {"steps": 6},
    # 1/16 and 1/64 are flipped
    "theorem-3-1": {"dim": 50, "sigma": 0.02, "width": 40, "points": 240, "test_points": 96},
    "label-noise": {"dim": 20, "points": 100, "rates": (0.05, 0.15)},
    "robustness": {"dim": 10, "width": 10, "steps": 20, "radius_points": 1, "max_cells": 1},
    "memorisation": {"steps": 120},
    "proposition-b-1": {"draws": 3},
    "baselines": {"steps": 2},
    "critical-c": {"points": 12, "width": 8, "dim": 40, "runs": 2},
}


def smaller(experiment) -> list:
    """The quick settings, each once, in dimensions divided by ten where several are compared."""
    changes = (SMALL if experiment.item != "proposition-b-1" else {}) | OTHER.get(experiment.item, {})
    divided = 1 if "dim" in changes or experiment.item in AS_THEY_ARE else 10
    return list(
        dict.fromkeys(
            replace(s, **({"dim": max(2, s.dim // divided)} | changes)) for s in experiment.settings("quick")
        )
    )


TINY: dict[str, list] = {e.id: smaller(e) for e in PAPER.experiments}
