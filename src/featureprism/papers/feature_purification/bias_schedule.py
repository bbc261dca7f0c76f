"""Section 4: the bias may grow by c_b/d with a small c_b; how small that is."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, at_least, between, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.measures import LEARNED, NEARLY_ALL, Bench, bench, premise_rows
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    clean_phase,
    scales,
    start,
    train,
)
from featureprism.probes import lottery
from featureprism.training import Phase

SHARES = (1 / 4, 1 / 2, 1.0, 2.0, 4.0)  # c_b in units of the rate of a winner
SMALL_SHARE = 1 / 20  # in the proof of Lemma C.8


@dataclass(frozen=True, kw_only=True)
class ScheduleSetting(Battery):
    """Clean training up to the cap of the bias under several rates of its growth."""

    schedule_steps: int = 250
    schedule_batch: int = 250


def measure(s: ScheduleSetting, seed: int, context: Context) -> list[Row]:
    """Features that are won when the bias has stopped, for rates in units of what a winner grows by."""
    on = bench(s, seed)
    winner = theory.winner_rate(on.many.z, on.problem.w)
    rows: list[Row] = []
    for index, share in enumerate(SHARES):
        faster = replace(s, bias_growth=share * winner, steps=s.schedule_steps, batch=s.schedule_batch)
        net = train(faster, start(faster, seed), [clean_phase(faster)], seed, "rates").last
        rows.append({"kind": "rate", "share": share, "c_b": share * winner, "covered": _covered(net, on)})
        context.progress((index + 1) / (len(SHARES) + 1))
    net = as_printed(s, seed, SMALL_SHARE * winner)
    rows.append({"kind": "printed", "covered": _covered(net, on), "bias": net.bias})
    return rows + premise_rows(s, on)


def _covered(net: SymmetricNet, on: Bench) -> float:
    """Share of the features that some neuron opens for at full size with the right sign."""
    W = net.W.detach()
    signed = (W @ on.problem.M) * on.problem.w.sign()
    feature = lottery.learned_feature(W, on.problem)
    wins = signed.gather(1, feature.unsqueeze(1)).squeeze(1) > net.bias
    return len(feature[wins].unique()) / on.problem.M.shape[1]


def as_printed(s: ScheduleSetting, seed: int, c_b: float) -> SymmetricNet:
    """The network after Phases I.1 and I.2 with the printed constants and one c_b, every other Θ(1) set to 1."""
    printed = theory.printed_schedule(s, s.start)
    net = SymmetricNet(start(s, seed).W, printed.start_bias, printed.smoothing_first * printed.start_bias)
    growth = c_b * printed.bias_growth
    steps = min(s.steps, math.ceil(printed.bias_cap / (growth * s.step_size)))
    phases = [
        Phase(
            count,
            step_size=s.step_size,
            smoothing=smoothing,
            step_per_bias=s.step_per_bias * s.dim,
            bias_growth=growth,
            bias_cap=printed.bias_cap,
        )
        for count, smoothing in (
            (steps // 10, printed.smoothing_first),
            (steps - steps // 10, printed.smoothing_later),
        )
    ]
    changed = replace(s, penalty=printed.penalty * s.dim, batch=s.schedule_batch)
    return train(changed, net, phases, seed, "printed").last


def half_share(rows: Rows) -> Values:
    """c_b at which half of the features are left of those that the slowest bias leaves, in units of a winner's rate."""

    def crossing(one: Rows) -> float:
        shares, covered = one.column("share"), one.column("covered")
        if np.isnan(covered).any():
            return math.nan
        below = np.flatnonzero(covered < covered[0] / 2)
        if not len(below):
            return math.inf
        after = int(below[0])
        levels = np.log(np.maximum(covered[after - 1 : after + 1], 1e-3))
        part = (levels[0] - math.log(covered[0] / 2)) / (levels[0] - levels[1])
        return float(np.exp(np.interp(part, [0, 1], np.log(shares[after - 1 : after + 1]))))

    return rows.of("rate").per_seed(crossing)


def _rate_note(rows: Rows) -> str:
    parts = rows.of("rate").groups("share")
    means = ", ".join(
        f"{part.column('c_b').mean():.2g}: {part.column('covered').mean():.2f}" for part in parts.values()
    )
    return f"share of features won by c_b: {means}"


CLAIMS = (
    Claim(
        "small",
        source="Section 4",
        says="A bias that grows as fast as a winner, c_b = (d/2) E[y sign(w*_j) z_j 1{|z_j| = 1}], loses half of the features.",
        quantity="speed c_b of the bias at which half of the features are lost ÷ the speed at which a winner grows",
        bound=between(0.5, 2.0),
        because="the law has no free constant; a factor of two is left for the lottery",
        value=half_share,
        origin="featureprism",
        note=_rate_note,
        premises=requires("assumption-2-1", "section-2"),
    ),
    Claim(
        "printed",
        source="Section 4, Definitions C.6 and C.12",
        says="Under the printed schedule, with a bias that grows twenty times slower than a winner, every feature is won.",
        quantity="share of the features that some neuron opens for, after as many steps as the main battery has",
        bound=at_least(NEARLY_ALL),
        because="every feature is read as nine tenths of them",
        value=lambda rows: rows.of("printed").per_seed("covered"),
        premises=requires(*LEARNED),
    ),
)


def draw(rows: Rows) -> Any:
    """Features that are won against the rate of the bias, in units of the rate of a winner."""
    from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels

    figure, (axes,) = panels(1, width=5.0, height=3.0)
    band(axes, *over_seeds(rows.of("rate"), "share", "covered"), COLOURS[0], None)
    axes.set(
        xscale="log", xlabel="c_b ÷ rate of a winner", ylabel="share of the features won", ylim=(-0.03, 1.03)
    )
    guide(axes, 1.0, "as fast as a winner")
    return figure


BIAS_SCHEDULE = Experiment(
    id="feature-purification/bias-schedule",
    source="Allen-Zhu & Li 2020, Section 4, Definitions C.6 and C.12",
    title="The bias may grow by c_b/d with a small c_b: how small that is",
    scales=scales(ScheduleSetting, steps=700, step_per_bias=0.2),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "Clean training until the bias has reached its cap, for several rates of its growth in units of the rate at which a winner"
        " grows; and the printed schedule, every Θ(1) but c_b set to 1."
    ),
)
