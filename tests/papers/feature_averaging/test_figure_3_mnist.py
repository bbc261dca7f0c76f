"""Two labels against ten on images: Figure 3 (MNIST)."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from featureprism.lab import Outcome, Rows, judge
from featureprism.papers.feature_averaging import images
from featureprism.papers.feature_averaging.figure_3_mnist import FIGURE_3_MNIST
from featureprism.seeds import generator_for

IMAGES = {
    "train_images": 256,
    "epochs": 8,
    "step_size": 0.05,
    "test_images": 12,
    "steps": 2,
    "radii": (0.5, 1.0, 4.0),
}
TINY = {FIGURE_3_MNIST.id: [replace(FIGURE_3_MNIST.settings("quick")[0], **IMAGES)]}


def test_the_interval_of_a_constant_gain_is_a_point():
    """Twice the radius for every image: every sample of the images gives about the same ratio."""
    two = torch.full((40,), 1.0)
    low, high = images.gain_interval(2 * two, two, [1.0, 2.0, 3.0], generator=generator_for("b", 0))
    assert low == high == pytest.approx(3.0)  # crossings at ½ and 1½: half of the step in which all are lost


def test_the_lead_is_read_at_half_the_radius_of_two_labels():
    curves = {("two-class", "merged decision"): (1.0, 0.8, 0.4), ("ten-class", "both"): (1.0, 0.9, 0.2)}
    rows = [
        {"kind": "curve", "seed": 0, "labels": labels, "attack": attack, "radius": r, "accuracy": accuracy}
        for (labels, attack), curve in curves.items()
        for r, accuracy in zip((0.0, 1.0, 2.0), curve, strict=True)
    ]
    half = {
        "kind": "half",
        "seed": 0,
        "labels": "two-class",
        "attack": "merged decision",
        "half_radius": 1.75,
    }
    assert images.lead_half_way(Rows.gather([*rows, half])) == pytest.approx([0.1])
    assert np.isnan(images.lead_half_way(Rows.gather([*rows, half | {"half_radius": None}]))).all()


def image_rows(*gains):
    """Rows of as many seeds, in which both attacks show the same gain."""
    rows = [
        {"kind": "gain", "seed": seed, "attack": attack, "gain": gain, "low": gain, "high": gain}
        for seed, gain in enumerate(gains)
        for attack in ("both", "ten-class cross-entropy")
    ]
    rows += [
        {"kind": "clean", "seed": seed, "labels": labels, "accuracy": 0.9}
        for seed in range(len(gains))
        for labels in ("two-class", "ten-class")
    ]
    return Rows.gather(rows)


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ((1.2, 1.2), Outcome.HOLDS),
        ((0.96, 0.96), Outcome.FAILS),
        ((0.9, 1.3), Outcome.UNDECIDED),
        ((1.2, math.nan), Outcome.NOT_MEASURED),
    ],
)
def test_a_gain_on_images_can_hold_and_fail(gains, outcome):
    (gain,) = (claim for claim in FIGURE_3_MNIST.claims if claim.name == "gain")
    verdict = judge(gain, image_rows(*gains))
    assert verdict.outcome == outcome
    assert "says little" not in verdict.note
