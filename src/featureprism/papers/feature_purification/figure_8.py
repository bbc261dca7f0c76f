"""Figure 8: lottery tickets, the start decides which neuron learns which feature."""

import math
from typing import Any

import torch
from torch import Tensor

from featureprism.data import SparseCoding
from featureprism.lab import Claim, Experiment, Rows, above, at_least, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.measures import LEARNED, PURE, bench, premise_rows
from featureprism.papers.feature_purification.setting import FAMILY, Battery, clean_run, scales, start
from featureprism.probes import lottery
from featureprism.probes import purification as probes
from featureprism.training.trajectory import Trajectory

ALL = 0.95  # the theorems say all of them
# the theorems have steps of 1/poly(d): with longer ones the noise of the batches is as large as the start
SMALL_STEPS: dict[str, Any] = {"start": 2e-3, "step_per_bias": 0.05, "steps": 1000, "bias_growth": 0.15}
FOLLOWED = 12  # features whose correlation with one winner is drawn


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """Who wins which feature, predicted from the start; which sure winners of Definition B.1 stay so along training."""
    on, run = bench(s, seed), clean_run(s, seed)
    problem = on.problem
    context.progress(0.7)
    W0, net = start(s, seed).W.detach(), run.last
    W = net.W.detach()
    winners = (probes.purity(W, problem.M) > PURE) & (probes.firing(net, on.many.x) > 0)
    predicted, ticket = lottery.predicted_feature(W0, problem)
    learned, unsigned = lottery.learned_feature(W, problem), lottery.learned_feature(W0, problem)
    summary: Row = {
        "kind": "winners",
        "winners": int(winners.sum()),
        "match": float((predicted == learned)[winners].double().mean()),
        "match_unsigned": float((unsigned == learned)[winners].double().mean()),
        "auc": lottery.ranking_quality(ticket, winners),
    }
    best = int((torch.where(winners, W.abs().amax(dim=1), torch.zeros(()))).argmax())
    rows = [summary, *_sets(s, run, problem, W0), *_followed(best, int(learned[best]), run, problem, W0)]
    return [*rows, *premise_rows(s, on), theory.ticket_premise(s).as_row()]


def _followed(
    neuron: int, feature: int, run: Trajectory[SymmetricNet], problem: SparseCoding, W0: Tensor
) -> list[Row]:
    """Signed correlations of one neuron with the feature it learns and its rivals at the start, along training."""
    rivals = (W0[neuron] @ problem.M).abs().argsort(descending=True)[:FOLLOWED].tolist()
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        A = net.W.detach()[neuron] @ problem.M * problem.w.sign() / net.bias
        rows += [
            {"kind": "ticket", "time": time, "feature": f, "won": f == feature, "value": float(A[f])}
            for f in dict.fromkeys([feature, *rivals])
        ]
    return rows


def _sets(s: Battery, run: Trajectory[SymmetricNet], problem: SparseCoding, W0: Tensor) -> list[Row]:
    """Sure winners of the start that still are, with σ_w growing as the bias does."""
    c1, c2 = theory.ticket_constants(s.c0)
    ratio = math.sqrt(c1 * math.log(s.dim)) * s.start / run.snapshots[0].bias

    def sure(W: Tensor, bias: float) -> lottery.Tickets:
        return lottery.tickets(W, problem, lottery.Thresholds(c1, c2, ratio * bias, s.dim))

    first = sure(W0, run.snapshots[0].bias)
    return [
        {
            "kind": "sets",
            "time": time,
            "sure": float(first.sure.sum()) / s.dim,
            "stay": lottery.included(first.sure, sure(net.W.detach(), net.bias).sure),
        }
        for time, net in zip(run.times, run.snapshots, strict=True)
    ]


def _match(rows: Rows) -> Values:
    return rows.of("winners").per_seed("match")


CLAIMS = (
    Claim(
        "match",
        source="Theorem 5.2, Section 6.1",
        says="The random start decides which feature a neuron learns: the one that it favoured with the right sign.",
        quantity="share of winners that learn the feature with their largest signed correlation at the start",
        bound=at_least(ALL),
        because="the theorem says all; one in twenty may be lost to the noise of the batches",
        value=_match,
        premises=requires(*LEARNED),
        headline=True,
    ),
    Claim(
        "auc",
        source="Section 6.1",
        says="Neurons that favour a feature at the start win one, and the others do not.",
        quantity="area under the ROC curve of the largest signed correlation at the start as a predictor of winning",
        bound=at_least(0.8),
        because="0.5 is chance and 1 is certainty",
        value=lambda rows: rows.of("winners").per_seed("auc"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "sign",
        source="Definition B.1",
        says="The sign of a correlation at the start counts, because all output weights are +1.",
        quantity="predicted share of winners with the sign of w* minus without it",
        bound=above(0.05),
        because="one winner in twenty is more than the noise over seeds",
        value=lambda rows: _match(rows) - rows.of("winners").per_seed("match_unsigned"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "stay",
        source="Theorems C.1(1), C.2(2)",
        says="A neuron that is a sure winner of a feature at the start remains one throughout clean training.",
        quantity="share of the sure winners of the start that still are, least over time",
        bound=at_least(ALL),
        because="the theorems say all",
        value=lambda rows: rows.of("sets").least("stay"),
        premises=requires(*LEARNED, "lemma-b-2"),
        note="the sets of the proof separate from d ≈ 10³⁰ on; seven more statements about them read 0 at these sizes and are left out",
    ),
)


def draw(rows: Rows) -> Any:
    """Signed correlations of one winner with the features along training."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=5.0, height=3.0)
    for path in rows.of("ticket", seed=rows.seeds[0]).groups("feature").values():
        won = path[0]["won"]
        axes.plot(
            path.column("time"),
            path.column("value"),
            color=COLOURS[1] if won else "0.7",
            zorder=3 if won else 1,
            label="the feature it learns" if won else None,
        )
    axes.set(xlabel="steps of clean training", ylabel="sign(w*_j)⟨w_i, M_j⟩ ÷ bias")
    axes.legend()
    return figure


FIGURE_8 = Experiment(
    id="feature-purification/figure-8",
    source="Allen-Zhu & Li 2020, Figure 8",
    title="Lottery tickets: does the start decide which neuron learns which feature?",
    scales=scales(Battery, **SMALL_STEPS),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "Correlations of one neuron with the features along clean training in short steps, and how well the start"
        " predicts who wins. All"
        " outputs count +1, so a neuron must begin with the sign of w*."
    ),
)
