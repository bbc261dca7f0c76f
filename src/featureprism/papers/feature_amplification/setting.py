"""What the items share: XOR samples with noisy labels, and the network trained on them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch

from featureprism._progress import Progress, no_progress
from featureprism.data import LabelNoise, NoisySample, XorClusters, sample_xor, xor_clusters
from featureprism.data.label_noise import budget
from featureprism.data.xor import LAWS, with_flips
from featureprism.lab import Rows
from featureprism.lab.rows import Row, Values
from featureprism.networks import ReLU, TwoLayerNet, unit_votes_start
from featureprism.papers.feature_amplification import theory
from featureprism.papers.feature_amplification.adversary import label_influence, worst_flips
from featureprism.seeds import generator_for
from featureprism.training import first_layer_descent
from featureprism.training.trajectory import Trajectory

C = 16.0  # the constant of the assumptions in these experiments; the proof's own would be 10¹⁰
# sizes inside (A1)-(A7) for C = 16, where d must be at least 16 ln²(20n); of such a width that Lemma 4.2 is true as well
INSIDE = {
    "quick": {"points": 400, "width": 800},
    "standard": {"points": 800, "width": 800},
    "paper": {"points": 2000, "width": 800},
}
DIMS = {"quick": (1300, 2600, 5200), "standard": (1500, 3000, 6000), "paper": (1900, 3800, 7600)}
OTHER_LAWS = tuple(law for law in LAWS if law != "gaussian")  # log-concave too, as the paper allows
ADVERSARY = "adversarial"  # the noise that looks at the sample and the start
GOOD_RUN = ("assumption", "lemma-4-1", "lemma-4-3")  # what the lemmas ask for. Definition 4.5


@dataclass(frozen=True, kw_only=True)
class NoisyXor(theory.Sizes):
    """The sizes of the theory, how labels are flipped (by coins or by count), the law of a cluster, and how many points test.

    `constant` is the C of the assumptions that the setting is held against.
    """

    noise: str = "constant"
    counted: bool = False
    law: str = "gaussian"
    test_points: int = 1000
    constant: float = C


class Problem(NamedTuple):
    """Clusters, a noisy training set and an independent noisy test set."""

    clusters: XorClusters
    train: NoisySample
    test: NoisySample


def problem(s: NoisyXor, seed: int) -> Problem:
    """Samples of a setting. An adversary looks at the sample it spoils; test points are flipped at random at the same rate."""
    clusters = xor_clusters(s.dim, s.sigma, s.law, generator=generator_for("centres", seed))
    noise = LabelNoise("constant" if s.noise == ADVERSARY else s.noise, s.noise_rate, s.counted)
    train = sample_xor(clusters, s.points, noise, generator=generator_for("train", seed))
    test = sample_xor(clusters, s.test_points, noise, generator=generator_for("test", seed))
    if s.noise == ADVERSARY:
        num, influence = budget(s.noise_rate, s.points), _influence(replace(s, noise_rate=0.0), seed)
        chosen = worst_flips(start(s, seed), train, influence, num, step_size=s.step_size, steps=s.steps)
        train = with_flips(train, chosen)
    return Problem(clusters, train, test)


@lru_cache(maxsize=1)
def _influence(s: NoisyXor, seed: int) -> torch.Tensor:
    """What each label counts, on clean labels: the same whatever the rate, so once for all rates of a sweep."""
    sample = problem(replace(s, noise="constant"), seed).train
    return label_influence(start(s, seed), sample, step_size=s.step_size, steps=s.steps)


def start(s: NoisyXor, seed: int) -> TwoLayerNet:
    """The random features before training."""
    return unit_votes_start(s.width, s.dim, s.start, ReLU(), generator=generator_for("start", seed))


def trained(
    s: NoisyXor,
    data: NoisySample,
    seed: int,
    record: tuple[int, ...] = (),
    progress: Progress = no_progress,
) -> Trajectory[TwoLayerNet]:
    """Full-batch descent on the first layer, logistic loss."""
    return first_layer_descent(
        start(s, seed),
        data.data.x,
        data.data.y,
        step_size=s.step_size,
        steps=s.steps,
        record=record,
        progress=progress,
    )


def margins(net: TwoLayerNet, sample: NoisySample) -> torch.Tensor:
    """y f under the noisy labels."""
    with torch.no_grad():
        return sample.data.y * net(sample.data.x)


def test_error(net: TwoLayerNet, sample: NoisySample) -> float:
    """Share of points with y f ≤ 0 under the noisy labels."""
    return float((margins(net, sample) <= 0).double().mean())


def clean_error(net: TwoLayerNet, sample: NoisySample) -> float:
    """Share of points on the wrong side of their clean label."""
    with torch.no_grad():
        return float((sample.clean * net(sample.data.x) <= 0).double().mean())


def good_run(s: NoisyXor, W0: torch.Tensor, sample: NoisySample) -> list[Row]:
    """(A1)-(A7), and the events of Lemmas 4.1 and 4.3 on a start and a training set, as rows."""
    premises = [
        *theory.assumptions(s, s.constant),
        *theory.start_events(s, W0, sample.data.centres, theory.C0),
        *theory.sample_constants(s, sample.data, sample.flipped),
    ]
    return [premise.as_row() for premise in premises]


def at_last_time(field: str) -> Callable[[Rows], Values]:
    """A field of each seed's last row of kind "time", as the value of a claim."""
    return lambda rows: rows.of("time").per_seed(lambda run: run.column(field)[-1])


def log_times(steps: int) -> tuple[int, ...]:
    """About ten times from 1 to the end, evenly on a log scale."""
    return tuple(sorted({round(steps ** (i / 9)) for i in range(10)}))
