"""The smallest settings at which every claim of gmm-flow has a value."""

from dataclasses import replace

from featureprism.papers.gmm_flow import PAPER
from featureprism.papers.gmm_flow.window import Window, window_settings

_QUICK = {e.item: e.settings("quick") for e in PAPER.experiments}


def _tiny(item, **changes):
    return [replace(setting, **changes) for setting in _QUICK[item]]


_MODEL = {
    "dim": 30,
    "per_cluster": 5,
    "positive": 2,
    "negative": 2,
    "width": 12,
    "epochs": 60,
    "test_points": 1,
}
_DESCENT = {
    "dim": 40,
    "per_cluster": 10,
    "positive": 2,
    "negative": 2,
    "width": 12,
    "steps": 120,
    "distance_every": 20,
}
TINY = {
    "gmm-flow/figure-2": _tiny("figure-2", max_cells=1, **_MODEL),
    "gmm-flow/figure-2-one-start": _tiny("figure-2-one-start", max_cells=1, **_MODEL | {"width": 8}),
    "gmm-flow/figure-7-recipes": _tiny("figure-7-recipes", **_MODEL | {"epochs": 200})[1::3],
    "gmm-flow/figure-4": _tiny(
        "figure-4", dim=40, per_cluster=5, positive=2, negative=2, width=8, num_times=5
    ),
    "gmm-flow/figure-5": _tiny("figure-5", **_DESCENT),
    "gmm-flow/figure-6": _tiny("figure-6", **_DESCENT),
    "gmm-flow/figure-7": _tiny("figure-7", max_cells=1, **_MODEL),
    "gmm-flow/theorem-1": [
        *(
            replace(
                setting,
                dim=40,
                positive=2,
                negative=2,
                per_cluster=20,
                num_times=3,
                test_points=1,
                max_cells=1,
            )
            for setting in _QUICK["theorem-1"]
            if not isinstance(setting, Window) and (setting.series == "masses" or setting.alpha >= 0.1)
        ),
        *(
            replace(setting, dim=20, per_cluster=10, alpha=3 * setting.alpha, num_times=3)
            for setting in window_settings(3)
            if (setting.series, setting.p) in (("window", 3.0), ("fixed D", 4.0)) and setting.alpha != 0.05
        ),
    ],
    "gmm-flow/alignment": [
        replace(setting, dim=30, per_cluster=20, alpha=setting.alpha / 2)
        for setting in _QUICK["alignment"]
        if setting.whole or (setting.series == "alpha" and setting.alpha in (0.2, 0.12, 0.07))
    ],
    "gmm-flow/losses": _tiny("losses", dim=30, per_cluster=20, after=20.0, num_times=3),
    "gmm-flow/metrics": _tiny("metrics", dim=40, test_points=5),
    "gmm-flow/propositions": [
        replace(
            setting, alpha=0.01 if setting.classifier == "flow" else 0.1
        )  # where the bounds say something
        for setting in _tiny(
            "propositions", dim=60, per_cluster=20, exact_points=20, noise_draws=1, test_points=1, max_cells=1
        )
    ],
}
SLOW = (
    "gmm-flow/figure-2-one-start",
    "gmm-flow/figure-7-recipes",
)  # trained and attacked as figures 2 and 7 are
