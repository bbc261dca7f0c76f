"""One step's amplification of random features: in any dimension, for other constants and laws of the clusters."""

from dataclasses import dataclass, replace
from math import ceil, log
from typing import Any

import torch

from featureprism.lab import Claim, Experiment, Rows, between, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification import laws, theory
from featureprism.papers.feature_amplification.setting import (
    DIMS,
    GOOD_RUN,
    INSIDE,
    OTHER_LAWS,
    C,
    NoisyXor,
    good_run,
    problem,
    trained,
)
from featureprism.probes.amplification import correlations, leaning_neurons

C0 = theory.C0
CONSTANTS = (4.0, 6.0, 9.0, 12.0, 16.0, 25.0)


@dataclass(frozen=True, kw_only=True)
class OneStep(NoisyXor):
    """One step of descent; `family` says what varies: the dimension, the constant C or the law of the clusters."""

    family: str


def measure(s: OneStep, seed: int, context: Context) -> list[Row]:
    """Correlations of leaning neurons with their clusters before and after one step."""
    draw = _draw_of(s, seed)
    data = problem(s, draw)
    train = data.train.data
    run = trained(replace(s, steps=1), data.train, draw, (0,))
    W0, W1 = (net.W.detach() for net in run.snapshots)
    leaning = leaning_neurons(W0, run.last.a.detach(), train.centres, C0)
    before, after = (correlations(W, train.centres, leaning) for W in (W0, W1))
    law = laws.cosine_after_one_step(s, laws.median_before(C0))
    rows: list[Row] = [
        {
            "kind": "summary",
            "after": float(after.median()),
            "law_after": law,
            "over_law": float(after.median()) / law,
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


def _draw_of(s: OneStep, seed: int) -> int:
    """Of constants each its own: with one draw for all, the sizes of its clusters would tilt all of them alike."""
    return seed * len(CONSTANTS) + CONSTANTS.index(s.constant) if s.family == "constant" else seed


def _lemma_note(rows: Rows) -> str:
    runs = rows.of("summary", family="dimension")
    times = runs.column("least_after").min() / theory.correlation_bound(C0)
    return f"the least cosine is {times:.0f} times the 1/(16C₂) of the lemma (C₀ = {C0:g})"


CLAIMS = (
    Claim(
        "order-after",
        source="Lemma 4.10",
        says="One step of gradient descent amplifies random features: cosines with the cluster centres that were of order 1/√d become"
        " of order 1, whatever the dimension.",
        quantity="exponent in d of the median cosine, after one step, of neurons that leaned to a centre before",
        formula=r"\langle w_j^{(1)}/\lVert w_j^{(1)}\rVert, \mu\rangle = \Theta(1) \text{ for } j \in J_\mu",
        bound=between(-0.05, 0.05),
        because="order 1 does not depend on d; before the step the exponent is -1/2",
        value=lambda rows: rate(rows.of("summary", family="dimension"), x="dim", y="after"),
        reported=0.0,
        premises=requires(*GOOD_RUN, family="dimension"),
        headline=True,
        note=_lemma_note,
    ),
    Claim(
        "cosine-law",
        source="Lemma 4.10, sharp",
        says="After one step the median cosine of leaning neurons with their centre is (1+u)/√((1+u)²+1+q²): equal gains along both"
        " directions, beside what is left of the start.",
        quantity="median cosine ÷ law, mean over C from 4 to 25",
        formula=r"\frac{1+u}{\sqrt{(1+u)^2 + 1 + q^2}}, \qquad q = \frac{8\omega\sqrt{md}}{\alpha(1-2\eta)}, \qquad"
        r" u = \frac{0.70\,q}{\sqrt d}",
        bound=between(0.97, 1.03),
        because="three percent",
        value=lambda rows: rows.of("summary", family="constant").mean("over_law"),
        origin="featureprism",
        premises=requires("assumption", family="constant"),
    ),
    Claim(
        "log-concave",
        source="Lemma 4.10, sharp",
        says="One step amplifies random features alike in clusters of every log-concave law, although Lemma 4.4 is proven for Gaussian"
        " ones.",
        quantity=f"median cosine after one step ÷ law, mean over {', '.join(OTHER_LAWS)} clusters",
        bound=between(0.95, 1.05),
        because="five percent",
        value=lambda rows: rows.of("summary", family="law").mean("over_law"),
        origin="featureprism",
        premises=requires("assumption", family="law"),
    ),
)


def draw(rows: Rows) -> Any:
    """Distribution of correlations before and after one step for each d; their median against C beside its law."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels, plain_ticks

    figure, (left, right) = panels(2, width=3.8, height=3.0)
    quantiles = rows.of("quantile", family="dimension")
    for colour, dim in zip(COLOURS, sorted(quantiles.distinct("dim")), strict=False):
        for time, style in ((0, ":"), (1, "-")):
            q, _, mean, _ = over_seeds(quantiles.having(dim=dim, time=time), "quantile", "correlation")
            left.plot(mean, q, style, color=colour, label=f"d = {dim}" if time else None)
    left.set(xlabel="cosine with the centre: dotted t = 0, full t = 1", ylabel="share of neurons below")
    left.legend()
    constants = rows.of("summary", family="constant")
    band(right, *over_seeds(constants, "constant", "after"), COLOURS[0], "measured")
    x, _, law, _ = over_seeds(constants, "constant", "law_after")
    right.plot(x, law, ":", color="black", label="law")
    right.set(xscale="log", xlabel="C", ylabel="median cosine at t = 1", ylim=(0, 1))
    plain_ticks(right, CONSTANTS)
    right.legend()
    return figure


def _settings(scale: str, points: int) -> list[OneStep]:
    """Each dimension, each constant on the edge of (A1), and each law."""
    inside = {**INSIDE[scale], "width": 400, "test_points": 1}
    sizes = {"points": points, "width": 300, "test_points": 1, "family": "constant"}
    on_edge = [(c, ceil(c * log(points / OneStep.delta) ** 2)) for c in CONSTANTS]
    return [
        *(OneStep.on_edge(C, dim=dim, family="dimension", **inside) for dim in DIMS[scale]),
        *(OneStep.on_edge(c, constant=c, dim=dim, **sizes) for c, dim in on_edge),
        *(OneStep.on_edge(C, dim=DIMS[scale][0], law=law, family="law", **inside) for law in OTHER_LAWS),
    ]


AMPLIFICATION = Experiment(
    id="feature-amplification/amplification",
    source="Frei et al. 2023, Lemmas 4.1, 4.10",
    title="One step turns correlations of order 1/√d into a constant",
    scales={
        "quick": _settings("quick", 1000),
        "standard": _settings("standard", 1500),
        "paper": _settings("paper", 2500),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Cosines between neurons and the cluster they lean to, before and after one step of descent, against d, C and the law of the"
        " clusters, inside (A1)-(A7). Before the step they are those of Gaussian vectors, 0.70/√d in the median."
    ),
)
