"""What the experiments of the paper share: XOR samples of a setting, and the network trained on them."""

from typing import NamedTuple

import torch

from featureprism.data import LabelNoise, NoisySample, XorClusters, sample_xor, xor_clusters
from featureprism.networks import ReLU, TwoLayerNet, unit_votes_start
from featureprism.records import Row, Trajectory
from featureprism.seeds import generator_for
from featureprism.theory.feature_amplification import Setting
from featureprism.training import first_layer_descent


class Problem(NamedTuple):
    """Clusters, a noisy training set and an independent noisy test set."""

    clusters: XorClusters
    train: NoisySample
    test: NoisySample


def row_of(s: Setting, **more) -> Row:
    """A theory setting as the flat row of an experiment."""
    return {
        "dim": s.dim,
        "points": s.num_points,
        "width": s.width,
        "sigma": s.sigma,
        "noise_rate": s.noise_rate,
        "start": s.start,
        "step_size": s.step_size,
        "steps": s.steps,
        "noise": "constant",
        "law": "gaussian",
        **more,
    }


def theory_setting(row: Row) -> Setting:
    """The setting as the theory wants it."""
    return Setting(
        row["dim"],
        row["points"],
        row["width"],
        row["sigma"],
        row["noise_rate"],
        row["start"],
        row["step_size"],
    )


def problem(row: Row, seed: int) -> Problem:
    """Samples of a setting."""
    clusters = xor_clusters(row["dim"], row["sigma"], row["law"], generator=generator_for("centres", seed))
    noise = LabelNoise(row["noise"], row["noise_rate"])
    train = sample_xor(clusters, row["points"], noise, generator=generator_for("train", seed))
    # an adversary looks at the sample it spoils; fresh points are spoiled at random at the same rate
    fresh = LabelNoise("constant", row["noise_rate"]) if row["noise"] == "adversarial" else noise
    test = sample_xor(clusters, row.get("test_points", 1000), fresh, generator=generator_for("test", seed))
    return Problem(clusters, train, test)


def start(row: Row, seed: int) -> TwoLayerNet:
    """The random features before training."""
    return unit_votes_start(
        row["width"], row["dim"], row["start"], ReLU(), generator=generator_for("start", seed)
    )


def trained(row: Row, data: NoisySample, seed: int, record: tuple[int, ...] = ()) -> Trajectory[TwoLayerNet]:
    """Full-batch descent on the first layer, logistic loss."""
    return first_layer_descent(
        start(row, seed),
        data.data.x,
        data.data.y,
        step_size=row["step_size"],
        steps=row["steps"],
        record=record,
    )


def margins(net: TwoLayerNet, sample: NoisySample) -> torch.Tensor:
    """y f under the labels one sees."""
    with torch.no_grad():
        return sample.data.y * net(sample.data.x)


def test_error(net: TwoLayerNet, sample: NoisySample) -> float:
    """Share of points with y f ≤ 0 under the labels one sees."""
    return float((margins(net, sample) <= 0).double().mean())


def clean_error(net: TwoLayerNet, sample: NoisySample) -> float:
    """Share of points on the wrong side of their clean label."""
    with torch.no_grad():
        return float((sample.clean * net(sample.data.x) <= 0).double().mean())
