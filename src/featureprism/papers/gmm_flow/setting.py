"""What the items share: the mixture with its samples, a non-degenerate start, the flow from it, and the premises of Theorem 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from featureprism._progress import Progress, no_progress
from featureprism.data import GaussianClusters, orthonormal_clusters, sample, sample_balanced
from featureprism.data.dataset import Dataset
from featureprism.geometry import unit_rows
from featureprism.lab.rows import Row
from featureprism.networks import balanced, gaussian_shape, nudge_to_own_class
from featureprism.networks.balanced_weights import BalancedWeights
from featureprism.papers.gmm_flow import theory
from featureprism.probes.voronoi import nondegeneracy_margin, voronoi_region
from featureprism.seeds import generator_for
from featureprism.training import Loss, balanced_flow
from featureprism.training.trajectory import Trajectory

ALPHA = 0.1  # Appendix B.1; Figure 2 does not state it
NUDGE = 0.5  # of a unit-norm shape: cosines near 0.7, a margin of order 1 as Assumption 2 asks
THEOREM_1_PREMISES = ("theorem-1", "assumption-2", "lemma-4")


@dataclass(frozen=True, kw_only=True)
class SampledGMM(theory.OrthonormalGMM):
    """An orthonormal mixture with a number of test points."""

    alpha: float = ALPHA
    test_points: int = 1


class Mixture(NamedTuple):
    """A distribution with a balanced training set and an independent test set."""

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


class Start(NamedTuple):
    """Balanced weights with the Voronoi region and the margin of each neuron."""

    weights: BalancedWeights
    region: Tensor
    margin: Tensor


def mixture(s: SampledGMM, seed: int) -> Mixture:
    """The orthonormal mixture of a setting."""
    clusters = orthonormal_clusters(
        s.dim, s.positive, s.negative, s.alpha, generator=generator_for("centres", seed)
    )
    train = sample_balanced(clusters, s.per_cluster, generator=generator_for("train", seed))
    test = sample(clusters, s.test_points, generator=generator_for("test", seed))
    return Mixture(clusters, train, test)


def start_from(shape: Tensor, signs: Tensor, log_epsilon: float, clusters: GaussianClusters) -> Start:
    """The start of scale ε from a shape."""
    mu, labels = clusters.mu, clusters.labels
    return Start(
        balanced(shape, signs, log_epsilon),
        voronoi_region(shape, signs, mu, labels),
        nondegeneracy_margin(shape, signs, mu, labels),
    )


def nondegenerate_start(s: SampledGMM, data: Mixture, neurons_per_cluster: int, seed: int) -> Start:
    """Unit-norm directions nudged towards centres of their own class, as many for each cluster, at ε = α^(8K)."""
    mu, labels = data.clusters.mu, data.clusters.labels
    signs = labels.repeat(neurons_per_cluster)
    shape = unit_rows(gaussian_shape(len(signs), data.clusters.dim, generator=generator_for("shape", seed)))
    nudge = generator_for("nudge", seed)
    shape = nudge_to_own_class(shape, signs, mu, labels, NUDGE, generator=nudge)
    return start_from(shape, signs, s.log_epsilon, data.clusters)


def follow_flow(
    s: SampledGMM,
    data: Mixture,
    start: Start,
    *,
    t_end: float,
    record: Sequence[float] = (),
    loss: str = "square",
    rtol: float | None = None,
    progress: Progress = no_progress,
) -> Trajectory[BalancedWeights]:
    """Gradient flow on the per-cluster loss of Appendix E, the clock of every rate in the theory."""
    return balanced_flow(
        start.weights,
        data.train.x,
        data.train.y,
        p=s.p,
        loss=Loss(loss, "per-cluster", s.num_clusters),
        t_end=t_end,
        record=record,
        rtol=rtol,
        progress=progress,
    )


def theorem_1_premises(s: SampledGMM, data: Mixture, start: Start, log_epsilon: float) -> list[Row]:
    """The premises named in THEOREM_1_PREMISES, as rows."""
    premises = [
        *theory.theorem_1_premises(s, log_epsilon),
        *theory.assumption_2(start.margin, start.region, s.num_clusters),
        *theory.good_event(data.train, s.alpha),
    ]
    return [premise.as_row() for premise in premises]
