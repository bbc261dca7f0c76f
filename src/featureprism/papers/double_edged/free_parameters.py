"""Theorem 4.2's breaking norm where classes, means, norms and noise are free."""

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from featureprism._progress import part
from featureprism.attacks import flipping_norm
from featureprism.lab import Claim, Experiment, Rows, at_most, between, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.explored import seen_with
from featureprism.papers.double_edged.setting import (
    Problem,
    TrainingSetting,
    critical_norm,
    direction,
    premises,
    problem,
    separation,
    trained,
)
from featureprism.training import max_margin_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXACT = "one neuron a class"
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
    """n = ⌈k ln² d⌉ points with noise of σ = 1."""
    return TrainingSetting.of(dim, clusters, sigma=sigma, case=case, **other)


def measure(s: TrainingSetting, seed: int, context: Context) -> list[Row]:
    """Where the KKT point with one neuron for each class breaks along u, and where the limit of gradient flow does."""
    data = problem(s, seed)
    train, critical, balance = data.train, critical_norm(data), separation(s, data).balance
    nets = {EXACT: max_margin_network(train.x, train.y).net}
    nets["flow"] = trained(s, train, seed, progress=part(context.progress, 0.2, 0.8))
    rows: list[Row] = []
    for name, net in nets.items():
        seen, x, along = seen_with(net, data.test.x, direction(data))
        norm = flipping_norm(seen, x, data.test.y, along)
        measured: Row = {"kind": "critical", "network": name, "norm": norm / critical, "absolute": norm}
        measured |= {"balance": balance, "neurons": len(net.a)}
        norms = cluster_norms(seen, x, along, data, critical) if s.case == "both" else {}
        rows.append(measured | norms)
    context.progress(1.0)
    return rows + premises(s, data)


def cluster_norms(net: TwoLayerNet, x: Tensor, u: Tensor, data: Problem, critical: float) -> Row:
    """Where half of each cluster flips ÷ (‖u‖/k): the mean over clusters, the least and the largest."""
    members = [data.test.cluster == q for q in range(data.clusters.num_clusters)]
    norms = [flipping_norm(net, x[m], data.test.y[m], u) / critical for m in members if bool(m.any())]
    return {
        "mean_of_clusters": sum(norms) / len(norms),
        "least_of_clusters": min(norms),
        "most_of_clusters": max(norms),
    }


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


def _exact(rows: Rows) -> Rows:
    return rows.of("critical", network=EXACT)


def _range_of_clusters(rows: Rows) -> str:
    share, cosine = OBTUSE
    obtuse = _exact(rows).having(case="both", cosine=cosine).where(lambda row: row["balance"] == share)
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
            _exact(rows).where(lambda row: row["case"] != "both").farthest("norm", 1.0) - 1
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
        value=lambda rows: abs(_exact(rows).having(case="both").farthest("mean_of_clusters", 1.0) - 1),
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
        value=lambda rows: rate(_exact(rows).having(case="balance"), x="balance", y="absolute"),
        origin="featureprism",
        premises=requires("assumption-2-2", "theorem-3-1", case="balance"),
    ),
    Claim(
        "flow",
        source="beyond Theorem 4.2",
        says="The limit of gradient flow breaks along u = Σ y_q μ_q between ‖u‖/k and 2 ‖u‖/k for unequal classes, correlated"
        " means, unequal"
        " norms and noise of other laws.",
        quantity="norm along u that flips half of the test points ÷ (‖u‖/k), the setting farthest from 1",
        bound=between(0.9, 2.0),
        because="1 is one neuron for each class, 2 the limit of one neuron for each of many clusters; a tenth is left for noise",
        value=lambda rows: rows.of("critical", network="flow").farthest("norm", 1.0),
        origin="featureprism",
        aggregate="worst",
    ),
)


def draw(rows: Rows) -> "Figure":
    """The breaking norm over ‖u‖/k, case by case."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=5.2, height=3.0)
    for height, (case, group) in enumerate(rows.of("critical").groups("case").items()):
        for index, (network, marker) in enumerate(((EXACT, "o"), ("flow", "D"))):
            values = group.having(network=network).column("norm")
            name = None if height else {EXACT: EXACT, "flow": "limit of the flow"}[network]
            places = np.full(len(values), height + 0.15 * index)
            axes.plot(values, places, marker, color=COLOURS[index], alpha=0.6, label=name)
        axes.text(0.74, height, CASES[case], ha="right", va="center", fontsize=8)
    guide(axes, 1.0, "‖u‖/k")
    axes.set(xlabel="norm that flips half ÷ (‖u‖/k)", xlim=(0.75, 1.5), yticks=[], ylim=(6.6, -1.6))
    axes.legend(loc="upper right")
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
        "The norm along u that flips half of the test points of the KKT point with one neuron for each class and of the limit of"
        " gradient"
        " flow, with unequal classes, correlated means, unequal norms, other noise and σ > 1."
    ),
    draw=draw,
)
