"""The 50 % radius against the number of clusters, for both kinds of supervision and unequal classes."""

from dataclasses import dataclass

import numpy as np

from featureprism.context import Context
from featureprism.lab import Claim, Experiment, Rows, Values, at_most, between, requires
from featureprism.networks import BinaryReadout
from featureprism.papers.feature_averaging.setting import (
    Setting,
    attack_facts,
    bracket,
    problem,
    train_k_class,
    train_two_class,
)
from featureprism.papers.feature_averaging.theorems import ASSUMPTIONS
from featureprism.records import Row
from featureprism.theory import feature_averaging as theory

RATE = 7.5e-3  # 7.5 times the baseline: the margins of many clusters grow slowly, and averaging does not mind (Figure 6)


@dataclass(frozen=True, kw_only=True)
class Split(Setting):
    """Clusters shared out between the classes: equally, or three quarters of them positive."""

    split: str


def measure(s: Split, seed: int, context: Context) -> list[Row]:
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
                "radius": float(radii.attacked.median()) / s.dim**0.5,
                "certified_radius": float(radii.certified.median()) / s.dim**0.5,
            }
        )
    return rows + [premise.as_row() for premise in theory.premises(s, data.clusters.mu)]


ORDERS = {
    "two-class": (
        "Section 3, Theorem 4.5 (3)",
        "two labels: the radius is of order √(d/k)",
        between(-0.54, -0.46),
    ),
    "k-class": ("Theorem 4.7 (3)", "k labels: the radius is of order √d", between(-0.05, 0.05)),
}
THEOREM = {"two-class": "theorem-4-5", "k-class": "theorem-4-7"}
CLASSES = {"equal": ("", "equal classes"), "unequal": ("-unequal", "one class three times the other")}


def _claim(network: str, split: str) -> Claim:
    (source, order, bound), (ending, classes) = ORDERS[network], CLASSES[split]
    return Claim(
        f"{network}{ending}",
        source,
        f"{order}: slope of log radius against log k, {classes}",
        lambda rows: rows.of("radius", network=network, split=split).slope("clusters", "radius"),
        bound,
        premises=requires(*ASSUMPTIONS, THEOREM[network], split=split),
    )


def _units_lost(rows: Rows) -> Values:
    """The radius of two labels in units of √(d/k): at the most clusters ÷ at the fewest, equal classes."""

    def lost(own: Rows) -> float:
        units = own.column("radius") * np.sqrt(own.column("clusters"))
        return float(units[own.column("clusters").argmax()] / units[own.column("clusters").argmin()])

    return rows.of("radius", network="two-class", split="equal").per_seed(lost)


VANISHES = Claim(
    "vanishes",
    "Section 4.1, after Theorem 4.5",
    "two labels are only o(√(d/k))-robust: radius ÷ √(d/k) at the most clusters ÷ at the fewest",
    _units_lost,
    at_most(0.9),
    note="read as any fall by a tenth; Section 3 has the radius Θ(√k) times smaller than √d, which is what is measured",
    premises=requires(*ASSUMPTIONS, "theorem-4-5", split="equal"),
)


def _settings(counts: tuple[int, ...], dim: int, test_points: int) -> list[Split]:
    def split(name: str, k: int, positive: int) -> Split:
        return Split(
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
    title="Two labels: the radius falls like 1/√k; k labels: it stays",
    scales={
        "quick": _settings((4, 8, 16), 1536, 80),
        "standard": _settings((4, 8, 16, 32), 4096, 100),
        "paper": _settings((4, 8, 16, 32), 8192, 100),
    },
    measure=measure,
    claims=(*(_claim(network, split) for split in CLASSES for network in ORDERS), VANISHES),
    about=(
        "50 % radii (attacked end, with the proven end beside it) for 40 points a cluster, k neurons (m = k/2 of each sign,"
        " Assumption 4.3) and"
        " steps in proportion to k. Unequal: three quarters of the clusters are positive."
    ),
)
