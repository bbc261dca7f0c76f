"""How much label noise the network bears."""

from dataclasses import replace

from featureprism.lab import Rows
from featureprism.papers.feature_amplification.label_noise import LABEL_NOISE, breakdown

SIZES = {"dim": 20, "points": 100, "width": 20, "rates": (0.05, 0.15)}
TINY = {LABEL_NOISE.id: [replace(s, **SIZES) for s in LABEL_NOISE.settings("quick")]}


def test_breakdown_is_the_first_rate_that_loses_points():
    lost = {0.0: 0.0, 0.2: 0.005, 0.3: 0.2, 0.4: 0.5}
    rows = [{"kind": "rate", "seed": 0, "rate": rate, "clean_lost": share} for rate, share in lost.items()]
    assert breakdown(Rows.gather(rows)) == 0.3
    assert breakdown(Rows.gather(rows[:2])) == 0.2
