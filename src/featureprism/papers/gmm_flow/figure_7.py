"""Figure 7: regular polynomial ReLU against pReLU, from small and large starts."""

from typing import TYPE_CHECKING, Any

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, at_least, below
from featureprism.papers.gmm_flow.robust_accuracy import (
    FEWER_POINTS,
    MIDPOINT,
    NOT_ROBUST,
    SIZES,
    TrainedClassifier,
    draw_curves,
    half_radius,
    measure,
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
        quantity="ℓ2 radius at which half of the test points are broken by an attack",
        bound=at_least(0.69),
        because=f"the Bayes classifier reaches √2/2 = {LARGEST_RADIUS:.3f} but for a little noise",
        value=lambda rows: half_radius(rows, "prelu small"),
        note="one recipe of several: figure-7-recipes; entries of std 1e-3 (Figure 2) fail in fewer seeds, but not in none",
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
