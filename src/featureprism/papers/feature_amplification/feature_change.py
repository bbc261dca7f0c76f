"""Proposition 3.2: how much features change."""

from dataclasses import dataclass, replace
from math import sqrt

from featureprism.context import Context
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between, requires
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification.setting import (
    DIMS,
    INSIDE,
    OTHER_LAWS,
    C,
    Setting,
    good_run,
    problem,
    start,
    trained,
)
from featureprism.probes.amplification import feature_changes
from featureprism.theory import amplification_laws as laws
from featureprism.theory import feature_amplification as theory

RATIOS = (256.0, 1024.0, 4096.0, 16384.0)  # 1/(ω√(md)); (A6) asks for C² = 256 at least


@dataclass(frozen=True, kw_only=True)
class Features(Setting):
    """`family` says what varies: the start, the dimension or the law of the clusters."""

    family: str


def measure(s: Features, seed: int, context: Context) -> list[Row]:
    """How much the hidden representation of training points changes."""
    data = problem(s, seed)
    W0 = start(s, seed).W.detach()
    changes = feature_changes(trained(s, data.train, seed).last.W.detach(), W0, data.train.data.x)
    context.progress(1.0)
    least, bound = float(changes.min()), theory.feature_change_bound(s, s.constant)
    measured = {
        "kind": "change",
        "change": least,
        "bound": bound,
        "over_bound": least / bound,
        "over_law": float(changes.mean()) / laws.feature_change(s),
        "scaled": float(changes.mean()) * s.start * sqrt(s.width * s.dim),
    }
    return [measured, *good_run(s, W0, data.train)]


def _proof(rows: Rows) -> str:
    passed = rows.of("change").column("over_bound").min() / C / theory.NO_CHANGE
    return f"the proof's own constant e⁻²/16384 in place of 1/C is passed by a factor of {passed:.0f}"


CLAIMS = (
    Claim(
        "bound",
        "Proposition 3.2",
        "every training point's features change by at least 1/(Cω√(md)), with the C of the assumptions, 16: change ÷ bound, least over"
        " points, starts, dimensions and laws",
        lambda rows: rows.of("change").least("over_bound"),
        at_least(1.0),
        premises=requires("assumption"),
        aggregate="worst",
        note=_proof,
    ),
    Claim(
        "law",
        "Proposition 3.2, sharp",
        "features change by √(2d)(α+1/4)(1-2η)/16 ÷ ω√(md), and a little for neurons thrown across: mean change ÷ law, mean over runs",
        lambda rows: rows.of("change").mean("over_law"),
        between(0.93, 1.07),
        origin="featureprism",
        premises=requires("assumption"),
    ),
    Claim(
        "slope",
        "Proposition 3.2, last sentence",
        "as ω√(md) → 0 the change of every point's features is unbounded, at least as 1/(ω√(md)): power of ω of the least change",
        lambda rows: rows.of("change", family="start").slope("start", "change"),
        at_most(-0.97),
        premises=requires("assumption"),
    ),
    Claim(
        "dimension",
        "beyond Proposition 3.2",
        "the bound loses √d, by ‖φ(W⁰x)‖ ≤ ‖W⁰‖_F‖x‖: power of d of the mean change × ω√(md)",
        lambda rows: rows.of("change", family="dimension").slope("dim", "scaled"),
        between(0.4, 0.6),
        origin="featureprism",
        premises=requires("assumption"),
    ),
)


def _settings(scale: str) -> list[Features]:
    sizes = {**INSIDE[scale], "test_points": 1}
    base = Features.on_edge(C, dim=DIMS[scale][0], family="start", **sizes)
    return [
        *(replace(base, start=1 / (ratio * sqrt(base.width * base.dim))) for ratio in RATIOS),
        *(Features.on_edge(C, dim=dim, family="dimension", **sizes) for dim in DIMS[scale]),
        *(replace(base, law=law, family="law") for law in OTHER_LAWS),
    ]


PROPOSITION_3_2 = Experiment(
    id="feature-amplification/proposition-3-2",
    source="Frei et al. 2023, Proposition 3.2",
    title="The features change without bound as the start shrinks",
    scales={scale: _settings(scale) for scale in INSIDE},
    measure=measure,
    claims=CLAIMS,
    about=(
        "The relative change of the hidden representation of training points, against the initialisation scale ω and the dimension, and"
        " for clusters of other log-concave laws; inside (A1)-(A7) for C = 16."
    ),
)
