"""XOR with flipped labels: clean error against the rate of flips and the number of points."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, above, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.beyond.curves import crossing, ends, largest_gap
from featureprism.papers.feature_amplification import laws
from featureprism.papers.feature_amplification.setting import C, NoisyXor, clean_error, problem, trained

LEARNED = 0.05  # a clean error of at most this counts as learned
SOURCE = "beyond feature-amplification, Theorem 3.1"
finding = partial(Claim, source=SOURCE, origin="featureprism")


@dataclass(frozen=True, kw_only=True)
class Samples(NoisyXor):
    """How many independent samples a clean error is the mean of."""

    samples: int
    test_points: int = 400


def measure(s: Samples, seed: int, context: Context) -> list[Row]:
    """Mean clean error over independent samples; a single sample errs by whole clusters."""
    errors = []
    for draw in range(seed * s.samples, (seed + 1) * s.samples):
        data = problem(s, draw)
        errors.append(clean_error(trained(s, data.train, draw).last, data.test))
        context.progress(len(errors) / s.samples)
    predicted = laws.lost_cluster_chance(s)
    kind = "cell" if s.constant == C else "other constant"
    return [{"kind": kind, "clean_error": sum(errors) / len(errors), "predicted_error": predicted}]


def breakdown(cells: Rows, column: str = "clean_error") -> float:
    """The rate at which an error passes 5 %, interpolated; NaN if it does not on the grid."""
    return crossing(cells.column("noise_rate"), cells.column(column), LEARNED)


def _off_place(own: Rows) -> float:
    lines = own.groups("points").values()
    return np.max([abs(breakdown(line) - breakdown(line, "predicted_error")) for line in lines])


def _rise(own: Rows) -> float:
    fewest, most = ends(own, "points")
    return breakdown(most) - breakdown(fewest)


OTHER_CONSTANTS, FEW_RATES, FEW_POINTS = (4.0, 8.0, 64.0), (0.1, 0.3, 0.45), 64
CLAIMS = (
    finding(
        "place",
        says="learning breaks down where predicted: rate at which the clean error passes 5 %, measured against predicted, largest"
        " difference over n",
        value=lambda rows: rows.of("cell").per_seed(_off_place),
        bound=at_most(0.06),
    ),
    finding(
        "law",
        says="the clean error is the predicted chance to lose a cluster: largest difference over cells",
        value=lambda rows: largest_gap(rows, "clean_error", "predicted_error"),
        bound=at_most(0.1),
    ),
    finding(
        "constants",
        says=f"the same on the edge of the assumptions for C = 4, 8 and 64, n = {FEW_POINTS}: largest difference over cells",
        value=lambda rows: rows.of("other constant").per_seed(
            lambda own: np.abs(own.column("clean_error") - own.column("predicted_error")).max()
        ),
        bound=at_most(0.1),
    ),
    finding(
        "points",
        says="more points bear more noise: breakdown rate at the largest n minus that at the smallest",
        value=lambda rows: rows.of("cell").per_seed(_rise),
        bound=above(0.0),
    ),
)
RATES = (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.48)


def _settings(dim: int, width: int, points: tuple[int, ...]) -> list[Samples]:
    sizes = {"dim": dim, "width": width, "samples": 40}
    return [
        *(Samples.on_edge(C, points=n, noise_rate=rate, **sizes) for n in points for rate in RATES),
        *(
            Samples.on_edge(c, points=FEW_POINTS, noise_rate=rate, constant=c, **sizes)
            for c in OTHER_CONSTANTS
            for rate in FEW_RATES
        ),
    ]


PHASE_LABEL_NOISE = Experiment(
    id="beyond/phase-label-noise",
    source=SOURCE,
    title="How much label noise so many points bear",
    scales={
        "quick": _settings(50, 200, (32, 128, 512)),
        "standard": _settings(200, 500, (32, 128, 512, 2048)),
        "paper": _settings(500, 500, (32, 128, 512, 2048)),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Error under clean labels of networks trained on XOR clusters whose labels are flipped at random, mean over independent"
        " samples; other parameters on the edge of the assumptions for C = 16. Predicted: a cluster is lost when its surplus of right"
        " labels is less than about 2/(3T-2) of that of the cluster opposite, because neurons that vote against it are thrown from side"
        " to side. (Two guesses were too hopeful for few points: that the majority of its own labels decides, and a ratio of 1/(2T-1),"
        " which forgets the neurons that are thrown away first and come back.)"
    ),
)
