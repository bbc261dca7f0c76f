"""The radius over clusters and labels, on cells that follow the law."""

from dataclasses import replace

import pytest
from phase_cells import cells, values

from featureprism.papers.beyond.phase_supervision import PHASE_SUPERVISION

TINY = {
    "beyond/phase-supervision": [
        replace(setting, dim=40, points=30, steps=10, test_points=1)
        for setting in PHASE_SUPERVISION.settings("quick")
        if setting.num_clusters <= 8 and setting.labels in (2, setting.num_clusters)
    ]
}


def test_partial_labels_have_their_slopes():
    table = cells(
        *(
            {"clusters": k, "labels": k // s, "per_label": s, "radius": s**-0.5, "predicted_radius": s**-0.5}
            for k in (4, 8, 16)
            for s in (1, 2, 4, 8)
            if s <= k // 2
        )
    )
    wanted = {"partial": -0.5, "law": 0.0}
    assert values(PHASE_SUPERVISION, table) == pytest.approx(wanted)
