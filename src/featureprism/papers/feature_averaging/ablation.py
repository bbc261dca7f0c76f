"""What Figures 5 to 9 share: one field takes several values, and all values with equal shapes are trained in one batch."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.data import GaussianClusters, class_labels, equicorrelated_centres, sample
from featureprism.data.clusters import orthogonal_centres, sample_blocks
from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.experiment import SCALES
from featureprism.lab.rows import Row, Values
from featureprism.models.one_layer import stack
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import cosine_matrix, mean_of
from featureprism.papers.feature_averaging.setting import (
    Baseline,
    attack_facts,
    average_cosines,
    bracket,
    clean_accuracy,
    descent,
    matrix_rows,
    two_class_start,
)
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent

AVERAGES = 0.9  # share of the law that cosines keep where we speak of averaging
AVERAGES_READ = "cosines that keep nine tenths of the law count as averaging in every figure"


@dataclass(frozen=True, kw_only=True)
class Ablation(Baseline):
    """The field called `varied` takes each of the values; centres have norm signal·√d and equal cosines, noise is N(0, I)."""

    varied: str
    values: tuple[float, ...]
    signal: float = 1.0
    centre_cosine: float = 0.0

    def each(self) -> "list[Ablation]":
        """The setting of every value."""
        return [replace(self, **{self.varied: value}) for value in self.values]


def ablations(varied: str, values: dict[str, tuple]) -> dict[str, list[Ablation]]:
    """The settings of a figure, by scale."""
    return {
        scale: [Ablation(varied=varied, values=values[scale], test_points=60 if scale == "quick" else 300)]
        for scale in SCALES
    }


def clusters_of(s: Ablation, seed: int) -> GaussianClusters:
    """Orthogonal centres, or centres with equal cosines."""
    labels, generator = class_labels(s.positive, s.negative), generator_for("centres", seed)
    k, norm = s.num_clusters, s.signal * s.dim**0.5
    if s.centre_cosine:
        mu = equicorrelated_centres(k, s.dim, norm, s.centre_cosine, generator=generator)
    else:
        mu = orthogonal_centres(k, s.dim, norm, generator=generator)
    return GaussianClusters(mu, labels, 1.0)


def law_of(s: Ablation) -> float:
    """The own-class cosine that averaging predicts: of orthogonal centres at any signal, or of centres with equal cosines."""
    if s.centre_cosine:
        return theory.correlated_cosine(s, s.centre_cosine)
    return theory.cosine_law(s.positive, s.num_clusters, s.points, s.signal)


def trained(s: Ablation, clusters: list[GaussianClusters], seed: int) -> list[TwoLayerNet]:
    """The network of every value: in one batch where shapes agree."""
    runs = s.each()
    starts = [two_class_start(run, seed) for run in runs]
    if s.varied == "points":
        nets = []
        for run, start, own in zip(runs, starts, clusters, strict=True):
            nets.append(descent(start, run, *_points(run, own, seed)).last.double())
        return nets
    differ = s.varied in ("signal", "centre_cosine")
    samples = [
        sample(own, s.points, generator=generator_for("train", seed))
        for own in (clusters if differ else clusters[:1])
    ]
    x = torch.stack([data.x for data in samples]) if differ else samples[0].x
    rates = torch.tensor([run.step_size for run in runs]).double()
    nets = first_layer_descent(stack(starts), x, samples[0].y, step_size=rates, steps=s.steps).last
    return [nets[index] for index in range(len(runs))]


def _points(s: Ablation, clusters: GaussianClusters, seed: int) -> tuple[Tensor, Tensor]:
    """A training sample; where descent will run in float32 it is drawn in blocks, as fifty thousand points in float64 take 5 GB."""
    generator = generator_for("train", seed)
    if s.points < s.dim:
        data = sample(clusters, s.points, generator=generator)
        return data.x, data.y
    x, y = torch.empty(s.points, s.dim), torch.empty(s.points)
    done = 0
    for block in sample_blocks(clusters, s.points, generator=generator):
        x[done : done + len(block.x)], y[done : done + len(block.y)] = block.x.float(), block.y.float()
        done += len(block.x)
    return x, y


def measure(s: Ablation, seed: int, context: Context) -> list[Row]:
    """Cosines, accuracy and 50 % radius of the network of every value."""
    runs = s.each()
    clusters = [clusters_of(run, seed) for run in runs]
    nets = trained(s, clusters, seed)
    context.progress(0.6)
    rows: list[Row] = []
    for index, (value, run, own, net) in enumerate(zip(s.values, runs, clusters, nets, strict=True)):
        test = sample(own, s.test_points, generator=generator_for("test", seed))
        radii = bracket(net, test, gap=0.01)
        same, opposite = average_cosines(net.W, torch.sign(net.a.detach()), own)
        critical = run.signal * theory.correlated_radius(s.dim, s.num_clusters, run.centre_cosine)
        rows.append(
            {
                "kind": "summary",
                "value": value,
                "same_class": same,
                "opposite": opposite,
                "law": law_of(run),
                "clean_accuracy": clean_accuracy(net, test),
                **attack_facts(radii),
                "radius": radii.half_radius[1] / critical,
                "certified_radius": radii.half_radius[0] / critical,
            }
        )
        rows += matrix_rows(net.W, own, value=value)
        context.progress(0.6 + 0.4 * (index + 1) / len(runs))
    return rows


def shares_of_law(run: Rows) -> np.ndarray:
    """Mean own-class cosine ÷ its law, for every value of one seed."""
    return run.column("same_class") / run.column("law")


def least_share(rows: Rows) -> Values:
    """Mean own-class cosine ÷ its law, the least over values."""
    return rows.of("summary").per_seed(lambda run: shares_of_law(run).min())


def share_at(rows: Rows, value: float) -> Values:
    """Mean own-class cosine ÷ its law at one value."""
    return rows.of("summary", value=value).per_seed(lambda run: shares_of_law(run)[0])


def radius_error(rows: Rows) -> Values:
    """|50 % radius ÷ √(d/k) - 1|, the largest over values."""
    return rows.of("summary").per_seed(lambda run: abs(run.column("radius") - 1).max())


def draw(rows: Rows) -> Any:
    """A cosine matrix for each value, its numbers below."""
    from featureprism.lab.style import panels

    values = sorted(rows.of("summary").distinct("value"))
    figure, axes = panels(len(values), width=2.1, height=2.8)
    for panel, value in zip(axes, values, strict=True):
        own = rows.of("summary", value=value)
        title = f"{own[0]['varied'].replace('_', ' ')} = {value:g}"
        cosine_matrix(panel, rows.of("cosine", value=value), title)
        same, law, other, radius = (
            mean_of(own, name) for name in ("same_class", "law", "opposite", "radius")
        )
        numbers = f"own class {same:.3f} (law {law:.3f})\nother {other:.3f}\nradius {radius:.2f} √(d/k)"
        panel.set_xlabel(numbers, fontsize=7)
        panel.set_ylabel("")
    return figure
