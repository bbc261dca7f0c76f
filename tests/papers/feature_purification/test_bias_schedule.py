"""Where a growing bias loses the features."""

import math

import pytest

from featureprism.lab import Rows
from featureprism.papers.feature_purification.bias_schedule import BIAS_SCHEDULE, SHARES, half_share
from papers.feature_purification.sizes import BATTERY, small

TINY = small(BIAS_SCHEDULE, BATTERY | {"schedule_steps": 20, "schedule_batch": 50})


def test_where_half_of_the_features_are_lost():
    rows = [
        {"kind": "rate", "seed": 0, "share": share, "covered": covered}
        for share, covered in zip(SHARES, (0.8, 0.8, 0.8, 0.2, 0.0), strict=True)
    ]
    assert half_share(Rows.gather(rows)).tolist() == pytest.approx([math.sqrt(2)])
    kept = [row | {"covered": 0.8} for row in rows]
    assert half_share(Rows.gather(kept)).tolist() == [math.inf]
