"""How the weights grow: the decomposition of Lemma 5.1, and the laws that the margins follow."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from featureprism.context import Context, Progress, part
from featureprism.lab import SCALES, Claim, Experiment, Rows, at_least, at_most, below, between
from featureprism.papers.feature_averaging.approach import class_shares
from featureprism.papers.feature_averaging.lemmas import spread_of
from featureprism.papers.feature_averaging.setting import (
    Setting,
    k_class_start,
    ours,
    problem,
    summary,
    two_class_start,
)
from featureprism.papers.feature_averaging.theorems import of_appendix_b
from featureprism.probes import from_updates
from featureprism.records import Row
from featureprism.theory import feature_averaging as theory
from featureprism.training import first_layer_descent, growing_lumps

LUMPS = 1 / 20  # steps taken as one, of all before: moves the slope of a balance by less than 0.001


@dataclass(frozen=True, kw_only=True)
class Balanced(Setting):
    """The balance of margins is a mean over so many problems: the sizes of ten clusters alone say little of a slope."""

    draws: int


def balance_of(s: Setting, seed: int) -> Row:
    """Spreads of the margins of one problem after training, later steps in lumps."""
    train, lumps = problem(s, seed).train, growing_lumps(s.steps, LUMPS)
    options = {"step_size": s.step_size, "steps": len(lumps), "lumps": lumps, "representation": "gram"}
    net = first_layer_descent(two_class_start(s, seed), train.x, train.y, **options).last
    with torch.no_grad():
        return spread_of(train.y * net(train.x), train)


def _balances(s: Balanced, seed: int, progress: Progress) -> Row:
    """The slope of margins on the sizes of clusters beside its law, means over the draws."""
    found: list[Row] = []
    for draw in range(s.draws):
        found.append(balance_of(s, seed * s.draws + draw))
        progress((draw + 1) / s.draws)
    return {
        "balance": float(np.mean([row["balance"] for row in found])),
        "balance_law": float(np.mean([theory.balance_slope(row["margin"]) for row in found])),
    }


def measure_decomposition(s: Balanced, seed: int, context: Context) -> list[Row]:
    """λ and σ by the updates of Lemma 5.2, activations at every step, balance at the end, and the premises of Theorem 4.5."""
    data = problem(s, seed)
    train, mu = data.train, data.clusters.mu
    start = two_class_start(s, seed)
    signs = torch.sign(start.a.detach())
    own_pairs = signs == train.y.unsqueeze(1)
    run = first_layer_descent(
        start,
        train.x,
        train.y,
        step_size=s.step_size,
        steps=s.steps,
        representation="gram",
        watch=lambda z: (z[0] >= 0).logical_and(own_pairs).sum() / own_pairs.sum(),
        progress=part(context.progress, 0, 0.4),
    )
    tracked = from_updates(run.probes["slopes"][-1][0], train, s.step_size)
    growth, opposite = class_shares(tracked.features, signs, data.clusters.labels)
    own = tracked.features[signs.unsqueeze(1) == data.clusters.labels]
    row = {
        "kind": "summary",
        "lambda": growth,
        "lambda_spread": float(own.std() / own.mean()),
        "lambda_ratio": float(own.max() / own.min()),
        "opposite": opposite,
        "opposite_law": theory.opposite_share(s.positive, s.num_clusters, s.points, s.dim),
        **_balances(s, seed, part(context.progress, 0.4, 1)),
        **_activation(torch.stack(run.probes["watched"])),
    }
    features = [
        {"kind": "feature", "neuron": r, "cluster": j, "coefficient": value}
        for r, neuron in enumerate(tracked.features.tolist())
        for j, value in enumerate(neuron)
    ]
    premises = theory.premises(s, mu) + theory.training_time(s, s.steps)
    return [row, *features, *(premise.as_row() for premise in premises)]


def _activation(shares: Tensor) -> Row:
    """Of the shares of own pairs (point, neuron) active at t = 0, 1, …: at t = 1, the least from then on, and since when all."""
    partly = (shares < 1).nonzero()
    return {
        "own_active_first": float(shares[1]),
        "own_active_least": float(shares[1:].min()),
        "all_active_from": int(partly.max()) + 1 if len(partly) else 0,
    }


def _balance_note(rows: Rows) -> str:
    """Why the slope is not quite 1 yet."""
    found = rows.of("summary")
    law, steps = found.column("balance_law").mean(), found.column("steps").max()
    ratio = (found.column("balance") / found.column("balance_law")).mean()
    return (
        f"mean over {found.column('draws').max():.0f} problems a seed; 1 is the end: the law is (q + e^q - 1)/(1 + e^q),"
        f" {law:.3f} after {steps:.0f} steps; measured ÷ law {ratio:.3f}"
    )


CLAIMS_DECOMPOSITION = (
    of_appendix_b(
        "active",
        "Lemma 5.5 (Lemma B.7 (7))",
        "every training point activates all neurons of its class at every t ≥ 1: least share that is active",
        summary("own_active_least"),
        at_least(1.0),
        aggregate="worst",
    ),
    of_appendix_b(
        "active-first",
        "Lemma B.1",
        "already after the first step: share that is active at t = 1",
        summary("own_active_first"),
        at_least(1.0),
        aggregate="worst",
        note=lambda rows: (
            "all of them are, for good, from step"
            f" {rows.of('summary').column('all_active_from').max():.0f} on at the latest"
        ),
    ),
    ours(
        "active-from",
        "Lemma 5.5, sharp",
        "it comes true a few steps later: the step from which all are active for good",
        summary("all_active_from"),
        at_most(5),
    ),
    of_appendix_b(
        "spread",
        "Section 5.3, step 1 (Lemma B.24)",
        "the ratio of any two coefficients of own features is 1 ± o(1): the largest ratio minus 1",
        lambda rows: summary("lambda_ratio")(rows) - 1,
        at_most(0.2),
        note=lambda rows: (
            "o(1) read as a fifth: below 1 would say nothing here; standard deviation ÷ mean"
            f" {rows.of('summary').column('lambda_spread').mean():.3f}"
        ),
    ),
    ours(
        "balance",
        "Lemma 5.3, sharp",
        "they differ by the sizes of clusters: slope of margin differences on ln(|I_i|/|I_j|)",
        summary("balance"),
        between(0.95, 1.05),
        note=_balance_note,
    ),
    ours(
        "opposite",
        "Section 5.3, step 2, sharp",
        "what neurons unlearn of the other class: (opposite λ ÷ own λ) ÷ o, o = Φ(-o/s), s² = |J|(1+k/n)/d",
        lambda rows: summary("opposite")(rows) / summary("opposite_law")(rows),
        between(0.85, 1.2),
    ),
)


def measure_dynamics(s: Setting, seed: int, context: Context) -> list[Row]:
    """Mean margins of both networks along training beside their laws."""
    data = problem(s, seed)
    train = data.train
    times = sorted({round(s.steps * (i / 20) ** 2) for i in range(1, 21)})
    options = {"step_size": s.step_size, "steps": s.steps, "record": times}
    first, second = part(context.progress, 0, 0.5), part(context.progress, 0.5, 1)
    two = first_layer_descent(two_class_start(s, seed), train.x, train.y, **options, progress=first)
    fine = first_layer_descent(k_class_start(s, seed), train.x, train.cluster, **options, progress=second)
    two_rate, fine_rate = theory.growth_rate(s, s.per_class), theory.growth_rate(s, s.group)
    rows: list[Row] = []
    for time, merged, separate in zip(two.times, two.snapshots, fine.snapshots, strict=True):
        with torch.no_grad():
            margin = float((train.y * merged(train.x)).mean())
            logit = float(separate(train.x).gather(1, train.cluster.unsqueeze(1)).mean())
        row = {"kind": "growth", "time": time}
        law = theory.two_class_margin(two_rate, time)
        rows.append({**row, "network": "two-class", "margin": margin, "law": law})
        law = theory.k_class_margin(fine_rate, time, s.num_clusters)
        rows.append({**row, "network": "k-class", "margin": logit, "law": law})
    return rows


LAWS = {
    "two-class": "mean margin against q + e^q = 1 + Ct, C = (ηd/m)(1/k + 1/n)",
    "k-class": "mean own logit against q + e^q/(k-1) = 1/(k-1) + Ct",
}


def _claim(network: str) -> Claim:
    def final_error(run: Rows) -> float:
        return abs(run.column("margin")[-1] / run.column("law")[-1] - 1)

    return ours(
        network,
        "Section 5, sharp",
        f"{LAWS[network]}, at the end: relative error",
        lambda rows: rows.of("growth", network=network).per_seed(final_error),
        below(0.008),
    )


DECOMPOSITION = Experiment(
    id="feature-averaging/decomposition",
    source="Li et al. 2025, Lemmas 5.1, 5.2 and 5.5",
    title="Every neuron is its start, plus features, plus memorised noise",
    scales={scale: [Balanced(steps=1000, draws=16)] for scale in SCALES},
    measure=measure_decomposition,
    claims=CLAIMS_DECOMPOSITION,
    about=(
        "λ and σ tracked by the update rule during training in the Gram representation, exact to rounding. The paper's eq. (4)"
        " prints the inverse of the ratio of Corollary B.4."
    ),
)
DYNAMICS = Experiment(
    id="feature-averaging/dynamics",
    source="Li et al. 2025, Section 5",
    title="Margins grow like the logarithm of ηdt/(km)",
    scales={
        "quick": [Setting(steps=300)],
        "standard": [Setting(steps=2000)],
        "paper": [Setting(steps=10_000)],
    },
    measure=measure_dynamics,
    claims=tuple(_claim(network) for network in LAWS),
    about="Mean margins along training and the closed laws; the paper's bounds ln(ηt)/4 and 4 ln(t+1) drop the factor d/(km).",
)
