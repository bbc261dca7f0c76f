"""One step's amplification of random features: in any dimension, for other constants, starts and laws of the clusters."""

from dataclasses import dataclass, replace
from math import ceil, log

import torch

from featureprism.context import Context
from featureprism.lab import Claim, Experiment, Rows, above, between, requires
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification.setting import (
    DIMS,
    GOOD_RUN,
    INSIDE,
    OTHER_LAWS,
    C,
    Setting,
    good_run,
    problem,
    trained,
)
from featureprism.probes.amplification import correlations, leaning_neurons
from featureprism.theory import amplification_laws as laws
from featureprism.theory import feature_amplification as theory

C0 = theory.USABLE_C0
CONSTANTS = (4.0, 6.0, 9.0, 12.0, 16.0, 25.0)


@dataclass(frozen=True, kw_only=True)
class OneStep(Setting):
    """One step of descent; `family` says what varies: the dimension, the constant C, the start or the law of the clusters."""

    family: str


def measure(s: OneStep, seed: int, context: Context) -> list[Row]:
    """Correlations of leaning neurons with their clusters before and after one step."""
    draw = _draw(s, seed)
    data = problem(s, draw)
    train = data.train.data
    run = trained(replace(s, steps=1), data.train, draw, (0,))
    W0, W1 = (net.W.detach() for net in run.snapshots)
    leaning = leaning_neurons(W0, run.last.a.detach(), train.centres, C0)
    before, after = (correlations(W, train.centres, leaning) for W in (W0, W1))
    rows: list[Row] = [
        {
            "kind": "summary",
            "after": float(after.median()),
            "over_limit": float(after.median()) / laws.cosine_after_one_step(s),
            "over_law": float(after.median()) / laws.cosine_after_one_step(s, laws.median_before(C0)),
            "least_after": float(after.min()),
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


def _draw(s: OneStep, seed: int) -> int:
    """Of constants each its own: with one draw for all, the sizes of its clusters would tilt all of them alike."""
    return seed * len(CONSTANTS) + CONSTANTS.index(s.constant) if s.family == "constant" else seed


def _dimensions(rows: Rows) -> Rows:
    return rows.of("summary", family="dimension")


def _constants(rows: Rows) -> Rows:
    return rows.of("summary", family="constant")


def _small_constants(rows: Rows) -> str:
    told = [
        f"{part.column('over_limit').mean():.3f} at C = {constant:g}"
        for constant, part in _constants(rows).groups("constant").items()
    ]
    return f"{', '.join(told)}: for small C the start's own correlation along μ is felt, which cosine-start counts"


def _smaller_start(run: Rows) -> float:
    """Correlation after the step, from the smallest start minus from the largest."""
    starts, after = run.column("start"), run.column("after")
    return after[starts.argmin()] - after[starts.argmax()]


def _lemma_bound(rows: Rows) -> str:
    passed = rows.of("summary", family="dimension").column("least_after").min() / theory.correlation_bound(C0)
    return f"the least over J passes the 1/(16 C₂) of the lemma (C₀ = {C0:g}) by a factor of {passed:.0f}"


CLAIMS = (
    Claim(
        "order-after",
        "Lemma 4.10",
        "one step amplifies random features from order 1/√d to order 1: power of d of the median correlation over J at t = 1",
        lambda rows: _dimensions(rows).slope("dim", "after"),
        between(-0.05, 0.05),
        reported=0.0,
        premises=requires(*GOOD_RUN, family="dimension"),
        note=_lemma_bound,
    ),
    Claim(
        "cosine",
        "Lemma 4.10, sharp",
        "median correlation over J at t = 1 ÷ 1/√(2+s²), s = 8/(C²α(1-2η)): mean over C from 4 to 25",
        lambda rows: _constants(rows).mean("over_limit"),
        between(0.97, 1.03),
        origin="featureprism",
        premises=requires("assumption", family="constant"),
        note=_small_constants,
    ),
    Claim(
        "cosine-start",
        "Lemma 4.10, sharp",
        "the same ÷ the law with the start's own correlation along μ: mean over C from 4 to 25",
        lambda rows: _constants(rows).mean("over_law"),
        between(0.97, 1.03),
        origin="featureprism",
        premises=requires("assumption", family="constant"),
    ),
    Claim(
        "cosine-laws",
        "Lemma 4.10, sharp",
        f"the same for clusters of other log-concave laws ({', '.join(OTHER_LAWS)}), C = 16: mean over them",
        lambda rows: rows.of("summary", family="law").mean("over_law"),
        between(0.95, 1.05),
        origin="featureprism",
        premises=requires("assumption", family="law"),
    ),
    Claim(
        "start",
        "beyond Lemma 4.10",
        "the smaller the initialisation the stronger: correlation at t = 1, smallest start minus largest",
        lambda rows: rows.of("summary", family="start").per_seed(_smaller_start),
        above(0.0),
        origin="featureprism",
    ),
)


def _families(scale: str, points: int) -> list[OneStep]:
    """Each dimension, each constant on the edge of (A1), each law, and starts of several sizes in 200 dimensions."""
    inside = {**INSIDE[scale], "width": 400, "test_points": 1}
    base = OneStep.on_edge(C, dim=200, family="start", **inside)
    sizes = {"points": points, "width": 300, "test_points": 1, "family": "constant"}
    on_edge = [(c, ceil(c * log(points / base.delta) ** 2)) for c in CONSTANTS]
    return [
        *(OneStep.on_edge(C, dim=dim, family="dimension", **inside) for dim in DIMS[scale]),
        *(OneStep.on_edge(c, constant=c, dim=dim, **sizes) for c, dim in on_edge),
        *(OneStep.on_edge(C, dim=DIMS[scale][0], law=law, family="law", **inside) for law in OTHER_LAWS),
        *(replace(base, start=factor * base.start) for factor in (1.0, 16.0, 64.0, 256.0)),
    ]


AMPLIFICATION = Experiment(
    id="feature-amplification/amplification",
    source="Frei et al. 2023, Lemmas 4.1, 4.10",
    title="One step turns correlations of order 1/√d into a constant",
    scales={
        "quick": _families("quick", 1000),
        "standard": _families("standard", 1500),
        "paper": _families("paper", 2500),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Cosines between neurons and the cluster they lean to, before and after one step of descent, against d, C, the start and the"
        " law of the clusters. Dimensions, constants and laws inside (A1)-(A7). Before the step they are those of Gaussian vectors,"
        " 0.70/√d in the median."
    ),
)
