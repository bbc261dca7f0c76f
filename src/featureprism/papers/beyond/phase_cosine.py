"""Clusters that are not orthonormal: the radius of the pReLU flow against p and the cosine of the centres; unequal sizes and norms."""

from dataclasses import dataclass
from functools import partial
from math import inf, nan, sqrt

import numpy as np
import torch
from torch import Tensor

from featureprism.attacks import minimal_radius, structured_starts
from featureprism.data import GaussianClusters, class_labels, equicorrelated_centres, sample, sample_balanced
from featureprism.data.dataset import Dataset
from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import (
    BalancedWeights,
    PolynomialReLU,
    balanced,
    gaussian_shape,
    nudge_to_own_class,
)
from featureprism.papers.beyond.curves import crossing
from featureprism.papers.gmm_flow import theory_phases as theory
from featureprism.papers.gmm_flow.setting import NUDGE, SampledGMM
from featureprism.probes import cluster_masses, voronoi_region
from featureprism.progress import part
from featureprism.seeds import generator_for
from featureprism.training import Loss, balanced_flow
from featureprism.training.trajectory import Trajectory

LOG_EPSILON = -12.0  # of the start
AFTER = 40.0  # how long the flow is followed after its start has grown
NEURONS_PER_CLUSTER = 2
LEFT = 1.1  # times the radius of an average: from here on neurons have left it
BELOW, ABOVE = 0.95, 1.5  # of the critical power: the cells that count as clearly on one side
SOURCE = "beyond gmm-flow, Theorem 1"
finding = partial(Claim, source=SOURCE, origin="featureprism")


@dataclass(frozen=True, kw_only=True)
class Centres(SampledGMM):
    """Centres with one cosine between any two.

    The last of each class keeps the share `smallest` of its points, and has norm `shortest`; all others have norm 1.
    """

    cosine: float
    smallest: float = 1.0
    shortest: float = 1.0
    positive: int = 3
    negative: int = 3
    alpha: float = 0.05

    @property
    def unequal(self) -> bool:
        """Whether clusters differ in size or norm."""
        return self.smallest < 1 or self.shortest < 1


def measure(s: Centres, seed: int, context: Context) -> list[Row]:
    """One flow on such clusters: the 50 % radius ÷ half the way between two centres, and when each cluster was learned."""
    labels = class_labels(s.positive, s.negative)
    mu = equicorrelated_centres(
        s.num_clusters, s.dim, 1.0, s.cosine, generator=generator_for("centres", seed)
    )
    mu[_last_of_each(s)] *= s.shortest
    clusters = GaussianClusters(mu, labels, s.alpha / sqrt(s.dim))
    train = _thinned(sample_balanced(clusters, s.per_cluster, generator=generator_for("train", seed)), s)
    test = sample(clusters, s.test_points, generator=generator_for("test", seed))
    signs = labels.repeat(NEURONS_PER_CLUSTER)
    shape = unit_rows(gaussian_shape(len(signs), s.dim, generator=generator_for("shape", seed)))
    shape = nudge_to_own_class(shape, signs, mu, labels, NUDGE, generator=generator_for("nudge", seed))
    t_end = (AFTER - LOG_EPSILON) / (s.smallest * s.shortest**s.p)
    trajectory = balanced_flow(
        balanced(shape, signs, LOG_EPSILON),
        train.x,
        train.y,
        p=s.p,
        loss=Loss("square", "per-cluster", s.num_clusters),
        t_end=t_end,
        record=np.linspace(0, t_end, 4 * round(t_end)).tolist() if s.unequal else (),
        progress=part(context.progress, 0, 0.8),
    )
    net = trajectory.last.to_net(PolynomialReLU(s.p))
    attacked = minimal_radius(net, test.x, test.y, starts=structured_starts(net, mu, labels), upper=1.0)
    norms = torch.linalg.vector_norm(mu, dim=1)
    exact = theory.unequal_radius(norms, labels)[test.cluster]
    critical = theory.critical_power(s.cosine, s.positive, s.negative)
    averaged = theory.averaged_radius(s.cosine, s.positive) / theory.best_radius(s.cosine)
    return [
        {
            "kind": "cell",
            "share": attacked.half / theory.best_radius(s.cosine),
            "predicted_share": averaged if s.p < critical else 1.0,
            "averaged_share": averaged,
            "critical_power": critical,
            "over_norms": float((attacked.radius / exact).median()),
            "over_half_way": float((attacked.radius / _half_way(norms, labels)[test.cluster]).min()),
            "late": _late(trajectory, voronoi_region(shape, signs, mu, labels), s),
        }
    ]


def _thinned(train: Dataset, s: Centres) -> Dataset:
    """The training set with only some of the points of the last cluster of each class."""
    few = torch.isin(train.cluster, torch.tensor(_last_of_each(s)))
    position = torch.arange(len(train.x)) % s.per_cluster  # points are sorted by cluster
    kept = ~few | (position < round(s.smallest * s.per_cluster))
    return Dataset(train.x[kept], train.y[kept], train.cluster[kept], train.centres)


def _last_of_each(s: Centres) -> list[int]:
    return [s.positive - 1, s.num_clusters - 1]


def _half_way(norms: Tensor, labels: Tensor) -> Tensor:
    """Half the way from each of some orthogonal centres to the nearest one of the other class."""
    apart = (norms.unsqueeze(1) ** 2 + norms**2).sqrt() / 2
    return apart.masked_fill(labels.unsqueeze(1) == labels, inf).min(dim=1).values


def _late(trajectory: Trajectory[BalancedWeights], region: Tensor, s: Centres) -> float:
    """When the mass of the last positive cluster passes half of its end ÷ when that of the first does; NaN if one does not.

    A cluster of norm r ends with mass r^(-p).
    """
    masses = [cluster_masses(weights.log_norms, region, s.num_clusters) for weights in trajectory.snapshots]
    ends = torch.tensor([1.0, s.shortest**-s.p], dtype=torch.float64)
    grown = torch.stack(masses)[:, [0, s.positive - 1]] >= ends / 2
    if not s.unequal or not bool(grown.any(dim=0).all()):
        return nan
    first, last = (float(trajectory.times[i]) for i in grown.int().argmax(dim=0).tolist())
    return last / first


def _map(rows: Rows) -> Rows:
    return rows.of("cell", smallest=1.0, shortest=1.0)


def _short(rows: Rows) -> Rows:
    return rows.of("cell").where(lambda row: row["shortest"] < 1)


def _averaged(own: Rows) -> float:
    """Share ÷ 1/√K₁ in the cells below the critical power, the one farthest from 1."""
    cells = own.where(lambda row: row["p"] < BELOW * (row["critical_power"] or 0.0))
    ratio = cells.column("share") / cells.column("averaged_share")
    return float(ratio[np.abs(ratio - 1).argmax()]) if len(ratio) else nan


def _separated(own: Rows) -> float:
    """The least share in the cells well above the critical power."""
    cells = own.where(lambda row: row["p"] >= ABOVE * (row["critical_power"] or inf))
    return cells.column("share").min() if len(cells) else nan


def _place(own: Rows) -> float:
    """Where the share leaves that of an average by a tenth ÷ the critical power, mean over cosines that show it."""
    places = []
    for cells in own.groups("cosine").values():
        level = LEFT * cells.column("averaged_share")[0]
        found = crossing(cells.column("p"), cells.column("share"), level)
        places.append(found / cells.column("critical_power")[0])
    return float(np.nanmean(places)) if np.isfinite(places).any() else nan


def best_power(cells: Rows) -> float:
    """The power with the largest radius; NaN if one is missing."""
    shares = cells.column("share")
    return cells.column("p")[shares.argmax()] if np.isfinite(shares).all() else nan


def _rise(own: Rows) -> float:
    lines = sorted(own.groups("cosine").items())
    return best_power(lines[-1][1]) / best_power(lines[0][1])


CLAIMS = (
    finding(
        "averaged",
        says="below the predicted power neurons average their class: 50 % radius ÷ √((1-ρ)/(2K₁)), farthest from 1 over cells",
        value=lambda rows: _map(rows).per_seed(_averaged),
        bound=between(0.9, 1.1),
    ),
    finding(
        "separated",
        says=f"from {ABOVE:g} times that power on they do not: least 50 % radius ÷ √((1-ρ)/2) over cells",
        value=lambda rows: _map(rows).per_seed(_separated),
        bound=at_least(0.85),
    ),
    finding(
        "place",
        says="they leave the average where predicted: p at which the radius is a tenth above it ÷ the predicted power, mean over"
        " cosines",
        value=lambda rows: _map(rows).per_seed(_place),
        bound=between(0.95, 1.25),
    ),
    finding(
        "best-power",
        says="closer centres want larger powers: best p at the largest cosine ÷ at the smallest",
        value=lambda rows: _map(rows).per_seed(_rise),
        bound=at_least(1.5),
    ),
    finding(
        "sizes",
        says="orthonormal clusters with fewer points are learned later in proportion: (time ÷ that of a full cluster) times the"
        " share of points, farthest from 1",
        value=lambda rows: (
            rows.of("cell")
            .where(lambda row: row["smallest"] < 1)
            .per_seed(lambda own: _farthest_from_1(own.column("late") * own.column("smallest")))
        ),
        bound=between(0.9, 1.1),
    ),
    finding(
        "sizes-radius",
        says="and as well: least 50 % radius ÷ √2/2 with unequal clusters",
        value=lambda rows: rows.of("cell").where(lambda row: row["smallest"] < 1).least("share"),
        bound=at_least(0.95),
    ),
    finding(
        "norms",
        says="orthogonal centres of unequal norms r break at rr'/√(r²+r'²), r' the shortest of the other class: median"
        " radius ÷ that over points, farthest from 1",
        value=lambda rows: _short(rows).per_seed(lambda own: _farthest_from_1(own.column("over_norms"))),
        bound=between(0.95, 1.05),
    ),
    finding(
        "norms-half-way",
        says="which is less than half the way to that centre, √(r²+r'²)/2: least radius ÷ that over points and norms",
        value=lambda rows: _short(rows).least("over_half_way"),
        bound=at_most(0.9),
        note="the network says 1 at every centre, so the border is ⟨x, μ⟩/r² = ⟨x, μ'⟩/r'², nearer to the longer one than half the"
        " way; no p changes that",
    ),
    finding(
        "norms-late",
        says="and short ones are learned later, as r^(-p): (time ÷ that of a centre of norm 1) times r^p, farthest from 1",
        value=lambda rows: _short(rows).per_seed(
            lambda own: _farthest_from_1(own.column("late") * own.column("shortest") ** own.column("p"))
        ),
        bound=between(0.9, 1.1),
    ),
)


def _farthest_from_1(values: np.ndarray) -> float:
    return float(values[np.abs(values - 1).argmax()])


def _settings(dim: int, points: int, cosines: tuple[float, ...], powers: tuple[float, ...]) -> list[Centres]:
    size = {"dim": dim, "per_cluster": points, "test_points": 8}
    cells = [Centres(cosine=cosine, p=p, **size) for cosine in cosines for p in powers]
    few = [Centres(cosine=0.0, p=3.0, smallest=share, **size) for share in (0.5, 0.25)]
    return [*cells, *few, *(Centres(cosine=0.0, p=3.0, shortest=norm, **size) for norm in (0.8, 0.6))]


PHASE_COSINE = Experiment(
    id="beyond/phase-cosine",
    source=SOURCE,
    title="Which power separates centres that are not orthogonal",
    scales={
        "quick": _settings(40, 60, (0.0, 0.3, 0.6), (2.2, 2.6, 3.0, 3.6, 4.4, 5.2, 9.0)),
        "standard": _settings(200, 100, (0.0, 0.3, 0.6), (2.2, 2.6, 3.0, 3.6, 4.4, 5.2, 9.0)),
        "paper": _settings(400, 200, (0.0, 0.15, 0.3, 0.45, 0.6), (2.2, 2.6, 3.0, 3.6, 4.4, 5.2, 9.0)),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "The flow of gmm-flow on K = 3+3 unit centres with the same cosine ρ between any two. The mean of a class stops being"
        " where neurons go at the power p with (p-1)(1-ρ)c^(p-2) = K₁c^p - K₂c'^p (2 for orthogonal centres): below it the network"
        " is as fragile as a linear one, however small the start; far above it as robust as possible, until p is so large that"
        " noise counts. Four more flows have orthogonal centres and one cluster of each class with half or a quarter of the points, or"
        " with a shorter centre: there f ends as Σ ±(⟨x, μ_k⟩/r_k²)^p, and the border to another centre is where these are equal."
    ),
)
