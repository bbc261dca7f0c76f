"""Theorem 4.2's breaking norm where classes, means, norms and noise are free."""

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, at_most, between, requires
from featureprism.papers.double_edged.setting import TrainingSetting
from featureprism.papers.double_edged.theorem_4_2 import measure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBTUSE = (1 / 4, -0.1)  # class balance and cosine of the setting in which clusters break at different norms
CASES = {
    "balance": "unequal classes",
    "balance-inside": "unequal classes, inside Assumption 2.2",
    "correlated": "correlated means",
    "both": "unequal classes, correlated means",
    "norms": "unequal norms",
    "noise": "other noise",
    "loud": "σ = 2, 3",
}


def free(case: str, dim: int, clusters: int, sigma: float = 1.0, **other: Any) -> TrainingSetting:
    """A setting of which only the exact KKT point is measured."""
    return TrainingSetting.of(dim, clusters, sigma=sigma, case=case, width=0, **other)


def _balance(
    dim: int, clusters: int, sigma: float, positives: tuple[int, ...], case: str = "balance"
) -> list[TrainingSetting]:
    return [free(case, dim, clusters, sigma, positives=number) for number in positives]


def _inside(dim: int, clusters: int, positives: tuple[int, ...]) -> list[TrainingSetting]:
    """σ = 1/√d at sizes inside Assumption 2.2."""
    return _balance(dim, clusters, 1 / sqrt(dim), positives, "balance-inside")


def _correlated(dim: int, cosines: tuple[float, ...], clusters: int = 8) -> list[TrainingSetting]:
    """Equal cosines between all means, and cosines drawn from -0.1 to 0.3."""
    equal = [free("correlated", dim, clusters, means="equal cosines", cosine=c) for c in cosines]
    return [*equal, free("correlated", dim, clusters, means="mixed cosines")]


def _others(dim: int, clusters: int = 8) -> list[TrainingSetting]:
    """Unequal classes with correlated means, unequal norms, other noise, σ > 1."""
    share, obtuse = OBTUSE
    few = round(share * clusters)
    both = [
        free("both", dim, clusters, positives=few, means="equal cosines", cosine=cosine)
        for cosine in (obtuse, 0.3)
    ]
    noises = [free("noise", dim, clusters, noise=noise) for noise in ("signs", "uneven", "heavy")]
    loud = [free("loud", dim, clusters, sigma) for sigma in (2.0, 3.0)]
    return [*both, free("norms", dim, clusters, norm_spread=0.3), *noises, *loud]


def _range_of_clusters(rows: Rows) -> str:
    share, cosine = OBTUSE
    obtuse = rows.of("critical", case="both", cosine=cosine).where(lambda row: row["balance"] == share)
    low, high = obtuse.column("least_of_clusters").min(), obtuse.column("most_of_clusters").max()
    return f"in unequal classes with obtuse means clusters break between {low:.2f} and {high:.2f} of ‖u‖/k"


CLAIMS = (
    Claim(
        "one-neuron-a-class",
        source="Theorem 4.2, sharp",
        says="The KKT point with one neuron for each class breaks along u = Σ y_q μ_q at the norm ‖u‖/k for unequal classes, correlated"
        " means, unequal norms and noise of other laws alike.",
        quantity="|norm along u that flips half of the test points ÷ (‖u‖/k) - 1|, largest over settings",
        formula=r"\lVert z\rVert = \lVert u\rVert/k",
        bound=at_most(0.06),
        because="biases add k(1 - 2c)²/(d + 1), up to 3 % at these sizes, and as much is left for noise",
        value=lambda rows: abs(
            rows.of("critical").where(lambda row: row["case"] != "both").farthest("norm", 1.0) - 1
        ),
        origin="featureprism",
    ),
    Claim(
        "both",
        source="Theorem 4.2, sharp",
        says="In unequal classes with correlated means clusters break at different norms, and at the KKT point with one neuron for each"
        " class their mean is ‖u‖/k.",
        quantity="|mean over clusters of the norm that flips half of a cluster ÷ (‖u‖/k) - 1|, largest over settings",
        bound=at_most(0.06),
        because="the law is exact without biases and noise; 6 % is left for both",
        value=lambda rows: abs(rows.of("critical", case="both").farthest("mean_of_clusters", 1.0) - 1),
        origin="featureprism",
        note=_range_of_clusters,
    ),
    Claim(
        "balance-exponent",
        source="Theorem 4.2, sharp",
        says="At the KKT point with one neuron for each class the breaking norm does not depend on how unequal the classes are,"
        " although"
        " the theorem's bound grows as 1/c.",
        quantity="exponent of the class balance c in the norm along u that flips half of the test points",
        bound=between(-0.02, 0.02),
        because="the exponent of ‖u‖/k is 0, that of √(d/(c²k)) is -1",
        value=lambda rows: rows.of("critical", case="balance").slope("balance", "absolute"),
        origin="featureprism",
        premises=requires("assumption-2-2", "theorem-3-1", case="balance"),
    ),
)


def draw(rows: Rows) -> "Figure":
    """The breaking norm over ‖u‖/k, case by case."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=5.2, height=3.0)
    for height, (case, group) in enumerate(rows.of("critical", network="exact").groups("case").items()):
        values = group.column("norm")
        axes.plot(values, np.full(len(values), height), "o", color=COLOURS[height % len(COLOURS)], alpha=0.6)
        axes.text(0.74, height, CASES[case], ha="right", va="center", fontsize=8)
    guide(axes, 1.0, "‖u‖/k")
    axes.set(xlabel="norm that flips half ÷ (‖u‖/k)", xlim=(0.75, 1.25), yticks=[], ylim=(6.6, -1.6))
    return figure


FREE_PARAMETERS = Experiment(
    id="double-edged/free-parameters",
    source="Frei et al. 2023, Theorem 4.2",
    title="The breaking norm with unequal classes, correlated means, unequal norms and other noise",
    scales={
        "quick": [
            *_balance(600, 16, 1 / sqrt(600), (1, 2, 8)),
            *_inside(3000, 8, (1,)),
            *_correlated(500, (-0.1, 0.1, 0.3)),
            *_others(500),
        ],
        "standard": [
            *_balance(1000, 16, 1.0, (1, 2, 4, 8)),
            *_balance(1000, 16, 1 / sqrt(1000), (1, 2, 4, 8)),
            *_inside(3000, 8, (1, 2)),
            *_correlated(1000, (-0.1, 0.1, 0.2, 0.3)),
            *_others(1000),
        ],
        "paper": [
            *_balance(1000, 16, 1.0, (1, 2, 4, 8)),
            *_inside(6000, 16, (1, 2, 4, 8)),
            *_correlated(3072, (-0.1, 0.1, 0.2, 0.3), 10),
            *_others(3072),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "The norm along u that flips half of the test points of the KKT point with one neuron for each class, with unequal classes,"
        " correlated means, unequal norms, other noise and σ > 1."
    ),
    draw=draw,
)
