"""The networks on which radii are compared: one that averages features, one that does not, and a plain ReLU network."""

from typing import NamedTuple

import torch

from featureprism.data import (
    GaussianClusters,
    orthogonal_clusters,
    orthonormal_clusters,
    sample,
    sample_balanced,
)
from featureprism.data.dataset import Dataset
from featureprism.models.activations import Activation
from featureprism.networks import ReLU, TwoLayerNet, gaussian_start, voting_start
from featureprism.seeds import generator_for
from featureprism.training import Loss, gradient_descent, stochastic_descent


class Trained(NamedTuple):
    """A network with the clusters it was trained on and fresh test points."""

    net: TwoLayerNet
    clusters: GaussianClusters
    test: Dataset


def averaging_network(dim: int, num_points: int, seed: int) -> Trained:
    """Two-class network of feature-averaging, Section 6: k = 5+5, ten neurons, n = 1000, 100 steps of 1e-3, start 1e-5."""
    clusters = orthogonal_clusters(dim, 5, 5, 1.0, generator=generator_for("averaging centres", seed))
    train = sample(clusters, 1000, generator=generator_for("averaging train", seed))
    start = voting_start(5, dim, 1e-5, ReLU(), generator=generator_for("averaging start", seed))
    run = gradient_descent(
        start,
        train.x,
        train.y,
        loss=Loss("logistic", "mean"),
        step_size=1e-3 * 3072 / dim,
        steps=100,
        fixed=("a",),
    )
    test = sample(clusters, num_points, generator=generator_for("averaging test", seed))
    return Trained(run.last, clusters, test)


def mixture_network(
    activation: Activation,
    std: float,
    step_size: float,
    dim: int,
    per_cluster: int,
    num_points: int,
    seed: int,
) -> Trained:
    """Width 200 on the orthonormal mixture of gmm-flow, Figure 2 (K = 12+8, α = 0.1), by SGD from entries N(0, std²)."""
    clusters = orthonormal_clusters(dim, 12, 8, 0.1, generator=generator_for("mixture centres", seed))
    train = sample_balanced(clusters, per_cluster, generator=generator_for("mixture train", seed)).to(
        torch.float32
    )
    net = gaussian_start(200, dim, std, activation, generator=generator_for("mixture start", seed)).float()
    stochastic_descent(
        net,
        train.x,
        train.y,
        loss=Loss("square", "mean"),
        step_size=step_size,
        batch_size=100,
        epochs=200,
        momentum=0.9,
        target_loss=1e-3,
        generator=generator_for("mixture batches", seed),
    )
    test = sample(clusters, num_points, generator=generator_for("mixture test", seed))
    return Trained(net.double(), clusters, test)
