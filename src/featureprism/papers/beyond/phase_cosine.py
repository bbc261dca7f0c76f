"""Clusters that are not orthonormal: the radius of the pReLU flow against p and the cosine of the centres; unequal sizes and norms."""

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from featureprism._progress import part
from featureprism.attacks import minimal_radius, structured_starts
from featureprism.data import GaussianClusters, class_labels, equicorrelated_centres, sample, sample_balanced
from featureprism.data.dataset import Dataset
from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, at_least, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import PolynomialReLU, balanced, gaussian_shape, nudge_to_own_class
from featureprism.networks.balanced_weights import BalancedWeights
from featureprism.papers.beyond.phases import crossing, draw_phase, farthest_from_1
from featureprism.papers.gmm_flow import theory_phases as theory
from featureprism.papers.gmm_flow.setting import NUDGE, SampledGMM
from featureprism.probes import cluster_masses
from featureprism.probes.voronoi import voronoi_region
from featureprism.seeds import generator_for
from featureprism.training import Loss, balanced_flow
from featureprism.training.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOG_EPSILON = -12.0  # of the start
AFTER = 40.0  # how long the flow is followed after its start has grown
NEURONS_PER_CLUSTER = 2
LEFT = 1.1  # times the radius of an average: from here on neurons have left it
BELOW, ABOVE = 0.95, 1.5  # of the critical power: the cells that count as clearly on one side
SOURCE = "beyond gmm-flow, Theorem 1"


@dataclass(frozen=True, kw_only=True)
class EquicorrelatedMixture(SampledGMM):
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


def measure(s: EquicorrelatedMixture, seed: int, context: Context) -> list[Row]:
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
            "late": _late(trajectory, voronoi_region(shape, signs, mu, labels), s),
        }
    ]


def _thinned(train: Dataset, s: EquicorrelatedMixture) -> Dataset:
    """The training set with only some of the points of the last cluster of each class."""
    few = torch.isin(train.cluster, torch.tensor(_last_of_each(s)))
    position = torch.arange(len(train.x)) % s.per_cluster  # points are sorted by cluster
    kept = ~few | (position < round(s.smallest * s.per_cluster))
    return Dataset(train.x[kept], train.y[kept], train.cluster[kept], train.centres)


def _last_of_each(s: EquicorrelatedMixture) -> list[int]:
    return [s.positive - 1, s.num_clusters - 1]


def _late(trajectory: Trajectory[BalancedWeights], region: Tensor, s: EquicorrelatedMixture) -> float:
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


def _averaged(run: Rows) -> float:
    """Share ÷ 1/√K₁ in the cells below the critical power, the one farthest from 1."""
    cells = run.where(lambda row: row["p"] < BELOW * (row["critical_power"] or 0.0))
    return farthest_from_1(cells.column("share") / cells.column("averaged_share"))


def _separated(run: Rows) -> float:
    """The least share in the cells well above the critical power."""
    cells = run.where(lambda row: row["p"] >= ABOVE * (row["critical_power"] or inf))
    return cells.column("share").min() if len(cells) else nan


def _place(run: Rows) -> float:
    """Where the share leaves that of an average by a tenth ÷ the critical power, mean over cosines that show it."""
    places = []
    for cells in run.groups("cosine").values():
        level = LEFT * cells.column("averaged_share")[0]
        left_at = crossing(cells.column("p"), cells.column("share"), level)
        places.append(left_at / cells.column("critical_power")[0])
    return float(np.nanmean(places)) if np.isfinite(places).any() else nan


CLAIMS = (
    Claim(
        "averaged",
        source=SOURCE,
        says="Below a critical power p, a network trained on unit centres with equal cosines is as fragile as one whose neurons"
        " average their class.",
        quantity="ℓ2 radius at which half of the test points are broken, divided by the radius of the average, farthest from 1 over"
        " powers and cosines",
        formula=r"r = \sqrt{(1-\rho)/(2K_1)} \quad \text{for } (p-1)(1-\rho)c^{p-2} < K_1 c^p - K_2 c'^p",
        bound=between(0.9, 1.1),
        because="within a tenth of the radius that a network of averages has",
        value=lambda rows: _map(rows).per_seed(_averaged),
        origin="featureprism",
    ),
    Claim(
        "separated",
        source=SOURCE,
        says=f"From {ABOVE:g} times the critical power on, a pReLU network is nearly as robust as the cosine of the centres allows.",
        quantity="ℓ2 radius at which half of the test points are broken, divided by half the distance of two centres, least over"
        " powers and cosines",
        formula=r"r_{\max} = \sqrt{(1-\rho)/2}",
        bound=at_least(0.85),
        because="1 is the largest possible radius, and a large p pays for the noise",
        value=lambda rows: _map(rows).per_seed(_separated),
        origin="featureprism",
        headline=True,
    ),
    Claim(
        "place",
        source=SOURCE,
        says="Neurons stop averaging their class at the power p at which the class mean stops being stable.",
        quantity="power at which the radius is a tenth above that of the average, divided by the predicted power, mean over cosines",
        bound=between(0.95, 1.25),
        because="1 is the prediction; a tenth above the average is reached a little later",
        value=lambda rows: _map(rows).per_seed(_place),
        origin="featureprism",
    ),
    Claim(
        "sizes",
        source=SOURCE,
        says="An orthonormal cluster with a share s of the points is learned 1/s times as late.",
        quantity="time to learn the small cluster divided by that of a full one, times its share of points, farthest from 1",
        bound=between(0.9, 1.1),
        because="1 is the law: a cluster grows in proportion to its points",
        value=lambda rows: (
            rows.of("cell")
            .where(lambda row: row["smallest"] < 1)
            .per_seed(lambda run: farthest_from_1(run.column("late") * run.column("smallest")))
        ),
        origin="featureprism",
    ),
    Claim(
        "sizes-radius",
        source=SOURCE,
        says="Clusters with half or a quarter of the points do not make a pReLU network less robust.",
        quantity="ℓ2 radius at which half of the test points are broken, divided by √2/2, least over sizes",
        bound=at_least(0.95),
        because="√2/2 is the largest possible radius of orthonormal centres",
        value=lambda rows: rows.of("cell").where(lambda row: row["smallest"] < 1).least("share"),
        origin="featureprism",
    ),
    Claim(
        "norms",
        source=SOURCE,
        says="A centre of norm r breaks at rr'/√(r²+r'²), where r' is the norm of the shortest orthogonal centre of the other class.",
        quantity="median over points of the attacked radius divided by the law, farthest from 1 over norms",
        formula=r"\langle x, \mu\rangle / r^2 = \langle x, \mu'\rangle / r'^2",
        bound=between(0.95, 1.05),
        because="1 is the law: the network is 1 at every centre, so the border lies nearer to the longer one than half the way",
        value=lambda rows: _short(rows).per_seed(lambda run: farthest_from_1(run.column("over_norms"))),
        origin="featureprism",
    ),
    Claim(
        "norms-late",
        source=SOURCE,
        says="A cluster whose centre has norm r is learned r^(-p) times as late as one of norm 1.",
        quantity="time to learn the short cluster divided by that of norm 1, times r^p, farthest from 1",
        bound=between(0.9, 1.1),
        because="1 is the law: gradients towards a centre are proportional to r^p",
        value=lambda rows: _short(rows).per_seed(
            lambda run: farthest_from_1(run.column("late") * run.column("shortest") ** run.column("p"))
        ),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """The share of the best radius over cosine and power, with the predicted power; flows with unequal clusters are left out."""
    size = rows[0]
    return draw_phase(
        _map(rows),
        "cosine",
        "p",
        "share",
        boundary=lambda cosine: theory.critical_power(cosine, size["positive"], size["negative"]),
        label="predicted power",
    )


def _settings(
    dim: int, points: int, cosines: tuple[float, ...], powers: tuple[float, ...]
) -> list[EquicorrelatedMixture]:
    size = {"dim": dim, "per_cluster": points, "test_points": 8}
    cells = [EquicorrelatedMixture(cosine=cosine, p=p, **size) for cosine in cosines for p in powers]
    few = [EquicorrelatedMixture(cosine=0.0, p=3.0, smallest=share, **size) for share in (0.5, 0.25)]
    return [
        *cells,
        *few,
        *(EquicorrelatedMixture(cosine=0.0, p=3.0, shortest=norm, **size) for norm in (0.8, 0.6)),
    ]


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
    draw=draw,
    about=(
        "The flow of gmm-flow on K = 3+3 unit centres with the same cosine ρ between any two. The mean of a class stops being"
        " where neurons go at the power p with (p-1)(1-ρ)c^(p-2) = K₁c^p - K₂c'^p (2 for orthogonal centres): below it the network"
        " is as fragile as a linear one, however small the start; far above it as robust as possible, until p is so large that"
        " noise counts. Four more flows have orthogonal centres and one cluster of each class with half or a quarter of the points, or"
        " with a shorter centre: there f ends as Σ ±(⟨x, μ_k⟩/r_k²)^p, and the border to another centre is where these are equal."
    ),
)
