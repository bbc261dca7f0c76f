"""What the items of the paper share: clusters and samples of a setting, and networks trained close to a KKT point."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Any, NamedTuple, TypeVar

import torch

from featureprism._progress import Progress, no_progress, part
from featureprism.data import GaussianClusters, class_labels, equicorrelated_centres, sample, sample_by_gram
from featureprism.data.by_gram import sphere_gram
from featureprism.data.clusters import centres_with_cosines, orthogonal_centres, sample_blocks, sphere_centres
from featureprism.data.dataset import Dataset
from featureprism.data.noise import NOISE_LAWS
from featureprism.lab import Rows, requires
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet, biased_start
from featureprism.papers.double_edged import theory
from featureprism.seeds import generator_for
from featureprism.training import flow_limit, margin_descent
from featureprism.training.margins import margin_ascent

FLOW_STEP = 0.5  # of ln(1/L)
DESCENT_STEP = 0.1
COSINES = (-0.1, 0.3)  # between which mixed cosines lie
MOST_DIMENSIONS = 20_000  # beyond, points are drawn in the coordinates of their span
METHODS = ("flow", "maximiser")
INSIDE = requires("assumption-2-2", "theorem-3-1", regime="inside")  # where Theorems 3.1 and 4.2 speak
CASE_NAMES = {  # in figures
    "usual": "orthogonal means, σ = 1",
    "sphere": "means on the sphere, σ = 1",
    "within": "orthogonal means, σ = 1/√d",
    "obtuse": "obtuse means, σ = 1/√d",
    "example-1a": "means on the sphere, σ = 1, inside",
}

S = TypeVar("S", bound="MixtureSetting")


@dataclass(frozen=True, kw_only=True)
class MixtureSetting(theory.MixtureSizes):
    """The sizes of the theory, and the means, norms, classes and noise; `case` names a kind of setting.

    `positives` clusters are positive, half of them where it is 0. Norms go from 1 - `norm_spread` to 1 + `norm_spread` times √d.
    """

    case: str
    regime: str = "outside"  # or "inside": whether Assumption 2.2 is meant to hold
    means: str = "orthogonal"
    cosine: float = 0.0
    positives: int = 0
    norm_spread: float = 0.0
    noise: str = "gaussian"
    test_points: int = 1000

    @classmethod
    def of(cls: type[S], dim: int, clusters: int, **other: Any) -> S:
        """n = ⌈k ln² d⌉ points, the least the theorems ask for."""
        return cls(dim=dim, clusters=clusters, points=ceil(clusters * log(dim) ** 2), **other)

    @classmethod
    def usual(cls: type[S], dim: int = 1000, clusters: int = 8, **other: Any) -> S:
        """Orthogonal means and σ = 1, as in feature-averaging; outside Assumption 2.2 at any size that can be run."""
        return cls.of(dim, clusters, sigma=1.0, case="usual", **other)

    @classmethod
    def on_sphere(cls: type[S], dim: int = 1000, clusters: int = 8, **other: Any) -> S:
        """Means uniform on the sphere, σ = 1: Example 1 (a) at a size that is outside Assumption 2.2."""
        return cls.of(dim, clusters, sigma=1.0, case="sphere", means="sphere", **other)

    @classmethod
    def example_1a(cls: type[S], dim: int = 10**7, clusters: int = 4, **other: Any) -> S:
        """Means uniform on the sphere, σ = 1. Example 1 (a) inside Assumption 2.2: (10⁷, 4), (10⁸, 8)."""
        return cls.of(dim, clusters, sigma=1.0, case="example-1a", regime="inside", means="sphere", **other)

    @classmethod
    def within(cls: type[S], dim: int = 3000, clusters: int = 4, **other: Any) -> S:
        """Orthogonal means, σ = 1/√d. Example 1 (b): inside Assumption 2.2 for (3000, 4), (3000, 8), (6000, 16)."""
        return cls.of(dim, clusters, sigma=1 / sqrt(dim), case="within", regime="inside", **other)

    @classmethod
    def obtuse(cls: type[S], dim: int = 10_000, clusters: int = 8, cosine: float = -0.008, **other: Any) -> S:
        """Means at equal, slightly obtuse angles, σ = 1/√d: inside for (10⁴, 8, -0.008), (2·10⁴, 16, -0.002)."""
        means = {"means": "equal cosines", "cosine": cosine}
        return cls.of(dim, clusters, sigma=1 / sqrt(dim), case="obtuse", regime="inside", **means, **other)


@dataclass(frozen=True, kw_only=True)
class TrainingSetting(MixtureSetting):
    """A network of random start and how it is trained; none is where the width is 0.

    method = "flow": gradient flow for so many `steps` of FLOW_STEP in ln(1/L), then to the KKT point of its activation pattern.
    method = "maximiser": normalised descent, then L-BFGS on the smoothed normalised margin, so many `iterations` a stage: it leaves the
    KKT point of the flow for one of larger margin.
    """

    width: int = 20
    start: float = 0.1
    method: str = "flow"
    steps: int = 500
    iterations: int = 100  # stationarity 7e-5 and less, after 200 it is 2e-5 (d = 1500 and 3000)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"Unknown method {self.method!r}; use flow or maximiser.")


@dataclass(frozen=True, kw_only=True)
class RadiusSetting(MixtureSetting):
    """How many test points get a bracket of their radius."""

    radius_points: int


class Problem(NamedTuple):
    """Clusters with a training set and a test set."""

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


def clusters_of(s: MixtureSetting, seed: int) -> GaussianClusters:
    """The means with their labels."""
    generator = generator_for("centres", seed)
    mu = MEANS[s.means](s, generator)
    if s.norm_spread:
        sizes = torch.linspace(1 - s.norm_spread, 1 + s.norm_spread, s.clusters, dtype=torch.float64)
        mu = mu * sizes[torch.randperm(s.clusters, generator=generator)].unsqueeze(1)
    return GaussianClusters(mu, labels_of(s), s.sigma)


def labels_of(s: MixtureSetting) -> torch.Tensor:
    """Labels of the clusters."""
    positives = s.positives or s.clusters // 2
    return class_labels(positives, s.clusters - positives)


def gram_of(s: MixtureSetting, seed: int) -> torch.Tensor:
    """Inner products of the means, for any dimension."""
    if s.means == "sphere":
        return sphere_gram(s.clusters, s.dim, sqrt(s.dim), generator=generator_for("centres", seed))
    cosines = torch.full((s.clusters, s.clusters), float(s.cosine), dtype=torch.float64)
    return s.dim * cosines.fill_diagonal_(1)


def _orthogonal(s: MixtureSetting, generator: torch.Generator) -> torch.Tensor:
    return orthogonal_centres(s.clusters, s.dim, sqrt(s.dim), generator=generator)


def _on_sphere(s: MixtureSetting, generator: torch.Generator) -> torch.Tensor:
    return sphere_centres(s.clusters, s.dim, sqrt(s.dim), generator=generator)


def _equal_cosines(s: MixtureSetting, generator: torch.Generator) -> torch.Tensor:
    return equicorrelated_centres(s.clusters, s.dim, sqrt(s.dim), s.cosine, generator=generator)


def _mixed_cosines(s: MixtureSetting, generator: torch.Generator) -> torch.Tensor:
    """Cosines drawn uniformly from COSINES, anew until vectors with these cosines exist."""
    low, high = COSINES
    while True:
        drawn = low + (high - low) * torch.rand(s.clusters, s.clusters, generator=generator).double()
        cosines = torch.triu(drawn, 1) + torch.triu(drawn, 1).T + torch.eye(s.clusters).double()
        if float(torch.linalg.eigvalsh(cosines).min()) > 0:
            return centres_with_cosines(cosines, s.dim, sqrt(s.dim), generator=generator)


MEANS: dict[str, Callable[[MixtureSetting, torch.Generator], torch.Tensor]] = {
    "orthogonal": _orthogonal,
    "sphere": _on_sphere,
    "equal cosines": _equal_cosines,
    "mixed cosines": _mixed_cosines,
}


def training_set(s: MixtureSetting, clusters: GaussianClusters, seed: int, which: int | str = 0) -> Dataset:
    """A training sample; `which` names independent ones of the same clusters."""
    return sample(
        clusters, s.points, generator=generator_for(f"train {which}", seed), noise=NOISE_LAWS[s.noise]
    )


def test_blocks(s: MixtureSetting, clusters: GaussianClusters, seed: int) -> Iterator[Dataset]:
    """The test points a block at a time: a hundred thousand of them in thousands of dimensions do not fit in memory."""
    return sample_blocks(
        clusters, s.test_points, generator=generator_for("test", seed), noise=NOISE_LAWS[s.noise]
    )


def problem(s: MixtureSetting, seed: int, which: int = 0) -> Problem:
    """Training and test samples of the clusters, all of both in memory; in coordinates of their span in high dimension."""
    if s.dim > MOST_DIMENSIONS:
        sizes = {"dim": s.dim, "num_points": s.points, "num_test": s.test_points}
        generator = generator_for(f"span {which}", seed)
        return Problem(*sample_by_gram(gram_of(s, seed), labels_of(s), s.sigma, **sizes, generator=generator))
    clusters = clusters_of(s, seed)
    test = sample(clusters, s.test_points, generator=generator_for("test", seed), noise=NOISE_LAWS[s.noise])
    return Problem(clusters, training_set(s, clusters, seed, which), test)


def separation(s: MixtureSetting, data: Problem) -> theory.Separation:
    """The setting with its means, as the theory reads them."""
    return theory.separation(s, data.clusters.mu, data.clusters.labels)


def direction(data: Problem) -> torch.Tensor:
    """u = Σ_q y_q μ_q."""
    return theory.linear_direction(data.clusters.mu, data.clusters.labels)


def critical_norm(data: Problem) -> float:
    """‖u‖/k, where the KKT point with one neuron for each class breaks: the unit of breaking norms."""
    return theory.critical_norm(data.clusters.mu, data.clusters.labels)


def premises(s: MixtureSetting, data: Problem) -> list[Row]:
    """Assumption 2.2 and the sizes that Theorems 3.1 and 4.2 ask for, as rows."""
    return premises_of(s, separation(s, data))


def premises_of(s: MixtureSetting, apart: theory.Separation) -> list[Row]:
    """The same where the separation is known."""
    return [p.as_row() for p in (*theory.assumption_2_2(apart), *theory.size_conditions(s))]


def inside(rows: Rows) -> Rows:
    """The settings for which Assumption 2.2 is meant to hold."""
    return rows.having(regime="inside")


def outside(rows: Rows) -> Rows:
    """The other settings."""
    return rows.having(regime="outside")


def start_of(s: TrainingSetting, data: Dataset, seed: int) -> TwoLayerNet:
    """A random network of all three parts, in the coordinates of the points."""
    num = data.x.shape[1]
    net = biased_start(s.width, num, s.start, generator=generator_for("start", seed))
    if num == s.dim or net.b is None:
        return net
    scale = sqrt((num + 1) / (s.dim + 1))  # entries as small as in all dimensions
    return TwoLayerNet(
        scale * net.W.detach(), net.a.detach(), scale * net.b.detach(), activation=net.activation
    )


def flow_end(
    s: TrainingSetting, data: Dataset, seed: int, loss: str = "exponential", progress: Progress = no_progress
) -> TwoLayerNet:
    """The network after gradient flow for all steps: on the way to a KKT point."""
    start = start_of(s, data, seed)
    return margin_descent(
        start, data.x, data.y, loss=loss, step_size=FLOW_STEP, steps=s.steps, progress=progress
    ).last


def trained(
    s: TrainingSetting, data: Dataset, seed: int, loss: str = "exponential", progress: Progress = no_progress
) -> TwoLayerNet:
    """The KKT point to which gradient flow goes; or, where the method says so, a maximiser of the margin."""
    if s.method == "flow":
        return flow_limit(flow_end(s, data, seed, loss, progress), data.x, data.y).net
    run = margin_descent(
        start_of(s, data, seed),
        data.x,
        data.y,
        loss=loss,
        method="normalised",
        step_size=DESCENT_STEP,
        steps=s.steps,
        progress=part(progress, 0, 0.3),
    )
    return margin_ascent(run.last, data.x, data.y, iterations=s.iterations, progress=part(progress, 0.3, 1))


@torch.no_grad()
def error_of(net: TwoLayerNet, data: Dataset) -> float:
    """Share of points with y N(x) ≤ 0."""
    return float((data.y * net(data.x) <= 0).double().mean())
