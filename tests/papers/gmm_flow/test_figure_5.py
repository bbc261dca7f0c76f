from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.papers.gmm_flow.figure_5 import FIGURE_5, late_change

TINY = {
    "gmm-flow/figure-5": [
        replace(
            setting,
            dim=40,
            per_cluster=10,
            positive=2,
            negative=2,
            width=12,
            steps=120,
            distance_every=20,
        )
        for setting in FIGURE_5.settings("quick")
    ]
}


@pytest.mark.parametrize(
    ("losses", "holds"), [([1.0, 0.11, 0.1], True), ([1.0, 0.2, 0.1], False), ([1.0, 0.1, 7.0], False)]
)
def test_a_loss_that_still_falls_or_explodes_has_not_converged(losses, holds):
    (claim,) = [c for c in FIGURE_5.claims if c.name == "loss"]
    rows = Rows.gather(
        {"kind": "step", "seed": 0, "steps": 10, "step": step, "mean_square": loss}
        for step, loss in zip((0, 8, 10), losses, strict=True)
    )
    assert claim.bound.holds(late_change(rows)) == holds
