from dataclasses import replace

import matplotlib.pyplot as plt

from featureprism.lab import Outcome, Rows
from featureprism.lab.context import Context
from featureprism.lab.experiment import fields_of
from featureprism.papers.gmm_flow.figure_7 import FIGURE_7
from featureprism.papers.gmm_flow.robust_accuracy import TrainedClassifier

TINY = {
    "gmm-flow/figure-7": [
        replace(
            setting,
            dim=30,
            per_cluster=5,
            positive=2,
            negative=2,
            width=12,
            epochs=60,
            test_points=1,
        )
        for setting in FIGURE_7.settings("quick")
    ]
}


def test_a_network_that_diverges_is_not_measured():
    """It has no radius, its item is judged all the same, and the figure is drawn without it."""
    settings = [
        TrainedClassifier(
            model=model,
            positive=2,
            negative=2,
            step_size=step,
            dim=10,
            per_cluster=5,
            test_points=2,
            epochs=3,
            max_cells=1,
            width=5,
        )
        for model, step in (("polynomial large", 1e6), ("prelu large", 0.1))
    ]
    rows = Rows.gather(
        {**fields_of(s), "seed": 0, **row} for s in settings for row in FIGURE_7.measure(s, 0, Context())
    )
    (diverged,) = rows.having(model="polynomial large")
    assert diverged["ended"] == "DIVERGED"
    outcomes = {verdict.id: verdict.outcome for verdict in FIGURE_7.judge(rows)}
    assert outcomes["figure-7.large-init"] == Outcome.NOT_MEASURED
    plt.close(FIGURE_7.draw(rows))
