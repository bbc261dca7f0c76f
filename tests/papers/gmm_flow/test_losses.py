from dataclasses import replace

import numpy as np

from featureprism.lab import Rows
from featureprism.papers.gmm_flow.losses import LOSSES, at_end

TINY = {
    "gmm-flow/losses": [
        replace(setting, dim=30, per_cluster=20, after=20.0, num_times=3)
        for setting in LOSSES.settings("quick")
    ]
}


def test_a_flow_is_judged_at_its_last_time():
    rows = Rows.gather(
        {"kind": "time", "seed": 0, "loss": "square", "after": after, "tilt": tilt}
        for after, tilt in ((0.0, 3.0), (1.0, 1.0), (9.0, 2.0))
    )
    np.testing.assert_array_equal(at_end(rows, "tilt", loss="square"), [2.0])
