"""The 50 % radius against the number of clusters and of labels: two labels, one for each cluster, and everything between."""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch

from featureprism.lab import Claim, Experiment, Rows, at_most, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import BinaryReadout, grouped_start
from featureprism.papers.beyond.phases import draw_phase
from featureprism.papers.feature_averaging import setting as averaging
from featureprism.papers.feature_averaging import theory
from featureprism.seeds import generator_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE = "beyond feature-averaging, Section 4"


@dataclass(frozen=True, kw_only=True)
class Supervision(averaging.Baseline):
    """Each label stands for `per_label` clusters of one class."""

    per_label: int

    @property
    def labels(self) -> int:
        """How many labels there are."""
        return self.num_clusters // self.per_label


def measure(s: Supervision, seed: int, context: Context) -> list[Row]:
    """One network with a label for every `per_label` clusters of a class."""
    data, generator = averaging.problem(s, seed), generator_for("labels start", seed)
    label = torch.arange(s.num_clusters) // s.per_label
    start = grouped_start(s.labels, s.group, s.dim, s.start, generator=generator)
    net = averaging.descent(start, s, data.train.x, label[data.train.cluster]).last.double()
    context.progress(0.6)
    readout = BinaryReadout(net, data.clusters.labels[:: s.per_label])
    radii = averaging.bracket(readout, data.test, gap=0.01)
    return [
        {
            "kind": "cell",
            "clusters": s.num_clusters,
            "labels": s.labels,
            "radius": radii.half_radius[1] / sqrt(s.dim),
            "certified_radius": radii.half_radius[0] / sqrt(s.dim),
            "predicted_radius": theory.partial_radius(s.dim, s.per_label) / sqrt(s.dim),
            "clean_accuracy": averaging.clean_accuracy(readout, data.test),
            **averaging.attack_facts(radii),
        }
    ]


def _off_law(run: Rows) -> float:
    return np.abs(run.column("radius") / run.column("predicted_radius") - 1).max()


CLAIMS = (
    Claim(
        "partial",
        source=SOURCE,
        says="When a label stands for s clusters, the radius of the network falls like 1/√s.",
        quantity="exponent of s in the ℓ2 radius at which half of the test points are broken, over s ≥ 2",
        bound=between(-0.6, -0.4),
        because="-1/2 is the law √(d/2s): features are averaged under each label, and only there",
        value=lambda rows: (
            rows.of("cell").where(lambda row: row["per_label"] != 1).slope("per_label", "radius")
        ),
        origin="featureprism",
    ),
    Claim(
        "law",
        source=SOURCE,
        says="The number s of clusters under one label decides the radius, √(d/2s), from two labels to a label for each cluster.",
        quantity="|ℓ2 radius at which half of the test points are broken ÷ √(d/2s) - 1|, largest over clusters and labels",
        formula=r"r = \sqrt{d/(2s)}",
        bound=at_most(0.15),
        because="the median of a dozen test points is known to about a tenth",
        value=lambda rows: rows.of("cell").per_seed(_off_law),
        origin="featureprism",
        headline=True,
    ),
)


def draw(rows: Rows) -> "Figure":
    """The radius over clusters and labels, with the law's contours."""
    return draw_phase(rows.of("cell"), "clusters", "labels", "radius", theory="predicted_radius")


def _settings(counts: tuple[int, ...], dim: int, test_points: int) -> list[Supervision]:
    return [
        Supervision(
            dim=dim,
            positive=k // 2,
            negative=k // 2,
            points=40 * k,
            per_label=per_label,
            step_size=7.5e-3 * 1536 / dim,  # as in feature-averaging/scaling
            steps=20 * k,
            test_points=test_points,
        )
        for k in counts
        for per_label in (1, 2, 4, 8, 16, 32)
        if per_label <= k // 2
    ]


PHASE_SUPERVISION = Experiment(
    id="beyond/phase-supervision",
    source=SOURCE,
    title="How fine must labels be?",
    scales={
        "quick": _settings((4, 8, 16), 1024, 12),
        "standard": _settings((4, 8, 16), 3072, 20),
        "paper": _settings((4, 8, 16, 32), 3072, 50),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "k clusters share fewer labels: each label stands for s clusters of one class, from s = 1 (a label for each cluster) to"
        " s = k/2 (two labels). Networks are trained on these labels and read as two-class classifiers. Predicted 50 % radius"
        " √(d/2s): averaging happens under each label, and only there. Radii are the attacked end, with the proven end beside"
        " it, in units of √d."
    ),
)
