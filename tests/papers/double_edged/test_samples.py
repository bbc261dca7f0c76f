"""Sample complexity at a small size."""

from dataclasses import replace

import pytest
import torch

from featureprism.lab.context import Context
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.samples import SAMPLES, SampleSizeSetting

TINY = {
    "double-edged/samples": [
        replace(s, ratios=(0.5, 2.0), points=30, test_points=20)
        for s in SampleSizeSetting.loud_and_still(50, 8, draws=2)
    ]
}


def test_errors_on_lost_and_seen_clusters_add_up():
    """error = lost share × error there + the rest; far more points than clusters lose none."""
    s = SampleSizeSetting.loud_and_still(300, 6, draws=4, test_points=600, ratios=(1.0, 20.0))[0]
    few, many = SAMPLES.measure(s, 1, Context())[:2]
    assert few["lost"] > 0.1 > few["seen_error"]
    assert few["error"] <= few["strict_error"]
    assert many["lost"] == 0
    assert many["lost_error"] is None
    assert many["error"] == pytest.approx(many["seen_error"])


def test_the_law_of_lost_clusters_against_a_simulation(generator):
    """Share of empty boxes when n balls are thrown into k, and two independent symmetric responses that are compared."""
    thrown = torch.randint(5, (20000, 7), generator=generator)
    empty = 1 - torch.nn.functional.one_hot(thrown, 5).amax(dim=1).double().mean()
    assert theory.lost_share(5, 7) == pytest.approx(float(empty), abs=0.005)
    response, other = torch.randn(2, 200000, generator=generator).clamp_min(0)
    assert theory.lost_cluster_strict_error(2, 1) == pytest.approx(
        0.5 * float((response <= other).double().mean()), abs=0.003
    )
    assert theory.lost_cluster_error(2, 1) == 0.25
