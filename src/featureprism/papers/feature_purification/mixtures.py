"""Where dense mixtures come from: their growth under clean training, and the four paths of figure 9."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.data import SparseCoding, SparseSample
from featureprism.lab import (
    Claim,
    Experiment,
    Requires,
    Rows,
    Values,
    at_least,
    at_most,
    between,
    log_slope,
    requires,
)
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    LEARNED,
    MIXED,
    PURIFIED,
    at_stage,
    bench,
    network_row,
    premise_rows,
    stage_claim,
)
from featureprism.papers.feature_purification.orders import FEW, SMALL
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    SIZES,
    Setting,
    clean_phase,
    clean_run,
    extended,
    fast_gradient,
    later_phase,
    pure_start,
    run_from_pure,
    scales,
    start,
    train,
    trained,
)
from featureprism.probes import purification as probes
from featureprism.records import Row, Trajectory
from featureprism.theory import feature_purification as theory

AFTER_LOTTERY = "adversarial after a clean lottery"
LOTTERY_SHARE = 0.6  # of the clean steps, before the radius of the adversary is raised
RESPONSE_POINTS = 500


@dataclass(frozen=True, kw_only=True)
class Dense(Setting):
    """Clean training from a "random start" or a "pure start"."""

    family: str


def measure_dense(s: Dense, seed: int, context: Context) -> list[Row]:
    """Growth of the mixtures along clean training, from a random start or from pure features."""
    problem, _, test = bench(s, seed)
    run = clean_run(s, seed) if s.family == "random start" else run_from_pure(s, seed)
    context.progress(0.8)
    rows = _along(run, s, problem, test)
    x, y = test.x[:RESPONSE_POINTS], test.y[:RESPONSE_POINTS]
    half = half_radius(run.last, x, y, problem.dense_direction)
    rows.append({"kind": "response", **_response(run.last, problem, test), "half_radius": half})
    return rows + premise_rows(s, problem, test)


def _along(run: Trajectory[SymmetricNet], s: Dense, problem: SparseCoding, test: SparseSample) -> list[Row]:
    """The mixtures at every recorded time, in units of what Theorem 5.2 says of them."""
    nonzero = _mean_nonzero(test)
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        W = net.W.detach()
        parts = probes.mixture(W, problem)
        pull = probes.pull_to_dense(net, test.x, test.y, problem.dense_direction)
        live = probes.firing(net, test.x) > 0
        mean = float(parts.coefficients[live][~parts.own[live]].mean()) if bool(live.any()) else 0.0
        rows.append(
            {
                "kind": "time",
                "time": time,
                "dense_share": probes.share_along(W, problem.dense_direction),
                "mean_beta": parts.mean_beta,
                "kappa": parts.mean_beta * s.dim / nonzero,
                "kappa_alive": mean * s.dim / nonzero,
                "kappa_large": probes.large_neurons(W, problem).ratio * s.dim / s.sparsity,
                "mean_over_theory": parts.mean_beta / theory.mean_beta(s),
                "largest_beta": probes.mixture(W, problem, FEW).largest_beta / theory.beta_bound(s),
                "pull_positive": float((pull > 0).double().mean()),
                "pull": float(pull.mean()),
            }
        )
    return rows


def _mean_nonzero(test: SparseSample) -> float:
    """Mean ‖z‖₀."""
    return float((test.z != 0).double().sum(dim=1).mean())


@torch.no_grad()
def half_radius(net: SymmetricNet, x: Tensor, y: Tensor, direction: Tensor, largest: float = 2.0) -> float:
    """Where the universal direction has flipped half of the points, by bisection; infinite if not at the largest radius."""
    unit = direction / direction.norm()

    def holds(radius: float) -> bool:
        margin = y * net.input_gradient(x - radius * y.unsqueeze(1) * unit)[0]
        return float((margin > 0).double().mean()) > 0.5

    low, high = 0.0, largest
    if holds(high):
        return math.inf
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


def _response(net: SymmetricNet, problem: SparseCoding, test: SparseSample) -> Row:
    """How much the mixtures v_i answer to data and to the dense direction, per unit of norm. Eq. (6.2)."""
    parts = probes.mixture(net.W.detach(), problem)
    V = (parts.coefficients * ~parts.own * problem.w) @ problem.M.T
    direction = problem.dense_direction / problem.dense_direction.norm()
    on_data = ((test.x @ V.T).abs() / test.x.norm(dim=1, keepdim=True)).median(dim=0).values
    ratio = (V @ direction).abs() / on_data.clamp_min(1e-12)
    live = probes.firing(net, test.x) > 0
    return {
        "ratio": float(ratio[live].median()) if bool(live.any()) else math.nan,
        "root_dim": math.sqrt(len(direction)),
    }


def _random(rows: Rows, key: str, time: int = -1) -> Values:
    """A value from a random start at the last time, or another one."""
    return rows.of("time", family="random start").per_seed(lambda own: own.column(key)[time])


def _dim_slope(rows: Rows) -> Values:
    """Slope of log mean β at the end against log d at the larger k, from a pure start."""

    def slope(own: Rows) -> float:
        ends = Rows(tuple(run[-1] for run in own.groups("dim", "sparsity").values()), own.seeds)
        dense = ends.having(sparsity=own.column("sparsity").max())
        return log_slope(dense.column("dim"), np.maximum(dense.column("mean_beta"), 1e-9))

    return rows.of("time", family="pure start").per_seed(slope)


def _radius_ratio(rows: Rows) -> Values:
    """Half radius at the larger k ÷ that at the smaller k, both at the larger d, from a pure start."""

    def ratio(own: Rows) -> float:
        by_size = np.lexsort((own.column("sparsity"), own.column("dim")))
        less, more = own.column("half_radius")[by_size[-2:]]
        return more / less

    return rows.of("response", family="pure start").per_seed(ratio)


def _from(family: str, *regime: str) -> Requires:
    return requires(*regime, family=f"{family} start")


CLAIMS_DENSE = (
    Claim(
        "growth",
        "Section 6.2",
        "share of Σ‖w_i‖² along Mw* from a random start: after clean training ÷ before",
        lambda rows: _random(rows, "dense_share") / _random(rows, "dense_share", 0),
        at_least(10.0),
        premises=_from("random", *MIXED),
    ),
    Claim(
        "response",
        "(6.2)",
        "mixtures answer to the dense direction this many times more than to data of equal norm, median",
        lambda rows: rows.of("response", family="random start").per_seed("ratio"),
        at_least(3.0),
        note=lambda rows: f"√d = {rows.of('response').column('root_dim').max():.1f}",
        premises=_from("random", *MIXED),
    ),
    Claim(
        "dimension",
        "Theorem 5.2",
        "from a pure start mean β falls as 1/d at fixed k: slope of log β against log d",
        _dim_slope,
        between(-1.2, -0.8),
        reported=-1.0,
        premises=_from("pure", *LEARNED),
    ),
    Claim(
        "radius",
        "Theorem E.1",
        "the radius √d/k² at which Mw* flips half of the points falls with k: for k ÷ for k/2, from a pure start",
        _radius_ratio,
        between(0.125, 0.5),
        reported=0.25,
        premises=_from("pure", *MIXED),
    ),
    Claim(
        "uniform",
        "Theorem 5.2, (5.1)",
        "the mixture beside a feature is of order k/d: (d/k) β/α over large neurons after clean training from a random start",
        lambda rows: _random(rows, "kappa_large"),
        between(0.5, 2.0),
        premises=_from("random", *LEARNED),
    ),
    Claim(
        "mean",
        "Theorem 5.2",
        "over all neurons too: mean β ÷ (k/d) after clean training from a random start",
        lambda rows: _random(rows, "mean_over_theory"),
        between(0.5, 2.0),
        note="neurons that never fire have none",
        premises=_from("random", *LEARNED),
    ),
    Claim(
        "largest",
        "Theorem 5.2",
        f"beside the {FEW} largest of a neuron no coefficient exceeds k/d^(1-c): max |β_ij| ÷ that, from a random start",
        lambda rows: _random(rows, "largest_beta"),
        at_most(1.0),
        premises=_from("random", *LEARNED),
    ),
)


def measure_9(s: Setting, seed: int, context: Context) -> list[Row]:
    """Pure against dense features along four paths."""
    on, adversary, pure = bench(s, seed), fast_gradient(s), pure_start(s, seed)
    clean, lottery_steps = clean_phase(s), round(LOTTERY_SHARE * s.steps)
    ramp = [
        replace(clean, steps=lottery_steps),
        replace(clean, steps=s.steps - lottery_steps, perturb=adversary, ramp=(0.0, 1.0)),
        later_phase(s, adversary),
    ]
    nets = {
        "clean": trained(s, seed, "clean"),
        "clean, then adversarial": trained(s, seed, "adversarial"),
        AFTER_LOTTERY: train(s, start(s, seed), ramp, seed, "ramp").last,
        "pure start": pure,
        "pure start, clean": trained(s, seed, "pure clean"),
        "pure start, clean, adversarial": trained(s, seed, "pure adversarial"),
    }
    context.progress(0.6)
    nonzero = _mean_nonzero(on.test)
    rows: list[Row] = []
    for stage, net in nets.items():
        kappa = probes.mixture(net.W.detach(), on.problem).mean_beta * s.dim / nonzero
        rows.append({**network_row(stage, net, on, s, seed), "kappa": kappa})
    return rows + premise_rows(s, on.problem, on.test)


_claim_9 = partial(stage_claim, source="Section 6.2, Figure 9")


CLAIMS_9 = (
    Claim(
        "pure-start",
        "Section 6.2, Figure 9",
        "pure features stand the universal direction: accuracy at τ ÷ without attack",
        lambda rows: at_stage("pure start", "universal")(rows) / at_stage("pure start", "clean")(rows),
        at_least(0.9),
    ),
    _claim_9("pure-start-after", "universal_far", "pure start, clean", at_most(SMALL), MIXED),
    _claim_9("pure-start-mixture", "kappa", "pure start, clean", between(0.3, 2.0), LEARNED),
    _claim_9("pure-start-purified", "kappa", "pure start, clean, adversarial", at_most(0.3), PURIFIED),
    stage_claim(
        "after-lottery",
        "kappa",
        AFTER_LOTTERY,
        at_most(0.3),
        PURIFIED,
        source="finding",
        origin="featureprism",
        note="adversarial training from the first step kills all neurons: gradient-masking.from-scratch",
    ),
)


def _dense_settings(base: Setting) -> list[Dense]:
    pure = extended(base, Dense, family="pure start")
    smaller = [replace(pure, dim=base.dim // 2), replace(pure, sparsity=base.sparsity / 2)]
    return [replace(pure, family="random start"), *smaller, pure]


DENSE_MIXTURE = Experiment(
    id="feature-purification/dense-mixture",
    source="Allen-Zhu & Li 2020, Theorem 5.2",
    title="Clean training adds a dense mixture to every feature",
    scales={scale: _dense_settings(base) for scale, base in SIZES.items()},
    measure=measure_dense,
    claims=CLAIMS_DENSE,
    family=FAMILY,
    about=(
        "Coefficients of the neurons outside their own feature along clean training, from a random start and from neurons that are pure"
        " features; and the pull of the loss on every neuron towards the dense direction Mw*."
    ),
)
FIGURE_9 = Experiment(
    id="feature-purification/figure-9",
    source="Allen-Zhu & Li 2020, Figure 9",
    title="Four paths: clean, adversarial after clean, adversarial after a clean lottery, clean from pure features",
    scales=scales(Setting),
    measure=measure_9,
    claims=CLAIMS_9,
    family=FAMILY,
    about=(
        "Even a start of pure features becomes dense under clean training. The third path leaves clean training after 60 % of its steps"
        " and raises the radius of the adversary from 0; at full radius from the first step all neurons die (see gradient-masking)."
    ),
)
