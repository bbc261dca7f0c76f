"""What the experiments of the paper share: the mixture of a setting, its samples, and a start that is not degenerate."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from featureprism.data import GaussianClusters, orthonormal_clusters, sample, sample_balanced
from featureprism.geometry import unit_rows
from featureprism.networks import gaussian_shape, nudge_to_own_class
from featureprism.records import Dataset
from featureprism.seeds import generator_for
from featureprism.theory import gmm_flow as theory

ALPHA = 0.1  # Appendix B.1; Figure 2 does not state it
NUDGE = 0.5  # of a unit-norm shape: cosines near 0.7, a margin of order 1 as Assumption 2 asks


@dataclass(frozen=True, kw_only=True)
class Setting(theory.Setting):
    """The sizes of the theory, and how many points test the network."""

    alpha: float = ALPHA
    test_points: int = 1


class Mixture(NamedTuple):
    """A distribution with a balanced training set and an independent test set."""

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


def mixture(s: Setting, seed: int) -> Mixture:
    """The orthonormal mixture of a setting."""
    clusters = orthonormal_clusters(
        s.dim, s.positive, s.negative, s.alpha, generator=generator_for("centres", seed)
    )
    train = sample_balanced(clusters, s.per_cluster, generator=generator_for("train", seed))
    test = sample(clusters, s.test_points, generator=generator_for("test", seed))
    return Mixture(clusters, train, test)


def nondegenerate_shape(data: Mixture, neurons_per_cluster: int, seed: int) -> tuple[Tensor, Tensor]:
    """Unit-norm directions nudged towards centres of their own class, and their signs: as many for each cluster."""
    mu, labels = data.clusters.mu, data.clusters.labels
    signs = labels.repeat(neurons_per_cluster)
    shape = unit_rows(gaussian_shape(len(signs), data.clusters.dim, generator=generator_for("shape", seed)))
    nudge = generator_for("nudge", seed)
    return nudge_to_own_class(shape, signs, mu, labels, NUDGE, generator=nudge), signs
