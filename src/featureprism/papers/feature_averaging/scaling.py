"""The 50 % radius against the number of clusters, for both kinds of supervision and unequal classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from featureprism.lab import Claim, Experiment, Rate, Rows, at_most, between, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import BinaryReadout
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import NETWORKS
from featureprism.papers.feature_averaging.setting import (
    ASSUMPTIONS,
    Baseline,
    attack_facts,
    bracket,
    problem,
    train_k_class,
    train_two_class,
)

RATE = 7.5e-3  # 7.5 times the baseline: the margins of many clusters grow slowly, and averaging does not mind (Figure 6)
SQUARE_ROOT, CONSTANT = between(-0.54, -0.46), between(-0.05, 0.05)  # exponents of √(d/k) and √d in k


@dataclass(frozen=True, kw_only=True)
class SplitClusters(Baseline):
    """Clusters shared out between the classes: equally, or three quarters of them positive."""

    split: str


def measure(s: SplitClusters, seed: int, context: Context) -> list[Row]:
    """Radii of the two-class and the k-class network on k clusters, and the assumptions of their theorems."""
    data = problem(s, seed)
    two = train_two_class(s, data.train, seed)
    context.progress(0.3)
    fine = BinaryReadout(train_k_class(s, data.train, seed), data.clusters.labels)
    context.progress(0.7)
    rows: list[Row] = []
    for name, net in (("two-class", two), ("k-class", fine)):
        radii = bracket(net, data.test, gap=0.01, boxes=1)
        rows.append(
            {
                "kind": "radius",
                "network": name,
                "clusters": s.num_clusters,
                **attack_facts(radii),
                "radius": radii.half_radius[1] / s.dim**0.5,
                "certified_radius": radii.half_radius[0] / s.dim**0.5,
            }
        )
    return rows + [premise.as_row() for premise in theory.premises(s, data.clusters.mu)]


def _in_clusters(rows: Rows, network: str, split: str) -> Rate:
    """The rate of the 50 % radius in k."""
    return rate(rows.of("radius", network=network, split=split), x="clusters", y="radius")


def _units_lost(rows: Rows) -> Values:
    """The radius of two labels in units of √(d/k): at the most clusters ÷ at the fewest, equal classes."""

    def lost(own: Rows) -> float:
        units = own.column("radius") * np.sqrt(own.column("clusters"))
        return float(units[own.column("clusters").argmax()] / units[own.column("clusters").argmin()])

    return rows.of("radius", network="two-class", split="equal").per_seed(lost)


CLAIMS = (
    Claim(
        "two-class",
        source="Section 3, Theorem 4.5 (3)",
        says="The radius of a network trained with two labels is of order √(d/k) when both classes have equally many clusters.",
        quantity="exponent of the radius at which an attack breaks half of the test points in k",
        formula=r"\delta_{1/2} = \Theta(\sqrt{d/k})",
        bound=SQUARE_ROOT,
        because="-1/2, with 0.04 for few and small k",
        value=lambda rows: _in_clusters(rows, "two-class", "equal"),
        premises=requires(*ASSUMPTIONS, "theorem-4-5", split="equal"),
    ),
    Claim(
        "k-class",
        source="Theorem 4.7 (3)",
        says="The radius of a network trained with a label for each cluster is of order √d, however many clusters there are.",
        quantity="exponent of the radius at which an attack breaks half of the test points in k, classes with equally many clusters",
        formula=r"\delta_{1/2} = \Theta(\sqrt{d})",
        bound=CONSTANT,
        because="0, with 0.05 for few and small k",
        value=lambda rows: _in_clusters(rows, "k-class", "equal"),
        premises=requires(*ASSUMPTIONS, "theorem-4-7", split="equal"),
    ),
    Claim(
        "two-class-unequal",
        source="Section 3, Theorem 4.5 (3)",
        says="The radius of a network trained with two labels is of order √(d/k) when one class has three times the clusters of the"
        " other.",
        quantity="exponent of the radius at which an attack breaks half of the test points in k",
        formula=r"\delta_{1/2} = \Theta(\sqrt{d/k})",
        bound=SQUARE_ROOT,
        because="-1/2, with 0.04 for few and small k",
        value=lambda rows: _in_clusters(rows, "two-class", "unequal"),
        premises=requires(*ASSUMPTIONS, "theorem-4-5", split="unequal"),
    ),
    Claim(
        "k-class-unequal",
        source="Theorem 4.7 (3)",
        says="The radius of a network trained with a label for each cluster is of order √d when one class has three times the"
        " clusters of the other.",
        quantity="exponent of the radius at which an attack breaks half of the test points in k",
        formula=r"\delta_{1/2} = \Theta(\sqrt{d})",
        bound=CONSTANT,
        because="0, with 0.05 for few and small k",
        value=lambda rows: _in_clusters(rows, "k-class", "unequal"),
        premises=requires(*ASSUMPTIONS, "theorem-4-7", split="unequal"),
    ),
    Claim(
        "vanishes",
        source="Section 4.1, after Theorem 4.5",
        says="A network trained with two labels is only o(√(d/k))-robust.",
        quantity="radius at which an attack breaks half of the test points ÷ √(d/k) at the most clusters ÷ at the fewest",
        formula=r"\delta_{1/2} = o(\sqrt{d/k})",
        bound=at_most(0.9),
        because="o(·) is read as any fall by a tenth; Section 3 says that the radius is Θ(√k) times smaller than √d",
        value=_units_lost,
        premises=requires(*ASSUMPTIONS, "theorem-4-5", split="equal"),
    ),
)


def draw(rows: Rows) -> Any:
    """Radius against k, equal and unequal classes."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels, plain_ticks

    figure, axes = panels(2, width=3.8, height=3.0)
    for panel, split in zip(axes, ("equal", "unequal"), strict=True):
        for colour, name in zip(COLOURS, ("two-class", "k-class"), strict=False):
            own = rows.of("radius", network=name, split=split)
            if own:
                x, _, attacked, _ = over_seeds(own, "clusters", "radius")
                certified = over_seeds(own, "clusters", "certified_radius")[2]
                band(panel, x, certified, attacked, attacked, colour, NETWORKS[name])
                panel.plot(x, attacked, "o", color=colour, markersize=4)
                if name == "two-class":
                    panel.plot(x, 1 / np.sqrt(x), ":", color="black", label="√(d/k)")
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="clusters k",
            ylabel="50 % radius ÷ √d",
            title=f"{split} classes",
        )
        plain_ticks(panel, sorted(rows.of("radius", split=split).distinct("clusters")))
        plain_ticks(panel, (0.2, 0.3, 0.4, 0.5, 0.7), along="y")
    axes[0].legend()
    return figure


def _settings(counts: tuple[int, ...], dim: int, test_points: int) -> list[SplitClusters]:
    def split(name: str, k: int, positive: int) -> SplitClusters:
        return SplitClusters(
            split=name,
            dim=dim,
            positive=positive,
            negative=k - positive,
            points=40 * k,
            per_class=k // 2,
            step_size=RATE,
            steps=20 * k,
            test_points=test_points,
        )

    ends = (counts[0], counts[-1])
    return [*(split("equal", k, k // 2) for k in counts), *(split("unequal", k, 3 * k // 4) for k in ends)]


SCALING = Experiment(
    id="feature-averaging/scaling",
    source="Li et al. 2025, Section 4",
    title="How the radius changes with the number k of clusters, with two labels and with k",
    scales={
        "quick": _settings((4, 8, 16), 1536, 80),
        "standard": _settings((4, 8, 16, 32), 4096, 100),
        "paper": _settings((4, 8, 16, 32), 8192, 100),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "50 % radii (attacked end, with the proven end beside it) for 40 points a cluster, k neurons (m = k/2 of each sign,"
        " Assumption 4.3) and steps in proportion to k. Unequal: three quarters of the clusters are positive."
    ),
)
