"""How cost and effect of each paper grow with the dimension, and what that says of dimensions no one has run."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, Values, at_most, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.beyond.curves import FAR, extrapolated
from featureprism.papers.feature_amplification import setting as amplification
from featureprism.papers.feature_amplification.theory import C0
from featureprism.papers.feature_averaging import setting as averaging
from featureprism.papers.gmm_flow import theorem_1
from featureprism.probes.amplification import correlations, leaning_neurons

SOURCE = "beyond the papers"
finding = partial(Claim, source=SOURCE, origin="featureprism")


class Result(NamedTuple):
    """An effect, and the gradient evaluations of plain training that it took, with points and neurons of each."""

    effect: float
    evaluations: int
    points: int
    neurons: int


def _distance(s: theorem_1.ClosestApproach, seed: int, context: Context) -> Result:
    """Least distance to F^(p) along the flow ÷ κ_p α/√N."""
    summary = theorem_1.measure_closest(s, seed, context)[0]
    points, neurons = s.num_clusters * s.per_cluster, s.num_clusters * s.neurons_per_cluster
    return Result(summary["over_predicted"], summary["right_hand_sides"], points, neurons)


def _radius(s: averaging.Baseline, seed: int, _context: Context) -> Result:
    """50 % radius of the two-class network."""
    data = averaging.problem(s, seed)
    net = averaging.train_two_class(s, data.train, seed)
    radius = averaging.bracket(net, data.test, gap=0.01).half_radius[1]
    return Result(radius, s.steps, s.points, len(net.W))


def _gain(s: amplification.NoisyXor, seed: int, _context: Context) -> Result:
    """Median cosine of leaning neurons with their direction after one step ÷ before."""
    data = amplification.problem(s, seed)
    run = amplification.trained(s, data.train, seed, record=(0, 1))
    before, after = (run.snapshots[run.times.index(t)] for t in (0, 1))
    centres = data.clusters.centres
    leaning = leaning_neurons(before.W.detach(), before.a.detach(), centres, C0)
    first, then = (correlations(net.W.detach(), centres, leaning) for net in (before, after))
    return Result(float(then.median() / first.median()), s.steps, s.points, s.width)


class Effect(NamedTuple):
    """What kind of setting has it, how it is measured, what it is, and its predicted power of d."""

    setting: type
    measure: Callable[[Any, int, Context], Result]
    about: str
    power: float


EFFECTS = {
    "gmm-flow": Effect(theorem_1.ClosestApproach, _distance, "distance to F^(p) ÷ κ_p α/√N", 0.0),
    "feature-averaging": Effect(averaging.Baseline, _radius, "50 % radius of two labels", 0.5),
    "feature-amplification": Effect(amplification.NoisyXor, _gain, "gain in cosine by one step", 0.5),
}


def measure(s: Any, seed: int, context: Context) -> list[Row]:
    """One effect and its cost: 4nhd multiplications and additions for each gradient evaluation, n points, h neurons."""
    paper = next(paper for paper, effect in EFFECTS.items() if isinstance(s, effect.setting))
    effect, evaluations, points, neurons = EFFECTS[paper].measure(s, seed, context)
    return [
        {
            "kind": "cell",
            "paper": paper,
            "effect": effect,
            "evaluations": evaluations,
            "operations": 4 * evaluations * points * neurons * s.dim,
        }
    ]


def _power(rows: Rows, paper: str, column: str) -> Values:
    return rows.of("cell", paper=paper).slope("dim", column)


def _missed(own: Rows) -> float:
    """How far the effect at the largest d is from what the others extrapolate to, in the worst paper."""
    ratios = []
    for line in own.groups("paper").values():
        order = np.argsort(line.column("dim"))
        dims, effects = line.column("dim")[order], line.column("effect")[order]
        ratios.append(effects[-1] / extrapolated(dims[:-1], effects[:-1], dims[-1]))
    return np.abs(np.array(ratios) - 1).max()


def _costs(rows: Rows) -> str:
    """The operations at d = 10⁶, means over seeds."""

    def far(own: Rows) -> float:
        return extrapolated(own.column("dim"), own.column("operations"), FAR)

    costs = {paper: rows.of("cell", paper=paper).per_seed(far).mean() for paper in EFFECTS}
    told = ", ".join(f"{paper} {cost:.1g}" for paper, cost in costs.items())
    return f"operations extrapolated to d = {FAR:g}: {told}"


def _effect_claim(paper: str, effect: Effect) -> Claim:
    return finding(
        paper,
        says=f"{effect.about}: power of d",
        value=lambda rows: _power(rows, paper, "effect"),
        bound=between(effect.power - 0.15, effect.power + 0.15),
        note=f"predicted {effect.power:g}",
    )


CLAIMS = (
    *(_effect_claim(paper, effect) for paper, effect in EFFECTS.items()),
    finding(
        "cost",
        says="no experiment costs more than in proportion to d: largest power of d of its operations",
        value=lambda rows: np.max([_power(rows, paper, "operations") for paper in EFFECTS], axis=0),
        bound=at_most(1.1),
        note=_costs,
    ),
    finding(
        "extrapolation",
        says="smaller dimensions foretell the largest: effect there ÷ its extrapolation, minus 1, in the worst paper",
        value=lambda rows: rows.of("cell").per_seed(_missed),
        bound=at_most(0.25),
    ),
)


def _settings(dims: tuple[int, ...], per_cluster: int, averaged: int, amplified: int) -> list[Any]:
    """A flow on K = 2+2 clusters, two labels (step sizes as 1/d, so that margins grow alike), and XOR, at every dimension."""
    flow = {"series": "dimension", "positive": 2, "negative": 2, "neurons_per_cluster": 2, "num_times": 6}
    return [
        *(theorem_1.ClosestApproach(dim=dim, per_cluster=per_cluster, test_points=1, **flow) for dim in dims),
        *(
            averaging.Baseline(dim=dim, points=averaged, step_size=1e-3 * 3072 / dim, test_points=8)
            for dim in dims
        ),
        *(
            amplification.NoisyXor.on_edge(amplification.C, dim=dim, points=amplified, width=200)
            for dim in dims
        ),
    ]


PHASE_SCALING = Experiment(
    id="beyond/phase-scaling",
    source=SOURCE,
    title="How cost and effect grow with the dimension",
    scales={
        "quick": _settings((100, 400, 1600), 50, 200, 500),
        "standard": _settings((100, 400, 1600, 6400), 100, 400, 1000),
        "paper": _settings((100, 400, 1600, 6400, 25600), 100, 400, 1000),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "One effect of each paper at dimensions from 100 on: the distance to the ideal network (gmm-flow, K = 2+2, α = 0.1), the 50 %"
        " radius of a two-class network (feature-averaging, k = 10), and how much one step turns random features towards the"
        " clusters (feature-amplification). Cost is counted, not timed, so that it repeats exactly: 4nhd operations for each gradient"
        f" evaluation of n points and h neurons. Dotted lines extrapolate to d = {FAR:g}."
    ),
)
