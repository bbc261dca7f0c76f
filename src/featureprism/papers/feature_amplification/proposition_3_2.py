"""Proposition 3.2: how much features change."""

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from featureprism.lab import Claim, Experiment, Rows, at_least, between, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification import laws, theory
from featureprism.papers.feature_amplification.setting import (
    DIMS,
    INSIDE,
    OTHER_LAWS,
    C,
    NoisyXor,
    good_run,
    problem,
    start,
    trained,
)
from featureprism.probes.amplification import feature_changes

RATIOS = (256.0, 1024.0, 4096.0, 16384.0)  # 1/(ω√(md)); (A6) asks for C² = 256 at least


@dataclass(frozen=True, kw_only=True)
class FeatureRun(NoisyXor):
    """`family` says what varies: the start, the dimension or the law of the clusters."""

    family: str


def measure(s: FeatureRun, seed: int, context: Context) -> list[Row]:
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


def _proof_note(rows: Rows) -> str:
    times = rows.of("change").column("over_bound").min() / C / theory.NO_CHANGE
    return f"the proof has e⁻²/16384 in place of 1/C; the change is {times:.0f} times that"


CLAIMS = (
    Claim(
        "bound",
        source="Proposition 3.2",
        says="Training changes the features of every training point by a multiple that grows without bound as the initial weights"
        " shrink: the network is far from its tangent kernel.",
        quantity="relative change of the hidden layer ÷ 1/(Cω√(md)), least over points, initial weights, dimensions and laws",
        formula=r"\frac{\lVert\phi(W^{(T)}x_i) - \phi(W^{(0)}x_i)\rVert}{\lVert\phi(W^{(0)}x_i)\rVert}"
        r" \ge \frac{1}{C\omega\sqrt{md}}",
        bound=at_least(1.0),
        because="the C of the assumptions, 16",
        value=lambda rows: rows.of("change").least("over_bound"),
        premises=requires("assumption"),
        aggregate="worst",
        headline=True,
        note=_proof_note,
    ),
    Claim(
        "law",
        source="Proposition 3.2, sharp",
        says="Features change by √(2d)(α+1/4)(1-2η)/16 ÷ ω√(md), and a little more by neurons that are thrown from side to side.",
        quantity="mean relative change of the hidden layer ÷ law, mean over runs",
        formula=r"\frac{\sqrt{2d}\,(\alpha + \frac14)(1-2\eta)}{16\,\omega\sqrt{md}}",
        bound=between(0.93, 1.07),
        because="seven percent",
        value=lambda rows: rows.of("change").mean("over_law"),
        origin="featureprism",
        premises=requires("assumption"),
    ),
    Claim(
        "dimension",
        source="beyond Proposition 3.2",
        says="The bound of Proposition 3.2 is too small by a factor of order √d, which the step ‖φ(W⁰x)‖ ≤ ‖W⁰‖‖x‖ of its proof loses.",
        quantity="exponent in d of the mean relative change times ω√(md)",
        bound=between(0.4, 0.6),
        because="1/2 is the exponent of the factor √d that is lost",
        value=lambda rows: rate(rows.of("change", family="dimension"), x="dim", y="scaled"),
        origin="featureprism",
        premises=requires("assumption"),
    ),
)


def draw(rows: Rows) -> Any:
    """Feature change against the start, with the slope -1."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels

    figure, (axes,) = panels(1, width=4.0, height=3.0)
    starts = rows.of("change", family="start")
    x, low, mean, high = over_seeds(starts, "start", "change")
    band(axes, x, low, mean, high, COLOURS[0], "measured")
    axes.plot(x, mean[0] * x[0] / x, ":", color="black", label="slope -1")
    x, _, bound, _ = over_seeds(starts, "start", "bound")
    axes.plot(x, bound, "--", color="0.5", label="1/(Cω√(md)), C = 16")
    axes.set(
        xscale="log", yscale="log", xlabel="initialisation scale ω", ylabel="least relative feature change"
    )
    axes.legend()
    return figure


def _settings(scale: str) -> list[FeatureRun]:
    sizes = {**INSIDE[scale], "test_points": 1}
    base = FeatureRun.on_edge(C, dim=DIMS[scale][0], family="start", **sizes)
    return [
        *(replace(base, start=1 / (ratio * sqrt(base.width * base.dim))) for ratio in RATIOS),
        *(FeatureRun.on_edge(C, dim=dim, family="dimension", **sizes) for dim in DIMS[scale]),
        *(replace(base, law=law, family="law") for law in OTHER_LAWS),
    ]


PROPOSITION_3_2 = Experiment(
    id="feature-amplification/proposition-3-2",
    source="Frei et al. 2023, Proposition 3.2",
    title="The features change without bound as the start shrinks",
    scales={scale: _settings(scale) for scale in INSIDE},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The relative change of the hidden representation of training points, against the initialisation scale ω and the dimension, and"
        " for clusters of other log-concave laws; inside (A1)-(A7) for C = 16."
    ),
)
