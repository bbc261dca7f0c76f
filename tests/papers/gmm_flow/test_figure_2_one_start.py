from dataclasses import replace

from featureprism.papers.gmm_flow.figure_2_one_start import FIGURE_2_ONE_START

TINY = {
    "gmm-flow/figure-2-one-start": [
        replace(
            setting,
            dim=30,
            per_cluster=5,
            positive=2,
            negative=2,
            width=8,
            epochs=60,
            test_points=1,
            max_cells=1,
        )
        for setting in FIGURE_2_ONE_START.settings("quick")
    ]
}
SLOW = ("gmm-flow/figure-2-one-start",)  # trained and attacked as Figure 2 is


def test_all_networks_share_their_start():
    assert all(setting.one_start for setting in FIGURE_2_ONE_START.settings("paper"))
