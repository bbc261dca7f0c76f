"""XOR with flipped labels: clean error against the rate of flips and the number of points."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from featureprism.lab import Claim, Experiment, Rows, above, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.beyond.phases import crossing, draw_phase, ends, largest_gap
from featureprism.papers.feature_amplification import laws
from featureprism.papers.feature_amplification.setting import C, NoisyXor, clean_error, problem, trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNED = 0.05  # a clean error of at most this counts as learned
SOURCE = "beyond feature-amplification, Theorem 3.1"


@dataclass(frozen=True, kw_only=True)
class SampledXor(NoisyXor):
    """How many independent samples a clean error is the mean of."""

    samples: int
    test_points: int = 400


def measure(s: SampledXor, seed: int, context: Context) -> list[Row]:
    """Mean clean error over independent samples; a single sample errs by whole clusters."""
    errors = []
    for draw in range(seed * s.samples, (seed + 1) * s.samples):
        data = problem(s, draw)
        errors.append(clean_error(trained(s, data.train, draw).last, data.test))
        context.progress(len(errors) / s.samples)
    predicted = laws.lost_cluster_chance(s)
    kind = "cell" if s.constant == C else "other constant"
    return [{"kind": kind, "clean_error": sum(errors) / len(errors), "predicted_error": predicted}]


def breakdown(cells: Rows) -> float:
    """The rate at which an error passes 5 %, interpolated; NaN if it does not on the grid."""
    return crossing(cells.column("noise_rate"), cells.column("clean_error"), LEARNED)


def _rise(run: Rows) -> float:
    fewest, most = ends(run, "points")
    return breakdown(most) - breakdown(fewest)


OTHER_CONSTANTS, FEW_RATES, FEW_POINTS = (4.0, 8.0, 64.0), (0.1, 0.3, 0.45), 64
CLAIMS = (
    Claim(
        "law",
        source=SOURCE,
        says="The error under clean labels is the chance that a cluster has too small a surplus of right labels beside the cluster"
        " opposite to it.",
        quantity="|mean clean error over 40 samples - predicted chance|, largest over rates of flips and numbers of points",
        bound=at_most(0.1),
        because="the mean of 40 errors that come in quarters is known to about 0.05",
        value=lambda rows: largest_gap(rows.of("cell"), "clean_error", "predicted_error"),
        origin="featureprism",
    ),
    Claim(
        "constants",
        source=SOURCE,
        says="The law of lost clusters also gives the clean error on the edge of the assumptions for C = 4, 8 and 64.",
        quantity=f"|mean clean error over 40 samples - predicted chance| at n = {FEW_POINTS}, largest over C and rates of flips",
        bound=at_most(0.1),
        because="the mean of 40 errors that come in quarters is known to about 0.05",
        value=lambda rows: largest_gap(rows.of("other constant"), "clean_error", "predicted_error"),
        origin="featureprism",
    ),
    Claim(
        "points",
        source=SOURCE,
        says="More points bear more label noise.",
        quantity="rate of flips at which the clean error passes 5 %, at the largest n minus that at the smallest",
        bound=above(0.0),
        because="a positive difference is what the sentence says",
        value=lambda rows: rows.of("cell").per_seed(_rise),
        origin="featureprism",
    ),
)
RATES = (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.48)


def draw(rows: Rows) -> "Figure":
    """The clean error over the rate of flips and the number of points, with the prediction's contours."""
    return draw_phase(
        rows.of("cell"),
        "noise_rate",
        "points",
        "clean_error",
        theory="predicted_error",
        levels=(0.05, 0.2, 0.4),
    )


def _settings(dim: int, width: int, points: tuple[int, ...]) -> list[SampledXor]:
    sizes = {"dim": dim, "width": width, "samples": 40}
    return [
        *(SampledXor.on_edge(C, points=n, noise_rate=rate, **sizes) for n in points for rate in RATES),
        *(
            SampledXor.on_edge(c, points=FEW_POINTS, noise_rate=rate, constant=c, **sizes)
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
    draw=draw,
    about=(
        "Error under clean labels of networks trained on XOR clusters whose labels are flipped at random, mean over independent"
        " samples; other parameters on the edge of the assumptions for C = 16. Predicted: a cluster is lost when its surplus of right"
        " labels is less than about 2/(3T-2) of that of the cluster opposite, because neurons that vote against it are thrown from side"
        " to side. (Two guesses were too hopeful for few points: that the majority of its labels decides, and a ratio of 1/(2T-1),"
        " which forgets the neurons that are thrown away first and come back.)"
    ),
)
