"""Networks of the five papers at small sizes, trained by this library, and networks that belong to none of them."""

import copy
from math import sqrt

import numpy as np
import torch

from featureprism.data import orthogonal_clusters, orthonormal_clusters, sample, sample_balanced
from featureprism.networks import (
    PolynomialReLU,
    ReLU,
    TwoLayerNet,
    biased_start,
    gaussian_start,
    grouped_start,
    symmetric_start,
    unit_votes_start,
    voting_start,
)
from featureprism.papers.double_edged import setting as double_edged
from featureprism.papers.feature_amplification import setting as amplification
from featureprism.papers.feature_purification import setting as purification
from featureprism.seeds import generator_for
from featureprism.training import Loss, first_layer_descent, gradient_descent


def gmm_flow(seed, dim, half, per_cluster, more=0):
    """`more`: sub-classes that the other class has beyond `half`."""
    clusters = orthonormal_clusters(dim, half, half + more, 0.1, generator=generator_for("centres", seed))
    data = sample_balanced(clusters, per_cluster, generator=generator_for("train", seed))
    start = gaussian_start(
        20 * half, dim, 0.05 / sqrt(dim), PolynomialReLU(3.0), generator=generator_for("start", seed)
    )
    run = gradient_descent(start, data.x, data.y, loss=Loss("square", "mean"), step_size=0.5, steps=700)
    return run.last.double(), data.x, data.y


def averaging(seed, dim, half, points, more=0):
    clusters = orthogonal_clusters(dim, half, half + more, 1.0, generator=generator_for("centres", seed))
    data = sample(clusters, points, generator=generator_for("train", seed))
    start = voting_start(5, dim, 1e-5, ReLU(), generator=generator_for("start", seed))
    run = first_layer_descent(start, data.x, data.y, step_size=3.0 / dim, steps=100)
    return run.last.double(), data.x, data.y


def decoupled(seed, dim, half, points):
    clusters = orthogonal_clusters(dim, half, half, 1.0, generator=generator_for("centres", seed))
    data = sample(clusters, points, generator=generator_for("train", seed))
    start = grouped_start(2 * half, 2, dim, 1e-5, generator=generator_for("start", seed))
    run = first_layer_descent(start, data.x, data.cluster, step_size=3.0 / dim, steps=100)
    return run.last.double(), data.x, data.cluster


def at_kkt(seed, dim, half, width, made=double_edged.TrainingSetting.within):
    s = made(dim, 2 * half, width=width, method="maximiser", steps=200, test_points=10)
    data = double_edged.problem(s, seed).train
    return double_edged.trained(s, data, seed), data.x, data.y


def amplified(seed, dim, points, width):
    s = amplification.NoisyXor.on_edge(16.0, dim=dim, points=points, width=width)
    data = amplification.problem(s, seed).train
    return amplification.trained(s, data, seed).last.double(), data.data.x, data.data.y


def purified(seed, dim, stage, steps):
    s = purification.battery(
        dim,
        width=3 * dim,
        bias_growth=0.15,
        bias_cap=0.5,
        radius=0.335 / round(dim**0.36) ** 0.5,
        step_per_bias=0.2,
        penalty=0.07,
        ties="positive",
        steps=steps,
        adversarial_steps=80,
    )
    net = purification.trained(s, seed, stage)
    points = purification.unseen(s, seed, 1000)
    return copy.deepcopy(net).double(), points.x.double(), points.y.double()


def drawn(make, *ranges, **fixed):
    """A network of a seed whose sizes are drawn from ranges, ends included, by that seed."""

    def of(seed):
        rng = np.random.default_rng([seed, 7])
        return make(seed, *(int(rng.integers(low, high + 1)) for low, high in ranges), **fixed)

    return of


# every recipe of a paper, at sizes that its seed draws
RECIPES = {
    "gmm-flow": {
        "pReLU, p = 3": drawn(gmm_flow, (80, 400), (1, 6), (15, 60)),
        "unequal classes": drawn(gmm_flow, (150, 400), (2, 5), (20, 60), more=4),
    },
    "feature-averaging": {
        "two labels": drawn(averaging, (300, 2000), (2, 6), (200, 800)),
        "two labels, unequal classes": drawn(averaging, (300, 2000), (2, 4), (200, 800), more=3),
        "a label for each sub-class": drawn(decoupled, (300, 2000), (2, 5), (200, 800)),
    },
    "double-edged": {
        "small noise": drawn(at_kkt, (400, 2000), (2, 5), (4, 30)),
        "noise of 1": drawn(at_kkt, (400, 1500), (2, 5), (4, 30), made=double_edged.TrainingSetting.usual),
        "means on a sphere": drawn(
            at_kkt, (400, 1500), (2, 5), (4, 30), made=double_edged.TrainingSetting.on_sphere
        ),
    },
    "feature-amplification": {"wrong labels": drawn(amplified, (700, 2500), (150, 600), (80, 600))},
    "feature-purification": {
        "clean": drawn(purified, (40, 120), stage="clean", steps=500),
        "adversarial": drawn(purified, (40, 120), stage="adversarial", steps=500),
    },
}


def random_networks(seed, dim, half):
    """Untrained ones of every kind, on the clusters of feature-averaging."""
    clusters = orthogonal_clusters(dim, half, half, 1.0, generator=generator_for("centres", seed))
    data = sample(clusters, 400, generator=generator_for("train", seed))
    of = generator_for("start", seed)
    shape = torch.randn(40, dim, generator=of).double()
    return [
        (voting_start(10, dim, 1.0, ReLU(), generator=of), data.x, data.y),
        (gaussian_start(40, dim, 0.1, PolynomialReLU(3.0), generator=of), data.x, data.y),
        (biased_start(20, dim, 0.1, generator=of), data.x, data.y),
        (unit_votes_start(40, dim, 0.1, ReLU(), generator=of), data.x, data.y),
        (symmetric_start(60, dim, 0.1, 0.2, 0.01, generator=of).double(), data.x, data.y),
        (grouped_start(2 * half, 2, dim, 0.1, generator=of).double(), data.x, data.cluster),
        (TwoLayerNet(shape, torch.ones(40).double(), activation=ReLU()), data.x, data.y),
    ]


def structureless(seed, dim, num_classes):
    """Deep features of a random network of noise, labels of a random network or by coin; a trained scikit-learn MLP."""
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(600, 30))
    for _ in range(2):
        x = np.maximum(x @ rng.normal(size=(x.shape[1], dim)) / sqrt(x.shape[1]), 0)
    x = x - x.mean(axis=0)
    hidden = np.tanh(x @ rng.normal(size=(dim, 20)))
    y = (
        (hidden @ rng.normal(size=(20, num_classes))).argmax(axis=1)
        if seed % 2
        else rng.integers(num_classes, size=600)
    )
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = MLPClassifier((30,), max_iter=150, random_state=seed).fit(x, y)
    return net, x, y


def of_none(seed):
    """Seven untrained networks, and two trained on features without structure; sizes are drawn by the seed."""
    rng = np.random.default_rng([seed, 7])
    dim, half = int(rng.integers(100, 700)), int(rng.integers(2, 6))
    shapeless = [structureless(seed, int(rng.integers(50, 200)), k) for k in (2, int(rng.integers(3, 7)))]
    return [*random_networks(seed, dim, half), *shapeless]
