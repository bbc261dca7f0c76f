"""One step's amplification of random features, and Proposition 3.2: how much features change."""

from dataclasses import dataclass, replace
from functools import partial
from math import sqrt

import torch

from featureprism.context import Context
from featureprism.experiment import Claim, Experiment, Rows, above, at_least, between, under
from featureprism.papers.feature_amplification.setting import (
    GOOD_RUN,
    C,
    Setting,
    good_run,
    problem,
    start,
    trained,
)
from featureprism.probes.amplification import aligned, correlations, feature_change, leaning_neurons
from featureprism.records import Row
from featureprism.theory import feature_amplification as theory

C0 = theory.USABLE_C0


@dataclass(frozen=True, kw_only=True)
class OneStep(Setting):
    """One step of descent; `family` says what varies, the dimension or the start."""

    family: str


def measure_amplification(s: OneStep, seed: int, context: Context) -> list[Row]:
    """Correlations of leaning neurons with their clusters before and after one step."""
    data = problem(s, seed)
    train = data.train.data
    run = trained(replace(s, steps=1), data.train, seed, (0,))
    W0, W1 = (net.W.detach() for net in run.snapshots)
    leaning = leaning_neurons(W0, run.last.a.detach(), train.centres, C0)
    before, after = (correlations(W, train.centres, leaning) for W in (W0, W1))
    rows: list[Row] = [
        {
            "kind": "summary",
            "before": float(before.median()) * sqrt(s.dim),
            "after": float(after.median()),
            "least_after": float(after.min()),
            "aligned_before": float(aligned(W0, train, leaning).double().mean()),
            "aligned_after": float(aligned(W1, train, leaning).double().mean()),
        }
    ]
    quantiles = torch.linspace(0, 1, 41, dtype=torch.float64)
    for time, values in ((0, before), (1, after)):
        rows += [
            {"kind": "quantile", "time": time, "quantile": q, "correlation": v}
            for q, v in zip(quantiles.tolist(), torch.quantile(values, quantiles).tolist(), strict=True)
        ]
    context.progress(1.0)
    return rows + good_run(s, W0, data.train)


def _dimensions(rows: Rows) -> Rows:
    return rows.of("summary", family="dimension")


def _smaller_start(run: Rows) -> float:
    """Correlation after the step, from the smallest start minus from the largest."""
    starts, after = run.column("start"), run.column("after")
    return after[starts.argmin()] - after[starts.argmax()]


_in_any_dimension = partial(Claim, premises=under(*GOOD_RUN, family="dimension"))
CLAIMS_AMPLIFICATION = (
    _in_any_dimension(
        "order-before",
        "Lemma 4.2",
        "random features are weak, of order 1/√d: power of d of the median correlation over J at t = 0",
        lambda rows: _dimensions(rows).slope("dim", "before") - 0.5,
        between(-0.6, -0.4),
        reported=-0.5,
    ),
    _in_any_dimension(
        "order-after",
        "Lemma 4.10",
        "one step amplifies them to order 1: power of d of the median correlation over J at t = 1",
        lambda rows: _dimensions(rows).slope("dim", "after"),
        between(-0.05, 0.05),
        reported=0.0,
    ),
    _in_any_dimension(
        "alignment",
        "Condition 4.7, Lemma 4.10",
        "every neuron of J is aligned with its cluster at t = 1: their share, smallest over d",
        lambda rows: _dimensions(rows).least("aligned_after"),
        at_least(0.99),
        reported=1.0,
        over="every seed",
    ),
    _in_any_dimension(
        "bound",
        "Lemma 4.10",
        f"least correlation over J at t = 1 ÷ 1/(16 C₂), C₀ = {C0:g}",
        lambda rows: _dimensions(rows).least("least_after") / theory.correlation_bound(C0),
        at_least(1.0),
        over="every seed",
    ),
    _in_any_dimension(
        "before",
        "Lemma 4.2, sharp",
        "median correlation × √d at t = 0 over J, mean over d",
        lambda rows: _dimensions(rows).mean("before"),
        between(0.55, 0.75),
        speaker="ours",
        note="the median of |N(0, 1)| is 0.67",
    ),
    _in_any_dimension(
        "after",
        "Lemma 4.10, sharp",
        "median correlation at t = 1, smallest over d",
        lambda rows: _dimensions(rows).least("after"),
        between(0.6, 0.8),
        speaker="ours",
    ),
    Claim(
        "start",
        "beyond Lemma 4.10",
        "the smaller the initialisation the stronger: correlation at t = 1, smallest start minus largest",
        lambda rows: rows.of("summary", family="start").per_seed(_smaller_start),
        above(0.0),
        speaker="ours",
    ),
)


def measure_3_2(s: Setting, seed: int, context: Context) -> list[Row]:
    """How much the hidden representation changes, for one initialisation scale."""
    data = problem(s, seed)
    W0 = start(s, seed).W.detach()
    change = feature_change(trained(s, data.train, seed).last.W.detach(), W0, data.train.data.x)
    context.progress(1.0)
    bound = theory.feature_change_bound(s)
    measured = {"kind": "change", "change": change, "bound": bound, "over_bound": change / bound}
    return [measured, *good_run(s, W0, data.train)]


CLAIMS_3_2 = (
    Claim(
        "bound",
        "Proposition 3.2",
        "every training point's features change by at least 1/(Cω√(md)): change ÷ the proof's bound, least over scales",
        lambda rows: rows.of("change").least("over_bound"),
        at_least(1.0),
        premises=under("assumption"),
        over="every seed",
    ),
    Claim(
        "slope",
        "Proposition 3.2, sharp",
        "features change by 1/(ω√(md)): slope of log change against log initialisation scale",
        lambda rows: rows.of("change").slope("start", "change"),
        between(-1.07, -0.93),
        speaker="ours",
        premises=under("assumption"),
    ),
)


def _families(dims: tuple[int, ...], points: int, width: int) -> list[OneStep]:
    """Each dimension, and starts of several sizes in 200 dimensions."""
    base = OneStep.on_edge(C, dim=200, points=points, width=width, family="start")
    return [
        *(OneStep.on_edge(C, dim=dim, points=points, width=width, family="dimension") for dim in dims),
        *(replace(base, start=factor * base.start) for factor in (1.0, 16.0, 64.0, 256.0)),
    ]


def _scales(points: int, width: int, dim: int = 200) -> list[Setting]:
    base = Setting.on_edge(C, dim=dim, points=points, width=width)
    ratios = (16.0, 64.0, 256.0, 1024.0, 4096.0)
    return [replace(base, start=1 / (ratio * sqrt(width * dim))) for ratio in ratios]


AMPLIFICATION = Experiment(
    id="feature-amplification/amplification",
    source="Frei et al. 2023, Lemmas 4.1, 4.10",
    title="One step turns correlations of order 1/√d into a constant",
    scales={
        "quick": _families((50, 200, 500), 1000, 400),
        "standard": _families((50, 200, 500, 2000), 4000, 1000),
        "paper": _families((50, 200, 500, 2000, 5000), 10000, 2000),
    },
    measure=measure_amplification,
    claims=CLAIMS_AMPLIFICATION,
    about="Cosines between neurons and the cluster they lean to, before and after one step of descent, against d and the start.",
)
PROPOSITION_3_2 = Experiment(
    id="feature-amplification/proposition-3-2",
    source="Frei et al. 2023, Proposition 3.2",
    title="The features change without bound as the start shrinks",
    scales={"quick": _scales(1000, 400), "standard": _scales(4000, 1000), "paper": _scales(10000, 2000)},
    measure=measure_3_2,
    claims=CLAIMS_3_2,
    about="The least relative change of the hidden representation of a training point, against the initialisation scale ω.",
)
