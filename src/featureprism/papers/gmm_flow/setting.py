"""What the experiments of the paper share: the mixture of a setting, and its training and test sets."""

from typing import NamedTuple

from featureprism.data import GaussianClusters, orthonormal_clusters, sample, sample_balanced
from featureprism.records import Dataset, Row
from featureprism.seeds import generator_for

P = 3.0  # Section 5 and Appendix B
ALPHA = 0.1  # Appendix B.1; Figure 2 does not state it


class Mixture(NamedTuple):
    """A distribution with a balanced training set and an independent test set."""

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


def mixture(setting: Row, seed: int) -> Mixture:
    """The orthonormal mixture of a setting: dim, positive, negative, alpha, per_cluster, test_points."""
    clusters = orthonormal_clusters(
        setting["dim"],
        setting["positive"],
        setting["negative"],
        setting["alpha"],
        generator=generator_for("centres", seed),
    )
    train = sample_balanced(clusters, setting["per_cluster"], generator=generator_for("train", seed))
    test = sample(clusters, setting["test_points"], generator=generator_for("test", seed))
    return Mixture(clusters, train, test)


def by_seed(rows: list[Row]) -> list[list[Row]]:
    """Rows grouped by seed, in order of the seeds."""
    return [[r for r in rows if r["seed"] == s] for s in sorted({r["seed"] for r in rows})]
