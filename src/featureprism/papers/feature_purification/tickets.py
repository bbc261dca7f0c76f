"""Figure 8: lottery tickets, the start decides which neuron learns which feature."""

import math

import torch

from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.purification import PURE, theory_setting
from featureprism.papers.feature_purification.setting import (
    clean_run,
    coding,
    probe_points,
    scales,
    start,
)
from featureprism.probes import lottery
from featureprism.probes import purification as probes
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of
from featureprism.theory import feature_purification as theory

FOLLOWED = 12  # features whose correlation with one winner is drawn


def measure_8(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Who wins which feature, predicted from the start; the sets of Definitions B.1 and B.3 along training."""
    problem, seen, run = coding(setting, seed), probe_points(setting, seed), clean_run(setting, seed)
    progress(0.7)
    W0, net = start(setting, seed).W.detach(), run.last
    W = net.W.detach()
    winners = (probes.purity(W, problem.M) > PURE) & (probes.firing(net, seen) > 0)
    predicted, ticket = lottery.predicted_feature(W0, problem)
    learned, unsigned = lottery.learned_feature(W, problem), lottery.learned_feature(W0, problem)
    rows: list[Row] = [
        {
            "kind": "winners",
            "winners": int(winners.sum()),
            "match": float((predicted == learned)[winners].double().mean()),
            "match_unsigned": float((unsigned == learned)[winners].double().mean()),
            "auc": lottery.ranking_quality(ticket, winners),
        }
    ]
    rows += _set_rows(setting, run, problem, W0)
    best = int((torch.where(winners, W.abs().amax(dim=1), torch.zeros(()))).argmax())
    rivals = (W0[best] @ problem.M).abs().argsort(descending=True)[:FOLLOWED].tolist()
    followed = list(dict.fromkeys([int(learned[best]), *rivals]))
    for time, snapshot in zip(run.times, run.snapshots, strict=True):
        A = snapshot.W.detach()[best] @ problem.M * problem.w.sign() / snapshot.bias
        rows += [
            {
                "kind": "ticket",
                "time": time,
                "feature": f,
                "won": f == int(learned[best]),
                "value": float(A[f]),
            }
            for f in followed
        ]
    progress(1.0)
    return rows


def _set_rows(setting: Row, run, problem, W0) -> list[Row]:
    """Sizes and inclusions of the sets of tickets, with σ_w growing as the bias does."""
    s = theory_setting(setting)
    c1, c2 = theory.ticket_constants(s.c0)
    ratio = math.sqrt(c1 * math.log(s.dim)) * setting["start"] / run.snapshots[0].bias

    def thresholds(net: SymmetricNet) -> lottery.Thresholds:
        return lottery.Thresholds(c1, c2, ratio * net.bias, s.dim)

    first = lottery.tickets(W0, problem, thresholds(run.snapshots[0]))
    units = [math.sqrt((c1 + sign * c2) * math.log(s.dim)) for sign in (1, -1)]
    expected = theory.expected_tickets(s.width, s.dim, *units)
    rows: list[Row] = [
        {
            "kind": "tickets",
            "sure": float(first.sure.sum()) / s.dim,
            "potential": float(first.potential.sum()) / s.dim,
            "expected_sure": expected.sure,
            "expected_potential": expected.potential,
            "regular_share": float(first.regular.double().mean()),
        }
    ]
    beta = 1 / math.sqrt(s.sparsity)  # 1/(√k Ξ2¹⁰) with Ξ2 = 1
    for time, net in zip(run.times, run.snapshots, strict=True):
        W, t = net.W.detach(), thresholds(net)
        now, later = lottery.tickets(W, problem, t), lottery.later_tickets(W, problem, t, beta)
        rows.append(
            {
                "kind": "sets",
                "time": time,
                "sure_stay": lottery.included(first.sure, now.sure),
                "no_new_potential": lottery.included(now.potential, first.potential),
                "sure_win": lottery.included(first.sure, later.sure),
                "later_potential_known": lottery.included(later.potential, first.potential),
                "small": float(later.small.double().mean()),
                "smaller": float(later.smaller.double().mean()),
            }
        )
    return rows


def _claims_8(rows: list[Row]) -> list[Claim]:
    found, sets = rows_of(rows, "winners"), rows_of(rows, "tickets")
    return [
        judge(
            "figure-8.match",
            "Section 6.1",
            "neurons that end as a feature: share whose feature had the largest signed correlation at the start",
            [r["match"] for r in found],
            ">=",
            0.75,
        ),
        judge(
            "figure-8.auc",
            "Section 6.1",
            "the largest signed correlation at the start tells winners from losers: AUC",
            [r["auc"] for r in found],
            ">=",
            0.8,
        ),
        judge(
            "figure-8.sign",
            "Definition B.1",
            "share predicted with the sign of w* minus share predicted without it",
            [r["match"] - r["match_unsigned"] for r in found],
            ">",
            0.05,
        ),
        judge(
            "figure-8.tickets",
            "Lemma B.2",
            "potential winners per feature at the start ÷ their expected number",
            [r["potential"] / r["expected_potential"] for r in sets],
            "in",
            (0.5, 1.5),
            f"sure winners per feature: {sum(r['sure'] for r in sets) / max(1, len(sets)):.2f}; "
            "the lemma's at least one needs a larger d",
        ),
    ]


FIGURE_8 = Experiment(
    id="feature-purification/figure-8",
    source="Allen-Zhu & Li 2020, Figure 8",
    title="Lottery tickets: the start decides which neuron learns which feature",
    scales=scales(),
    measure=measure_8,
    claims=_claims_8,
    about=(
        "Correlations of one neuron with the features along clean training, and how well the start predicts who wins. All outputs count"
        " +1, so a neuron must begin with the sign of w*. Sets of sure and potential winners with the paper's constants."
    ),
)
