"""Figure 2: robust accuracy against the ℓ2 radius for six classifiers; only pReLU is as robust as the Bayes classifier."""

from collections.abc import Callable
from math import nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, below
from featureprism.lab.rows import Values
from featureprism.papers.gmm_flow.robust_accuracy import (
    AS_ROBUST,
    AVERAGING_RADIUS,
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

PROVEN = 0.68  # √2/2 but for noise and what proofs leave open
CLOSED_POINTS = 2000  # test points of the Bayes classifier, whose radii have a closed form
PROVING: dict[str, dict[str, Any]] = {  # enough cells to close the bracket of a network that is robust
    "quick": {"test_points": 8, "max_cells": 48},
    "standard": {"test_points": 16},
    "paper": {"test_points": 40},
}
MODELS = {
    "relu": "ReLU",
    "mlp": "4-layer MLP",
    "tanh": "Tanh",
    "logistic": "logistic regression",
    "prelu": "pReLU",
    "bayes": "Bayes",
}


def proven(rows: Rows) -> Values:
    """1 where the certified 50 % radius of pReLU is at least PROVEN; NaN where training did not fit every point."""

    def value(run: Rows) -> float:
        return float(run[0]["certified_half_radius"] >= PROVEN) if run[0]["train_accuracy"] == 1 else nan

    return rows.of("summary", model="prelu").per_seed(value)


def _open_part(rows: Rows) -> str:
    prelu = rows.of("summary", model="prelu")
    open_part = 1 - (prelu.column("certified_half_radius") / prelu.column("half_radius")).min()
    return f"attacks alone cannot show robustness; {open_part:.1%} of the way to the attacked radius is not closed"


def _relu_start(rows: Rows) -> str:
    norm = 1e-2 * sqrt(max(rows.distinct("dim")))
    return f"beyond 1/√20 because entries of std 1e-2 are no small start (‖w‖ = {norm:.2f}); figure-2-one-start has a smaller one"


def _deviation_from_averaging(rows: Rows) -> Values:
    """The largest |50 % radius · √20 - 1| of Tanh and logistic regression."""
    radii = np.array([half_radius(rows, model) for model in ("tanh", "logistic")])
    return np.abs(radii / AVERAGING_RADIUS - 1).max(axis=0)


def _not_robust(model: str, says: str, note: str | Callable[[Rows], str] = "") -> Claim:
    return Claim(
        model,
        source="Figure 2",
        says=says,
        quantity="ℓ2 radius at which half of the test points are broken by an attack",
        bound=below(NOT_ROBUST),
        because=MIDPOINT,
        value=lambda rows: half_radius(rows, model),
        headline=model == "relu",
        note=note,
    )


CLAIMS = (
    Claim(
        "prelu",
        source="Figure 2",
        says="A pReLU network trained from a small start is as robust as any classifier can be.",
        quantity=f"share of runs in which half of the test points withstand every attack up to {AS_ROBUST} at least",
        formula=r"r \approx \tfrac{\sqrt 2}{2}",
        bound=at_least(0.5),
        because=f"the figure shows one run, and most should look like it; {AS_ROBUST} is √2/2 = {LARGEST_RADIUS:.3f} but for noise",
        value=lambda rows: as_robust(rows, "prelu"),
        aggregate="share",
        headline=True,
        note=lambda rows: sharing_note(rows, "prelu"),
    ),
    Claim(
        "prelu-law",
        source="behind Figure 2",
        says="How many centres a single neuron of a pReLU network serves decides where the network breaks.",
        quantity="relative deviation of the median radius of the weaker class from 1/√(1 + G²), with G from the weights",
        formula=r"r = 1/\sqrt{1 + G^2}, \quad G = \sqrt s \text{ for a neuron shared by } s \text{ centres}",
        bound=at_most(0.03),
        because="the law is for centres; noise takes off a test point about α/√(2D) times the largest of twelve normal numbers",
        value=lambda rows: deviation_from_sharing(rows, "prelu"),
        origin="featureprism",
        aggregate="worst",
    ),
    Claim(
        "prelu-proven",
        source="Figure 2",
        says="Proofs for single points confirm that a pReLU network from a small start is as robust as any classifier can be.",
        quantity=f"share of runs in which half of the test points are certified up to {PROVEN} at least",
        bound=at_least(0.5),
        because=f"proofs stop about one percent below the attacked radius, which is at most √2/2 = {LARGEST_RADIUS:.3f}",
        value=proven,
        aggregate="share",
        note=_open_part,
    ),
    _not_robust("relu", "A ReLU network trained from a small start is not robust.", _relu_start),
    _not_robust(
        "mlp",
        "A ReLU network with four layers is not robust.",
        "starts with the usual gain of 1: from a small start it does not move",
    ),
    _not_robust("tanh", "A Tanh network trained from a small start is not robust."),
    _not_robust("logistic", "Logistic regression is not robust."),
    Claim(
        "averaging",
        source="behind Figure 2",
        says="Tanh networks and logistic regression break at 1/√K, where a classifier breaks that averages the features of each class.",
        quantity="relative deviation of the radius at which half of the test points break from 1/√20, the larger of the two models",
        bound=at_most(0.05),
        because="the law 1/√K holds without noise; noise of size α/√D moves a radius by a few percent",
        value=_deviation_from_averaging,
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Robust accuracy of the six classifiers."""
    from featureprism.lab.style import COLOURS

    curves = {model: (name, colour) for (model, name), colour in zip(MODELS.items(), COLOURS, strict=False)}
    return draw_curves(rows, curves, dashed=("bayes", "tanh"))


def _settings(scale: str) -> list[TrainedClassifier]:
    special: dict[str, dict[str, Any]] = {
        "prelu": PROVING[scale],
        "mlp": {"test_points": FEWER_POINTS[scale], "max_cells": 0},
        "bayes": {"test_points": CLOSED_POINTS},
    }
    return [TrainedClassifier(model=model, **SIZES[scale] | special.get(model, {})) for model in MODELS]


FIGURE_2 = Experiment(
    id="gmm-flow/figure-2",
    source="Min & Vidal 2025, Figure 2",
    title="ReLU, pReLU and the Bayes classifier under attack",
    scales={scale: _settings(scale) for scale in SIZES},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Robust accuracy against the ℓ2 radius for six classifiers trained on one mixture (K = 12+8, α = 0.1, width 200)."
        " The truth lies in the band: its lower edge is proven and checked (the MLP's through its layers; Tanh's is attacked only),"
        " its upper edge is the shortest perturbation found and verified. 50 % radii are those of the upper edge. The attack must first"
        " break F^(3) at 0.75 and spare it at 0.68. The MLP starts with gain 1: from a small start it does not move."
    ),
)
