"""The bias schedule: b grows by c_b/d with a small c_b, and where c_b stops being small."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from featureprism.context import Context
from featureprism.lab import Claim, Experiment, Rows, Values, at_least, at_most, between, requires
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import LEARNED, Bench, bench, premise_rows
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Setting,
    clean_phase,
    scales,
    start,
    train,
)
from featureprism.probes import lottery
from featureprism.probes import purification as probes
from featureprism.records import Row
from featureprism.theory import feature_purification as theory
from featureprism.training import Phase

SHARES = (1 / 4, 1 / 2, 1.0, 2.0, 4.0)  # c_b in units of the rate of a winner
SMALL = 1 / 20  # the paper's proof lets the bias grow 20 times slower than a winner. Lemma C.8
WON = 1.0  # in units of the bias: a neuron opens for its feature


@dataclass(frozen=True, kw_only=True)
class Schedules(Setting):
    """Clean training up to the cap of the bias under several rates of its growth."""

    schedule_steps: int = 250
    schedule_batch: int = 250


def measure(s: Schedules, seed: int, context: Context) -> list[Row]:
    """Winners that are left when the bias has stopped, for rates in units of what a winner grows by."""
    on = bench(s, seed)
    rate = theory.winner_rate(on.many.z, on.problem.w)
    rows: list[Row] = []
    for index, share in enumerate(SHARES):
        own = replace(s, bias_growth=share * rate, steps=s.schedule_steps, batch=s.schedule_batch)
        net = train(own, start(own, seed), [clean_phase(own)], seed, "rates").last
        rows.append({"kind": "rate", "share": share, "c_b": share * rate, **_winners(net, on)})
        context.progress((index + 1) / (len(SHARES) + 2))
    for name, c_b in (("small", SMALL * rate), ("one", 1.0)):
        won = _winners(as_printed(s, seed, c_b), on)
        rows.append({"kind": "printed", "name": name, "c_b": c_b, **won})
    return rows + premise_rows(s, on.problem, on.many)


def _winners(net: SymmetricNet, on: Bench) -> Row:
    """Neurons that fire, and the share of the features that some neuron opens for at full size with the right sign."""
    W = net.W.detach()
    signed = (W @ on.problem.M) * on.problem.w.sign()
    own = lottery.learned_feature(W, on.problem)
    wins = signed.gather(1, own.unsqueeze(1)).squeeze(1) > WON * net.bias
    return {
        "alive": int((probes.firing(net, on.many.x) > 0).sum()),
        "covered": len(own[wins].unique()) / on.problem.M.shape[1],
        "bias": net.bias,
    }


def as_printed(s: Schedules, seed: int, c_b: float) -> SymmetricNet:
    """The network after Phases I.1 and I.2 with the printed constants and one c_b, every other Θ(1) set to 1.

    The phases last until the bias has its printed cap, or as many steps as the main battery has.
    """
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
    own = replace(s, penalty=printed.penalty * s.dim, batch=s.schedule_batch)
    return train(own, net, phases, seed, "printed").last


def half_share(rows: Rows) -> Values:
    """c_b at which half of the features are left of those that the slowest bias leaves, in units of a winner's rate."""

    def crossing(own: Rows) -> float:
        shares, covered = own.column("share"), own.column("covered")
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


def _printed(name: str) -> Callable[[Rows], Values]:
    return lambda rows: rows.of("printed", name=name).per_seed("covered")


def _bias_note(rows: Rows) -> str:
    own = rows.of("printed", name="small")
    scaled = own.column("bias") * np.sqrt(own.column("sparsity"))
    return f"the bias ends at {scaled.mean():.2f} of its printed cap 1/√k"


def _rate_note(rows: Rows) -> str:
    parts = rows.of("rate").groups("share")
    told = ", ".join(
        f"{part.column('c_b').mean():.2g}: {part.column('covered').mean():.2f}" for part in parts.values()
    )
    return f"share of features covered by c_b: {told}"


CLAIMS = (
    Claim(
        "small",
        "finding",
        "half of the features are lost at c_b = the rate of a winner, (d/2) E[y sign(w*_j) z_j 1{|z_j| = 1}]: c_b ÷ it",
        half_share,
        between(0.5, 2.0),
        origin="featureprism",
        note=_rate_note,
        premises=requires(*LEARNED),
    ),
    Claim(
        "printed",
        "Section 4, Definitions C.6 and C.12",
        "under the printed schedule with c_b 20 times below a winner every feature is won: share of features, after as many steps as"
        " the main battery has, before the bias is at its cap",
        _printed("small"),
        at_least(0.9),
        note=_bias_note,
        premises=requires(*LEARNED),
    ),
    Claim(
        "one",
        "finding",
        "the printed schedule with c_b = 1 too: share of features won",
        _printed("one"),
        at_most(0.1),
        origin="featureprism",
        note="the bias outruns all neurons",
        premises=requires(*LEARNED),
    ),
)

BIAS_SCHEDULE = Experiment(
    id="feature-purification/bias-schedule",
    source="Allen-Zhu & Li 2020, Section 4, Definitions C.6 and C.12",
    title="The bias may grow by c_b/d with a small c_b: how small that is",
    scales=scales(Schedules),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "Clean training until the bias has reached its cap, for several rates of its growth in units of the rate at which a winner"
        " grows; and the printed schedule, every Θ(1) but c_b set to 1."
    ),
)
