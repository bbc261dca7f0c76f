"""Figure 8: lottery tickets, the start decides which neuron learns which feature."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.data import SparseCoding
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_least, requires
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import LEARNED, PURE, bench, premise_rows
from featureprism.papers.feature_purification.setting import FAMILY, Setting, clean_run, scales, start
from featureprism.probes import lottery
from featureprism.probes import purification as probes
from featureprism.records import Row, Trajectory
from featureprism.theory import feature_purification as theory

ALL = 0.95  # the theorems say all of them
# the theorems have steps of 1/poly(d): with the steps of the main battery the noise of the batches is as large as the start
SMALL_STEPS: dict[str, Any] = {"start": 2e-3, "step_per_bias": 0.05, "steps": 1000}
FOLLOWED = 12  # features whose correlation with one winner is drawn


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """Who wins which feature, predicted from the start; the sets of Definitions B.1 and B.3 along training."""
    (problem, test, many), run = bench(s, seed), clean_run(s, seed)
    context.progress(0.7)
    W0, net = start(s, seed).W.detach(), run.last
    W = net.W.detach()
    winners = (probes.purity(W, problem.M) > PURE) & (probes.firing(net, many.x) > 0)
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
    return [*rows, *premise_rows(s, problem, test), theory.sure_premise(s, s.final_bias).as_row()]


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


def _sets(s: Setting, run: Trajectory[SymmetricNet], problem: SparseCoding, W0: Tensor) -> list[Row]:
    """Sizes and inclusions of the sets of tickets, with σ_w growing as the bias does."""
    c1, c2 = theory.ticket_constants(s.c0)
    ratio = math.sqrt(c1 * math.log(s.dim)) * s.start / run.snapshots[0].bias

    def thresholds(net: SymmetricNet) -> lottery.Thresholds:
        return lottery.Thresholds(c1, c2, ratio * net.bias, s.dim)

    few = 20 / s.c0 if s.c0 > 0 else math.inf  # the O(1) of Definition B.1 in its proof
    first = lottery.tickets(W0, problem, thresholds(run.snapshots[0]), few)
    rows: list[Row] = []
    beta = 1 / math.sqrt(s.sparsity)  # 1/(√k Ξ2¹⁰) with Ξ2 = 1
    for time, net in zip(run.times, run.snapshots, strict=True):
        W, t = net.W.detach(), thresholds(net)
        now, later = (
            lottery.tickets(W, problem, t, few),
            lottery.later_tickets(W, problem, replace(t, bias=net.bias), beta, few),
        )
        rows.append(
            {
                "kind": "sets",
                "time": time,
                "phase": phase_of(s, net.bias),
                "regular": float(now.regular.double().mean()),
                "sure_stay": lottery.included(first.sure, now.sure),
                "no_new_potential": lottery.included(now.potential, first.potential),
                "sure_win": lottery.included(first.sure, later.sure),
                "later_potential_known": lottery.included(later.potential, first.potential),
                "small": float(later.small.double().mean()),
                "smaller": float(later.smaller.double().mean()),
            }
        )
    return rows


def phase_of(s: Setting, bias: float) -> int:
    """1 up to the printed T_b = d² σ_0/k of Σ step sizes, by which the bias has grown by c_b d σ_0/k; 2 after it."""
    return 1 if bias <= s.first_bias + s.bias_growth * s.dim * s.start / s.sparsity + 1e-12 else 2


def _least(key: str, phase: int | None = None) -> Callable[[Rows], Values]:
    """The least share at any recorded time, or any of one phase."""
    return lambda rows: (rows.of("sets") if phase is None else rows.of("sets", phase=phase)).least(key)


def _last(key: str) -> Callable[[Rows], Values]:
    return lambda rows: rows.of("sets").per_seed(lambda own: own.column(key)[-1])


def _set_claim(
    name: str, source: str, statement: str, value: Callable[[Rows], Values], *regime: str
) -> Claim:
    """An inclusion that the theorem says is whole."""
    return Claim(name, source, statement, value, at_least(ALL), premises=requires(*LEARNED, *regime))


def _match(rows: Rows) -> Values:
    return rows.of("winners").per_seed("match")


CLAIMS = (
    Claim(
        "match",
        "Theorem 5.2, Section 6.1",
        "the start decides which feature a neuron wins: share whose feature had the largest signed correlation at the start",
        _match,
        at_least(ALL),
        premises=requires(*LEARNED),
    ),
    Claim(
        "auc",
        "Section 6.1",
        "the largest signed correlation at the start tells winners from losers: AUC",
        lambda rows: rows.of("winners").per_seed("auc"),
        at_least(0.8),
        premises=requires(*LEARNED),
    ),
    Claim(
        "sign",
        "Definition B.1",
        "share predicted with the sign of w* minus share predicted without it",
        lambda rows: _match(rows) - rows.of("winners").per_seed("match_unsigned"),
        above(0.05),
        premises=requires(*LEARNED),
    ),
    _set_claim(
        "stay",
        "Theorems C.1(1), C.2(2)",
        "who holds a ticket keeps it: share of the sure winners of the start that still are, least over time",
        _least("sure_stay"),
    ),
    _set_claim(
        "no-new",
        "Theorem C.1(2)",
        "nobody else joins: share of the potential winners that were so at the start, least over Phase I",
        _least("no_new_potential", 1),
    ),
    _set_claim(
        "no-new-later",
        "Theorem C.2(3)",
        "the same in Phase II, least over time",
        _least("no_new_potential", 2),
    ),
    _set_claim(
        "regular",
        "Theorem C.1(3)",
        "every neuron is in S_ept, with all four conditions: share, least over Phase I",
        _least("regular", 1),
    ),
    _set_claim(
        "win",
        "Theorem C.2(4)",
        "sure winners win: share of them that stand at 2√k b or more at the end",
        _last("sure_win"),
        "definition-c-12",
    ),
    _set_claim(
        "known",
        "Theorems C.1(5), C.2(3)",
        "whoever is large at the end, |A_ij| ≥ k b/(dβ), held a ticket: share of S_pot+ in S_pot of the start",
        _last("later_potential_known"),
    ),
    _set_claim(
        "small",
        "Theorem C.2(1)",
        "every neuron is in S_ept+ at the end: share",
        _last("small"),
    ),
    _set_claim(
        "smaller",
        "Theorem C.2(1)",
        "every neuron is in S_ept++ at the end: share",
        _last("smaller"),
    ),
)

FIGURE_8 = Experiment(
    id="feature-purification/figure-8",
    source="Allen-Zhu & Li 2020, Figure 8",
    title="Lottery tickets: the start decides which neuron learns which feature",
    scales=scales(Setting, **SMALL_STEPS),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "Correlations of one neuron with the features along clean training, and how well the start predicts who wins. All outputs count"
        " +1, so a neuron must begin with the sign of w*. Sets of sure and potential winners with the paper's constants: at this size"
        " gates open for noise and mixtures often enough that most neurons grow, whatever their ticket."
    ),
)
