"""How cost and effect of each paper grow with the dimension, and what that says of dimensions no one has run."""

from collections.abc import Callable
from math import exp, log
from typing import NamedTuple

from featureprism.papers.feature_amplification import setting as amplification
from featureprism.papers.feature_averaging import setting as averaging
from featureprism.papers.gmm_flow import theorem
from featureprism.probes.amplification import correlations, leaning_neurons
from featureprism.records import Claim, Experiment, Progress, Row, judge, log_slope, rows_of, seeds_of, silent
from featureprism.theory.feature_amplification import USABLE_C0, regime

BEYOND = 1e6  # the dimension extrapolated to


class Result(NamedTuple):
    """An effect, and the gradient evaluations of plain training that it took, with points and neurons of each."""

    effect: float
    evaluations: int
    points: int
    neurons: int


def _distance(setting: Row, seed: int) -> Result:
    """gmm-flow: least distance to F^(p) along the flow ÷ κ_p α/√N."""
    sizes = {"positive": 2, "negative": 2, "neurons_per_cluster": 2, "test_points": 1, "num_times": 6}
    summary = theorem.measure({**setting, **sizes, "alpha": 0.1}, seed, silent)[0]
    ratio = summary["distance"] / summary["predicted_distance"]
    return Result(ratio, summary["right_hand_sides"], 4 * setting["per_cluster"], 8)


def _radius(setting: Row, seed: int) -> Result:
    """feature-averaging: 50 % radius of the two-class network; step sizes as 1/d, so that margins grow alike."""
    own = {**averaging.BASELINE, **setting, "step_size": 1e-3 * 3072 / setting["dim"], "test_points": 8}
    data = averaging.problem(own, seed)
    net = averaging.train_two_class(own, data.train, seed)
    radius = float(averaging.bracket(net, data.test, gap=0.01).attacked.median())
    return Result(radius, own["steps"], own["points"], len(net.W))


def _gain(setting: Row, seed: int) -> Result:
    """feature-amplification: median cosine of leaning neurons with their direction after one step ÷ before."""
    row = amplification.row_of(regime(setting["dim"], setting["points"], 200, 16.0))
    data = amplification.problem(row, seed)
    run = amplification.trained(row, data.train, seed, record=(0, 1))
    before, after = (run.snapshots[run.times.index(t)] for t in (0, 1))
    centres = data.clusters.centres
    leaning = leaning_neurons(before.W.detach(), before.a.detach(), centres, USABLE_C0)
    first, then = (correlations(net.W.detach(), centres, leaning) for net in (before, after))
    return Result(float(then.median() / first.median()), row["steps"], row["points"], row["width"])


PAPERS: dict[str, tuple[Callable[[Row, int], Result], str, float]] = {
    # how it is measured, what it is, and its predicted power of d
    "gmm-flow": (_distance, "distance to F^(p) ÷ κ_p α/√N", 0.0),
    "feature-averaging": (_radius, "50 % radius of two labels", 0.5),
    "feature-amplification": (_gain, "gain in cosine by one step", 0.5),
}


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """One effect and its cost: 4nhd multiplications and additions for each gradient evaluation, n points, h neurons."""
    effect, evaluations, points, neurons = PAPERS[setting["paper"]][0](setting, seed)
    progress(1.0)
    operations = 4 * evaluations * points * neurons * setting["dim"]
    return [{"kind": "cell", "effect": effect, "evaluations": evaluations, "operations": operations}]


def extrapolated(cells: list[Row], column: str, dim: float) -> float:
    """The least-squares power law through the cells, at another dimension."""
    slope = log_slope([r["dim"] for r in cells], [r[column] for r in cells])
    middle = sum(log(r["dim"]) for r in cells) / len(cells)
    return exp(sum(log(r[column]) for r in cells) / len(cells) + slope * (log(dim) - middle))


def _claims(rows: list[Row]) -> list[Claim]:
    seeds = seeds_of(rows)

    def cells(paper: str, seed: int) -> list[Row]:
        return sorted(rows_of(rows, "cell", paper=paper, seed=seed), key=lambda r: r["dim"])

    def slopes(paper: str, column: str) -> list[float]:
        lines = [cells(paper, s) for s in seeds]
        return [log_slope([r["dim"] for r in line], [r[column] for r in line]) for line in lines]

    def missed(seed: int) -> float:
        """How far the effect at the largest d is from what the others extrapolate to, in the worst paper."""
        lines = [cells(paper, seed) for paper in PAPERS]
        return max(
            abs(line[-1]["effect"] / extrapolated(line[:-1], "effect", line[-1]["dim"]) - 1) for line in lines
        )

    def cost(paper: str) -> str:
        return f"{sum(extrapolated(cells(paper, s), 'operations', BEYOND) for s in seeds) / len(seeds):.1g}"

    source = "beyond the papers"
    effects = [
        judge(
            f"phase-scaling.{paper}",
            source,
            f"{about}: power of d",
            slopes(paper, "effect"),
            "in",
            (power - 0.15, power + 0.15),
            f"predicted {power:g}",
        )
        for paper, (_, about, power) in PAPERS.items()
    ]
    return [
        *effects,
        judge(
            "phase-scaling.cost",
            source,
            "no experiment costs more than in proportion to d: largest power of d of its operations",
            [max(column) for column in zip(*(slopes(paper, "operations") for paper in PAPERS), strict=True)],
            "<=",
            1.1,
            f"operations extrapolated to d = {BEYOND:g}: " + ", ".join(f"{p} {cost(p)}" for p in PAPERS)
            if rows
            else "",
        ),
        judge(
            "phase-scaling.extrapolation",
            source,
            "smaller dimensions foretell the largest: effect there ÷ its extrapolation, minus 1, in the worst paper",
            [missed(s) for s in seeds],
            "<=",
            0.25,
        ),
    ]


def _settings(dims: tuple[int, ...], per_cluster: int, averaged: int, amplified: int) -> list[Row]:
    sizes = {
        "gmm-flow": {"per_cluster": per_cluster},
        "feature-averaging": {"points": averaged},
        "feature-amplification": {"points": amplified},
    }
    return [{"paper": paper, "dim": dim, **size} for paper, size in sizes.items() for dim in dims]


PHASE_SCALING = Experiment(
    id="beyond/phase-scaling",
    source="beyond the papers",
    title="How cost and effect grow with the dimension",
    scales={
        "quick": _settings((100, 400, 1600), 50, 200, 500),
        "standard": _settings((100, 400, 1600, 6400, 12800), 100, 400, 1000),
        "paper": _settings((100, 400, 1600, 6400, 25600, 102400), 100, 1000, 1000),
    },
    measure=measure,
    claims=_claims,
    about=(
        "One effect of each paper at dimensions from 100 on: the distance to the ideal network (gmm-flow, K = 2+2, α = 0.1), the 50 %"
        " radius of a two-class network (feature-averaging, k = 10), and how much one step turns random features towards the"
        " clusters (feature-amplification). Cost is counted, not timed, so that it repeats exactly: 4nhd operations for each gradient"
        f" evaluation of n points and h neurons. Dotted lines extrapolate to d = {BEYOND:g}."
    ),
)
