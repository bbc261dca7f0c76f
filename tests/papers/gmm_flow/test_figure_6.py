from dataclasses import replace

from featureprism.lab import Rows
from featureprism.papers.gmm_flow.figure_6 import FIGURE_6, steps_to_align

TINY = {
    "gmm-flow/figure-6": [
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
        for setting in FIGURE_6.settings("quick")
    ]
}


def test_the_first_step_above_the_level_counts():
    steps = [{"kind": "step", "seed": 0, "start": "a", "step": t, "alignment": 1 - 0.5**t} for t in range(10)]
    assert steps_to_align(Rows.gather(steps), "a") == [7]  # 1 - 2⁻⁷ = 0.992
