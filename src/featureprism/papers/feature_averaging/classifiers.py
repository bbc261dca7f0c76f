"""The network of two labels and the read-outs of the network with a label for each cluster, which Figures 1 and 3 compare."""

import numpy as np

from featureprism._progress import Progress
from featureprism.lab import Rows
from featureprism.lab.rows import Values
from featureprism.networks import BinaryReadout, TwoLayerNet
from featureprism.networks.grouped import summed_readout
from featureprism.papers.feature_averaging.setting import (
    Baseline,
    Problem,
    problem,
    train_k_class,
    train_two_class,
)


def classifiers(
    s: Baseline, seed: int, progress: Progress
) -> tuple[Problem, dict[str, TwoLayerNet | BinaryReadout]]:
    """The data, and by name the network of two labels and three read-outs of the one with a label for each cluster."""
    data = problem(s, seed)
    two = train_two_class(s, data.train, seed)
    progress(0.3)
    fine, labels = train_k_class(s, data.train, seed), data.clusters.labels
    progress(0.6)
    return data, {
        "two-class": two,
        "ten-class": BinaryReadout(fine, labels),
        "ten-class-max": BinaryReadout(fine, labels, "max"),
        "ten-class-sum": summed_readout(fine, labels),
    }


def over_critical(rows: Rows, name: str) -> Values:
    """A radius ÷ √(d/k), for one row a seed."""
    clusters = rows.per_seed("positive") + rows.per_seed("negative")
    return rows.per_seed(name) / np.sqrt(rows.per_seed("dim") / clusters)
