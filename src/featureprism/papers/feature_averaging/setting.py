"""What the experiments of the paper share: clusters and samples of a setting, and the two ways to label them."""

from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from featureprism.attacks import self_test
from featureprism.certificates import robust_radius
from featureprism.data import GaussianClusters, orthogonal_clusters, sample
from featureprism.networks import BinaryReadout, GroupedNet, ReLU, TwoLayerNet, grouped_start, voting_start
from featureprism.probes import cosines
from featureprism.records import Dataset, RadiusBracket, Row
from featureprism.seeds import generator_for
from featureprism.theory.feature_averaging import Setting
from featureprism.training import first_layer_descent

BASELINE: Row = {  # Section 6 and Appendix E.1
    "dim": 3072,
    "positive": 5,
    "negative": 5,
    "points": 1000,
    "per_class": 5,
    "step_size": 1e-3,
    "start": 1e-5,
    "steps": 100,
    "group": 1,
}
CELLS = 8  # cells a point; counted, not timed, so that rows repeat exactly


class Problem(NamedTuple):
    """Clusters with a training and a test set of independent draws."""

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


def scales(quick: Row, standard: Row, paper: Row, **common) -> dict[str, list[Row]]:
    """One setting for each scale, the baseline where nothing else is said."""
    named = {"quick": quick, "standard": standard, "paper": paper}
    return {scale: [{**BASELINE, **common, **own}] for scale, own in named.items()}


def problem(setting: Row, seed: int) -> Problem:
    """Orthogonal centres of norm √d, noise N(0, I). Definition 3.1."""
    clusters = orthogonal_clusters(
        setting["dim"],
        setting["positive"],
        setting["negative"],
        1.0,
        generator=generator_for("centres", seed),
    )
    train = sample(clusters, setting["points"], generator=generator_for("train", seed))
    test = sample(clusters, setting["test_points"], generator=generator_for("test", seed))
    return Problem(clusters, train, test)


def theory_setting(setting: Row, per_class: int) -> Setting:
    """The setting as the theory wants it."""
    return Setting(
        dim=setting["dim"],
        num_positive=setting["positive"],
        num_negative=setting["negative"],
        num_points=setting["points"],
        per_class=per_class,
        step_size=setting["step_size"],
        start=setting["start"],
    )


def two_class_start(setting: Row, seed: int) -> TwoLayerNet:
    """The start of the two-class network."""
    generator = generator_for("two-class start", seed)
    return voting_start(setting["per_class"], setting["dim"], setting["start"], ReLU(), generator=generator)


def k_class_start(setting: Row, seed: int) -> GroupedNet:
    """The start of the network with a label for each cluster."""
    k, generator = setting["positive"] + setting["negative"], generator_for("k-class start", seed)
    return grouped_start(k, setting["group"], setting["dim"], setting["start"], generator=generator)


def train(start: Any, setting: Row, x: Tensor, targets: Tensor) -> Any:
    """Descent on the first layer: in float64 in the Gram representation (n < d), in float32 by the direct loop."""
    exact = x.shape[0] < x.shape[1]
    start, x, targets = (start, x, targets) if exact else (start.float(), x.float(), targets)
    targets = targets.to(x.dtype) if targets.is_floating_point() else targets
    run = first_layer_descent(start, x, targets, step_size=setting["step_size"], steps=setting["steps"])
    return run.last.double()


def train_two_class(setting: Row, data: Dataset, seed: int) -> TwoLayerNet:
    """Labels ±1, logistic loss."""
    return train(two_class_start(setting, seed), setting, data.x, data.y)


def train_k_class(setting: Row, data: Dataset, seed: int) -> GroupedNet:
    """A label for each cluster, cross-entropy."""
    return train(k_class_start(setting, seed), setting, data.x, data.cluster)


def bracket(net: TwoLayerNet | BinaryReadout, test: Dataset, gap: float = 1e-3) -> RadiusBracket:
    """Radii of the test points, certificates limited by cells."""
    return robust_radius(net, test.x, test.y, gap=gap, seconds_per_point=inf, max_cells=CELLS)


def attack_facts(found: RadiusBracket) -> Row:
    """What must stand beside an attacked radius: vanished gradients, where plain PGD fails, and the attack's self-test."""
    return {
        "zero_gradient_share": found.zero_gradient_share,
        "blind_share": found.blind_share,
        "self_test_passed": self_test().passed,
    }


def clean_accuracy(net: TwoLayerNet | BinaryReadout, test: Dataset) -> float:
    """Share of test points with y f > 0."""
    with torch.no_grad():
        return float((test.y * net(test.x) > 0).double().mean())


def average_cosines(W: torch.Tensor, signs: torch.Tensor, clusters: GaussianClusters) -> tuple[float, float]:
    """Mean cosine of neurons with the centres of their own class, and of the other."""
    table = cosines(W.detach(), clusters.mu)  # (h, k)
    same = signs.unsqueeze(1) == clusters.labels
    return float(table[same].mean()), float(table[~same].mean())


def matrix_rows(W: torch.Tensor, clusters: GaussianClusters, **labels) -> list[Row]:
    """cos(μ_i, w_j) as rows."""
    table = cosines(W.detach(), clusters.mu)
    return [
        {"kind": "cosine", "cluster": i, "neuron": j, "cosine": float(table[j, i]), **labels}
        for i in range(table.shape[1])
        for j in range(table.shape[0])
    ]
