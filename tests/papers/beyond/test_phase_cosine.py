"""Centres that are not orthonormal: what claims read off cells whose law is written down."""

from dataclasses import replace

import pytest
from phase_cells import cells, values

from featureprism.papers.beyond.phase_cosine import PHASE_COSINE

TINY = {
    "beyond/phase-cosine": [
        replace(setting, dim=10, per_cluster=8, positive=2, negative=2, test_points=1)
        for setting in PHASE_COSINE.settings("quick")
        if setting.smallest == 0.5
        or setting.shortest == 0.8
        or (not setting.unequal and setting.cosine in (0.0, 0.6) and setting.p in (2.2, 9.0))
    ]
}
SLOW = ("beyond/phase-cosine",)  # a flow


def test_laws_of_cosine_sizes_and_norms_are_recovered():
    line = (
        (2.0, 0.5),
        (4.0, 0.5),
        (5.0, 0.6),
        (9.0, 1.0),
    )  # p and share: leaves the average of 0.5 by a tenth at p = 4.5
    even = {"cosine": 0.6, "smallest": 1.0, "shortest": 1.0, "averaged_share": 0.5, "critical_power": 4.5}
    uneven = {
        "cosine": 0.0,
        "p": 3.0,
        "share": 0.98,
        "averaged_share": 0.5,
        "critical_power": 2.0,
        "over_norms": 1.01,
    }
    table = cells(
        *({**even, "p": p, "share": share} for p, share in line),
        {**uneven, "smallest": 0.25, "shortest": 1.0, "late": 4.0},
        {**uneven, "smallest": 1.0, "shortest": 0.5, "late": 8.8},
    )
    wanted = {
        "averaged": 1.0,
        "separated": 1.0,
        "place": 1.0,
        "sizes": 1.0,
        "sizes-radius": 0.98,
        "norms": 1.01,
        "norms-late": 1.1,
    }
    assert values(PHASE_COSINE, table) == pytest.approx(wanted)
