"""One step of descent."""

from dataclasses import replace

import pytest

from featureprism.lab.context import Context
from featureprism.papers.feature_amplification.amplification import AMPLIFICATION

TINY = {
    AMPLIFICATION.id: [
        replace(s, dim=s.dim // 10, points=80, width=20) for s in AMPLIFICATION.settings("quick")
    ]
}


@pytest.mark.parametrize("dim", [50, 200])
def test_one_step_amplifies_in_any_dimension(dim):
    s = replace(AMPLIFICATION.settings("quick")[0], dim=dim, points=1000, width=200)
    s = replace(s, sigma=1 / (16 * dim**0.5), start=1 / (256 * (200 * dim) ** 0.5))
    rows = AMPLIFICATION.measure(s, 0, Context())
    assert rows[0]["over_law"] == pytest.approx(1.0, abs=0.1)
    medians = [row["correlation"] for row in rows if row.get("quantile") == 0.5]
    assert medians[0] * dim**0.5 == pytest.approx(0.6956, rel=0.15)  # weak, of order 1/√d
    assert medians[1] > 0.6
