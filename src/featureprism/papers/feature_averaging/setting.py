"""What the items share: the baseline of Section 6, its data, its two trainings, and the brackets of robust radii."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from featureprism.brackets import RadiusBracket
from featureprism.data import GaussianClusters, orthogonal_clusters, sample
from featureprism.data.dataset import Dataset
from featureprism.lab import Rows, below, requires
from featureprism.lab.experiment import SCALES
from featureprism.lab.rows import Row, Values
from featureprism.networks import BinaryReadout, ReLU, TwoLayerNet, grouped_start, voting_start
from featureprism.networks.grouped import GroupedNet
from featureprism.papers.feature_averaging.theory import Sizes
from featureprism.probes import cosines
from featureprism.probes.self_test import self_test
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent
from featureprism.training.trajectory import Trajectory
from featureprism.verify import Budget, robust_radius

LITTLE_O = below(1.0)
LITTLE_O_READ = "o(1) has no constant; it is read as below 1"
MAX_CELLS, MAX_BOXES = 8, 64  # effort for one point; counted, not timed, so that rows repeat exactly
READOUT_GAP = (
    0.02  # relative gap at which the proof of a read-out stops: several target classes come nearly as near
)

ASSUMPTIONS = ("assumption-3-2", "assumption-3-3", "assumption-4-3")
# Appendix B starts from all of Appendix A; for the theorems these events are no premises, but part of their probability
APPENDIX_A = ("proposition-a-6", "proposition-a-10", "proposition-a-12", "lemma-a-13")
OF_THEOREM_4_5 = requires(*ASSUMPTIONS, "theorem-4-5")
OF_THEOREM_4_7 = requires(*ASSUMPTIONS, "theorem-4-7")
OF_APPENDIX_B = requires(*ASSUMPTIONS, "theorem-4-5", *APPENDIX_A)
OF_APPENDIX_C = requires(*ASSUMPTIONS, "theorem-4-7", *APPENDIX_A)


@dataclass(frozen=True, kw_only=True)
class Baseline(Sizes):
    """The baseline of Section 6 and Appendix E.1: descent for `steps` steps; `group` neurons for each of k labels."""

    dim: int = 3072
    positive: int = 5
    negative: int = 5
    points: int = 1000
    per_class: int = 5
    step_size: float = 1e-3
    start: float = 1e-5
    steps: int = 100
    group: int = 1  # not printed for these networks
    test_points: int = 1


# test points at standard and paper: a read-out takes a tenth of a second a point to prove, and the paper does not say how many it tests
PROVEN_POINTS = (100, 300)


def tested_on(*points: int) -> dict[str, list[Baseline]]:
    """The baseline with so many test points at each scale, from the quick one on."""
    return {scale: [Baseline(test_points=num)] for scale, num in zip(SCALES, points, strict=True)}


class Problem(NamedTuple):
    """Clusters with a training and a test set of independent draws."""

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


def problem(s: Baseline, seed: int) -> Problem:
    """Orthogonal centres of norm √d, noise N(0, I). Definition 3.1."""
    clusters = orthogonal_clusters(
        s.dim, s.positive, s.negative, 1.0, generator=generator_for("centres", seed)
    )
    train = sample(clusters, s.points, generator=generator_for("train", seed))
    test = sample(clusters, s.test_points, generator=generator_for("test", seed))
    return Problem(clusters, train, test)


def two_class_start(s: Baseline, seed: int) -> TwoLayerNet:
    """The start of the two-class network."""
    generator = generator_for("two-class start", seed)
    return voting_start(s.per_class, s.dim, s.start, ReLU(), generator=generator)


def k_class_start(s: Baseline, seed: int) -> GroupedNet:
    """The start of the network with a label for each cluster."""
    generator = generator_for("k-class start", seed)
    return grouped_start(s.num_clusters, s.group, s.dim, s.start, generator=generator)


def descent(start: Any, s: Baseline, x: Tensor, targets: Tensor) -> Trajectory[Any]:
    """Descent on the first layer: in float64 in the Gram representation (n < d), in float32 by the direct loop."""
    exact = x.shape[0] < x.shape[1]
    start, x, targets = (start, x, targets) if exact else (start.float(), x.float(), targets)
    targets = targets.to(x.dtype) if targets.is_floating_point() else targets
    return first_layer_descent(start, x, targets, step_size=s.step_size, steps=s.steps)


def train_two_class(s: Baseline, data: Dataset, seed: int) -> TwoLayerNet:
    """Labels ±1, logistic loss."""
    return descent(two_class_start(s, seed), s, data.x, data.y).last.double()


def train_k_class(s: Baseline, data: Dataset, seed: int) -> GroupedNet:
    """A label for each cluster, cross-entropy."""
    return descent(k_class_start(s, seed), s, data.x, data.cluster).last.double()


def bracket(
    net: TwoLayerNet | BinaryReadout, test: Dataset, gap: float = 1e-3, boxes: int = MAX_BOXES
) -> RadiusBracket:
    """Proven and attacked radii of the test points; the effort is limited by cells, or by boxes for read-outs of k classes."""
    most = boxes if isinstance(net, BinaryReadout) else MAX_CELLS
    gap = max(gap, READOUT_GAP) if isinstance(net, BinaryReadout) else gap
    return robust_radius(net, test.x, test.y, gap=gap, budget=Budget(branches=most))


def attack_facts(radii: RadiusBracket) -> Row:
    """What must stand beside an attacked radius: vanished gradients, where plain PGD fails, and the attack's self-test."""
    return {
        "zero_gradient_share": radii.zero_gradient_share,
        "blind_share": radii.blind_share,
        "self_test_passed": self_test().passed,
    }


def clean_accuracy(net: TwoLayerNet | BinaryReadout, test: Dataset) -> float:
    """Share of test points with y f > 0."""
    with torch.no_grad():
        return float((test.y * net(test.x) > 0).double().mean())


def average_cosines(W: Tensor, signs: Tensor, clusters: GaussianClusters) -> tuple[float, float]:
    """Mean cosine of neurons with the centres of their own class, and of the other."""
    table = cosines(W.detach(), clusters.mu)  # (h, k)
    same = signs.unsqueeze(1) == clusters.labels
    return float(table[same].mean()), float(table[~same].mean())


def matrix_rows(W: Tensor, clusters: GaussianClusters, **labels) -> list[Row]:
    """cos(μ_i, w_j) as rows."""
    table = cosines(W.detach(), clusters.mu)
    return [
        {"kind": "cosine", "cluster": i, "neuron": j, "cosine": float(table[j, i]), **labels}
        for i in range(table.shape[1])
        for j in range(table.shape[0])
    ]


def summary(name: str, **fields: Any) -> Callable[[Rows], Values]:
    """One field of each seed's summary, as the value of a claim."""
    return lambda rows: rows.of("summary", **fields).per_seed(name)
