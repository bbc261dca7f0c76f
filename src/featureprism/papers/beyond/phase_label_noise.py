"""XOR with flipped labels: clean error against the rate of flips and the number of points."""

from itertools import pairwise
from math import nan

from featureprism.papers.feature_amplification.setting import clean_error, problem, row_of, trained
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.theory import feature_amplification as theory

LEARNED = 0.05  # a clean error of at most this counts as learned


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Mean clean error over independent samples; a single sample errs by whole clusters."""
    errors = []
    for draw in range(setting["samples"]):
        own = seed * setting["samples"] + draw
        data = problem(setting, own)
        errors.append(clean_error(trained(setting, data.train, own).last, data.test))
        progress((draw + 1) / setting["samples"])
    predicted = theory.lost_cluster_chance(setting["noise_rate"], setting["points"], setting["steps"])
    return [{"kind": "cell", "clean_error": sum(errors) / len(errors), "predicted_error": predicted}]


def breakdown(rows: list[Row], points: int, column: str, seed: int) -> float:
    """The rate at which an error passes 5 %, interpolated; NaN if it does not on the grid."""
    cells = sorted(rows_of(rows, "cell", points=points, seed=seed), key=lambda r: r["noise_rate"])
    for low, high in pairwise(cells):
        if low[column] <= LEARNED < high[column]:
            share = (LEARNED - low[column]) / (high[column] - low[column])
            return low["noise_rate"] + share * (high["noise_rate"] - low["noise_rate"])
    return nan


def _claims(rows: list[Row]) -> list[Claim]:
    seeds = seeds_of(rows)
    sizes = sorted({r["points"] for r in rows_of(rows, "cell")})

    def gap(seed: int) -> float:
        return max(abs(r["clean_error"] - r["predicted_error"]) for r in rows_of(rows, "cell", seed=seed))

    def place(seed: int) -> float:
        pairs = [[breakdown(rows, n, c, seed) for c in ("clean_error", "predicted_error")] for n in sizes]
        return max(abs(measured - predicted) for measured, predicted in pairs)

    def rises(seed: int) -> float:
        return breakdown(rows, sizes[-1], "clean_error", seed) - breakdown(
            rows, sizes[0], "clean_error", seed
        )

    source = "beyond feature-amplification, Theorem 3.1"
    return [
        judge(
            "phase-label-noise.place",
            source,
            "learning breaks down where predicted: rate at which the clean error passes 5 %, measured against predicted, largest"
            " difference over n",
            [place(s) for s in seeds],
            "<=",
            0.06,
        ),
        judge(
            "phase-label-noise.law",
            source,
            "the clean error is the predicted chance to lose a cluster: largest difference over cells",
            [gap(s) for s in seeds],
            "<=",
            0.1,
        ),
        judge(
            "phase-label-noise.points",
            source,
            "more points bear more noise: breakdown rate at the largest n minus that at the smallest",
            [rises(s) for s in seeds],
            ">",
            0.0,
        ),
    ]


def _settings(
    dim: int, width: int, samples: int, points: tuple[int, ...], rates: tuple[float, ...]
) -> list[Row]:
    own = {"samples": samples, "test_points": 400}
    return [
        {**row_of(theory.regime(dim, n, width, 16.0)), **own, "noise_rate": rate}
        for n in points
        for rate in rates
    ]


RATES = (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.48)
PHASE_LABEL_NOISE = Experiment(
    id="beyond/phase-label-noise",
    source="beyond feature-amplification, Theorem 3.1",
    title="How much label noise so many points bear",
    scales={
        "quick": _settings(50, 200, 40, (32, 128, 512), RATES),
        "standard": _settings(200, 500, 40, (32, 128, 512, 2048), RATES),
        "paper": _settings(500, 2000, 40, (32, 128, 512, 2048, 8192), RATES),
    },
    measure=measure,
    claims=_claims,
    about=(
        "Error under clean labels of networks trained on XOR clusters whose labels are flipped at random, mean over independent"
        " samples; other parameters on the edge of the assumptions for C = 16. Predicted: a cluster is lost when its surplus of right"
        " labels is less than 1/(2T-1) of that of the cluster opposite, because the first of T steps throws neurons across. (A first"
        " guess, that the majority of its own labels decides, was too hopeful for few points.)"
    ),
)
