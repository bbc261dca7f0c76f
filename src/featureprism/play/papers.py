"""Two more scenes: random features that one step amplifies (feature-amplification), and one perturbation that breaks every point
(double-edged)."""

import math
from collections.abc import Iterator, Mapping

import torch

from featureprism.data import LabelNoise, orthogonal_clusters, sample, sample_xor, xor_clusters
from featureprism.geometry import unit_rows
from featureprism.lab.rows import Row
from featureprism.networks import ReLU, robust_margin_classifier, voting_start
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent, max_margin_network

XOR_DIM, XOR_NEURONS, XOR_POINTS, XOR_STEPS = 100, 60, 1000, 20
EDGE_DIM, EDGE_POINTS, LENGTHS = 400, 48, 61
MOST_NOISE, FEWEST, MOST = 0.3, 4, 32


def amplification(words: Mapping[str, str]) -> Iterator[Row]:
    """Neurons in the plane of the two directions after every step, and how many new points are right.

    `noise` is the share of training labels that are flipped.
    """
    noise = _number(words, "noise", 0.1, 0.0, MOST_NOISE)
    seed = int(_number(words, "seed", 0, 0, 999))
    clusters = xor_clusters(XOR_DIM, 0.05, generator=generator_for("centres", seed))
    flips = LabelNoise("constant", noise)
    train = sample_xor(clusters, XOR_POINTS, flips, generator=generator_for("train", seed)).data
    test = sample_xor(
        clusters, XOR_POINTS, LabelNoise("constant", 0.0), generator=generator_for("test", seed)
    ).data
    first = voting_start(
        XOR_NEURONS // 2, XOR_DIM, 0.01 / math.sqrt(XOR_DIM), ReLU(), generator=generator_for("start", seed)
    )
    run = first_layer_descent(
        first, train.x, train.y, step_size=10.0, steps=XOR_STEPS, record=range(XOR_STEPS + 1)
    )
    axes = clusters.centres[[0, 2]].double()
    seen = test.x[:200].double() @ axes.T
    yield {"kind": "opening", "points": _rounded(seen), "labels": test.y[:200].int().tolist()}
    for step, net in zip(run.times, run.snapshots, strict=True):
        places = unit_rows(net.W.detach().double()) @ axes.T
        yield {
            "kind": "frame",
            "step": int(step),
            "places": _rounded(places),
            "signs": net.a.detach().sign().int().tolist(),
            "length": round(float(places.norm(dim=1).median()), 4),
            "accuracy": round(float((net(test.x) * test.y > 0).double().mean()), 4),
        }


def double_edged(words: Mapping[str, str]) -> Iterator[Row]:
    """The margin of every test point along one perturbation of growing length, for the max-margin network and a robust one.

    `clusters` is the number k of clusters; lengths are in units of √d.
    """
    k = int(_number(words, "clusters", 16, FEWEST, MOST))
    seed = int(_number(words, "seed", 0, 0, 999))
    if k % 2:
        raise ValueError(f"clusters must be even, got {k}.")
    clusters = orthogonal_clusters(EDGE_DIM, k // 2, k // 2, 0.3, generator=generator_for("centres", seed))
    train = sample(clusters, 6 * k, generator=generator_for("train", seed))
    test = sample(clusters, EDGE_POINTS, generator=generator_for("test", seed))
    direction = unit_rows((clusters.labels @ clusters.mu)[None]).double()[0]
    lengths = torch.linspace(0.0, 0.75, LENGTHS, dtype=torch.float64)
    networks = {
        "trained": max_margin_network(train.x, train.y).net,
        "robust": robust_margin_classifier(clusters.mu, clusters.labels),
    }
    for name, net in networks.items():
        x, y = test.x.double(), test.y.double()
        moved = x[None] - lengths[:, None, None] * math.sqrt(EDGE_DIM) * y[None, :, None] * direction
        with torch.no_grad():
            margins = (net.double()(moved.flatten(0, 1)).reshape(LENGTHS, -1) * y).T
        yield {
            "kind": "network",
            "name": name,
            "lengths": _rounded(lengths),
            "margins": _rounded(margins / margins[:, 0].median()),
            "right": _rounded((margins > 0).double().mean(dim=0)),
            "labels": test.y.int().tolist(),
        }


SCENES = {"amplification": amplification, "double-edged": double_edged}


def _number(words: Mapping[str, str], name: str, default: float, low: float, high: float) -> float:
    try:
        value = float(words.get(name, default))
    except ValueError as error:
        raise ValueError(f"{name} must be a number, got {words[name]!r}.") from error
    if not low <= value <= high:
        raise ValueError(f"{name} must be between {low:g} and {high:g}, got {value:g}.")
    return value


def _rounded(values: torch.Tensor) -> list:
    return torch.round(values, decimals=4).tolist()
