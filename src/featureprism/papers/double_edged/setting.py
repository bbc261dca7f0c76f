"""What the experiments of the paper share: clusters and samples of a setting, and networks trained close to a KKT point."""

from math import ceil, log, sqrt
from typing import NamedTuple

import torch

from featureprism.data import GaussianClusters, class_labels, orthogonal_centres, sample, sphere_centres
from featureprism.networks import TwoLayerNet, biased_start
from featureprism.records import Dataset, Row
from featureprism.seeds import generator_for
from featureprism.theory import double_edged as theory
from featureprism.training import margin_ascent, margin_descent

DESCENT_STEP = 0.1
KINK = 1e-2  # |⟨w_j, x_i⟩ + b_j| up to this share of ‖(w_j, b_j)‖ ‖(x_i, 1)‖ counts as on the kink of a trained network
EXACT_KINK = 1e-9  # the same at the solver's point


class Problem(NamedTuple):
    """Clusters with a training set and a test set."""

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


def row_of(dim: int, num_clusters: int, sigma: float, means: str = "orthogonal", **more) -> Row:
    """A setting with half of the clusters in each class and n = ⌈k ln² d⌉ points, the least the theorems ask for."""
    points = ceil(num_clusters * log(dim) ** 2)
    row: Row = {"dim": dim, "clusters": num_clusters, "sigma": sigma, "means": means, "points": points}
    return {**row, "test_points": 1000, "width": 20, "start": 0.1, "steps": 200, "iterations": 200, **more}


def usual(dim: int = 1000, num_clusters: int = 8, **more) -> Row:
    """Orthogonal means and σ = 1, as in feature-averaging; outside Assumption 2.2 at any size that can be run."""
    return row_of(dim, num_clusters, 1.0, name="usual", **more)


def on_sphere(dim: int = 1000, num_clusters: int = 8, **more) -> Row:
    """Means uniform on the sphere, σ = 1. Example 1 (a)."""
    return row_of(dim, num_clusters, 1.0, "sphere", name="sphere", **more)


def within(dim: int = 3000, num_clusters: int = 4, **more) -> Row:
    """Orthogonal means, σ = 1/√d. Example 1 (b): inside Assumption 2.2 for (3000, 4), (3000, 8), (6000, 16)."""
    return row_of(dim, num_clusters, 1 / sqrt(dim), name="within", **more)


def clusters_of(row: Row, seed: int) -> GaussianClusters:
    """Means of norm √d, half of them of each label."""
    k, d = row["clusters"], row["dim"]
    centres = orthogonal_centres if row["means"] == "orthogonal" else sphere_centres
    mu = centres(k, d, sqrt(d), generator=generator_for("centres", seed))
    return GaussianClusters(mu, class_labels(k // 2, k - k // 2), row["sigma"])


def problem(row: Row, seed: int, which: int = 0) -> Problem:
    """Training and test samples; `which` numbers independent training sets of the same clusters."""
    clusters = clusters_of(row, seed)
    train = sample(clusters, row["points"], generator=generator_for(f"train {which}", seed))
    test = sample(clusters, row["test_points"], generator=generator_for("test", seed))
    return Problem(clusters, train, test)


def theory_setting(row: Row, clusters: GaussianClusters) -> theory.Setting:
    """The setting as the theory wants it."""
    return theory.setting_of(clusters.mu, clusters.labels, row["sigma"], row["points"])


def start_of(row: Row, seed: int) -> TwoLayerNet:
    """A random network of all three parts."""
    return biased_start(row["width"], row["dim"], row["start"], generator=generator_for("start", seed))


def trained(row: Row, data: Dataset, seed: int, loss: str = "exponential") -> TwoLayerNet:
    """Normalised descent until every margin is positive and more, then L-BFGS on the smoothed normalised margin."""
    run = margin_descent(
        start_of(row, seed),
        data.x,
        data.y,
        loss=loss,
        method="normalised",
        step_size=DESCENT_STEP,
        steps=row["steps"],
    )
    return margin_ascent(run.last, data.x, data.y, iterations=row["iterations"])


@torch.no_grad()
def error_of(net: TwoLayerNet, data: Dataset) -> float:
    """Share of points with y N(x) ≤ 0."""
    return float((data.y * net(data.x) <= 0).double().mean())
