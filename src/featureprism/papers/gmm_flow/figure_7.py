"""Figure 7: regular polynomial ReLU against pReLU, from small and large starts."""

from typing import TYPE_CHECKING, Any

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, below
from featureprism.papers.gmm_flow.robust_accuracy import (
    AS_ROBUST,
    FEWER_POINTS,
    MIDPOINT,
    NOT_ROBUST,
    SIZES,
    TrainedClassifier,
    as_robust,
    deviation_from_sharing,
    draw_curves,
    half_radius,
    measure,
    sharing_note,
)
from featureprism.papers.gmm_flow.theory import LARGEST_RADIUS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODELS = {
    "prelu small": "pReLU, small start",
    "polynomial small": "polynomial ReLU, small start",
    "prelu large": "pReLU, large start",
    "polynomial large": "polynomial ReLU, large start",
}
FEWER: dict[str, dict[str, Any]] = {
    scale: {"test_points": points, "max_cells": 1} for scale, points in FEWER_POINTS.items()
}

CLAIMS = (
    Claim(
        "polynomial",
        source="Figure 7",
        says="A network with the regular polynomial ReLU is not robust, although it can represent every pReLU network.",
        quantity="ℓ2 radius at which half of the test points are broken by an attack",
        bound=below(NOT_ROBUST),
        because=MIDPOINT,
        value=lambda rows: half_radius(rows, "polynomial small"),
    ),
    Claim(
        "large-init",
        source="Figure 7",
        says="From a large start neither the pReLU network nor the regular polynomial ReLU network is robust.",
        quantity="ℓ2 radius at which half of the test points are broken by an attack, the larger of the two networks",
        bound=below(NOT_ROBUST),
        because=MIDPOINT,
        value=lambda rows: np.maximum(
            half_radius(rows, "prelu large"), half_radius(rows, "polynomial large")
        ),
    ),
    Claim(
        "prelu",
        source="Figure 7",
        says="A pReLU network whose entries start with variance 1e-4 is as robust as the Bayes classifier.",
        quantity=f"share of runs in which half of the test points withstand every attack up to {AS_ROBUST} at least",
        bound=at_least(0.5),
        because=f"the figure shows one run, and most should look like it; {AS_ROBUST} is √2/2 = {LARGEST_RADIUS:.3f} but for noise",
        value=lambda rows: as_robust(rows, "prelu small"),
        aggregate="share",
        note=lambda rows: sharing_note(rows, "prelu small"),
    ),
    Claim(
        "prelu-law",
        source="behind Figure 7",
        says="From the start of Figure 7 too, how many centres a single neuron serves decides where a pReLU network breaks.",
        quantity="relative deviation of the median radius of the weaker class from 1/√(1 + G²), with G from the weights",
        formula=r"r = 1/\sqrt{1 + G^2}, \quad G = \sqrt s \text{ for a neuron shared by } s \text{ centres}",
        bound=at_most(0.03),
        because="the law is for centres; noise takes off a test point about α/√(2D) times the largest of twelve normal numbers",
        value=lambda rows: deviation_from_sharing(rows, "prelu small"),
        origin="featureprism",
        aggregate="worst",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Robust accuracy of the four networks."""
    from featureprism.lab.style import COLOURS

    curves = {model: (name, colour) for (model, name), colour in zip(MODELS.items(), COLOURS, strict=False)}
    return draw_curves(rows, curves)


FIGURE_7 = Experiment(
    id="gmm-flow/figure-7",
    source="Min & Vidal 2025, Figure 7",
    title="Parametrisation and initialisation scale decide",
    scales={
        scale: [  # every claim is about attacked radii, so that one cell is enough
            TrainedClassifier(model=model, **SIZES[scale] | FEWER[scale]) for model in MODELS
        ]
        for scale in SIZES
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The same function class, other parameters: regular polynomial ReLU against pReLU, from small (std 0.01) and"
        " large (std 0.5) Gaussian starts. Radii as in Figure 2."
    ),
)
