"""Long training."""

from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.papers.feature_amplification.memorisation import CLAIMS, MEMORISATION

TINY = {
    MEMORISATION.id: [
        replace(s, points=80, width=20, test_points=100, steps=120) for s in MEMORISATION.settings("quick")
    ]
}


def test_memorisation_is_read_at_the_end_of_the_largest_and_the_smallest_dimension():
    rows = [
        {"kind": "time", "seed": 0, "dim": dim, "time": time, "clean_error": dim / 1000 + time / 10000}
        for dim in (600, 20, 200)
        for time in (3, 50, 500)
    ]
    benign, harmful = (next(c for c in CLAIMS if c.name == name) for name in ("benign", "harmful"))
    assert benign.value(Rows.gather(rows)).tolist() == pytest.approx([0.65])
    assert harmful.value(Rows.gather(rows)).tolist() == pytest.approx([0.07])
