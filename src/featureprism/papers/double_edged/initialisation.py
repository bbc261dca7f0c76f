"""Theorem 4.2 holds for any start: gradient flow that starts at the robust network of Theorem 4.1, and when it stops being robust."""

from dataclasses import dataclass
from math import inf, log, nan, sqrt

import numpy as np
import torch

from featureprism.context import Context
from featureprism.lab import Claim, Experiment, Rows, at_most, between, requires
from featureprism.networks import TwoLayerNet, robust_margin_classifier
from featureprism.papers.double_edged.setting import (
    Problem,
    Setting,
    critical_norm,
    ours,
    premises_of,
    problem,
    separation,
)
from featureprism.records import Row
from featureprism.theory import double_edged as theory
from featureprism.training import log_loss, margin_descent
from featureprism.verify import margin_radius

PASSED = 1.1  # of ‖u‖/k: below this radius the network counts as broken
CLOCK = 1.0  # ln(1/L) a step; the slowest clusters return to the others at rate 1 in this clock, so an Euler step of 1 is stable
EARLY = (0, 4)  # steps; after about 6 units of ln(1/L) the paper's own network is at its most robust
CELLS = 4


@dataclass(frozen=True, kw_only=True)
class Started(Setting):
    """The start is `scale` times the network of Theorem 4.1; the flow is seen at these shares of the law's passage, and at EARLY."""

    scale: float
    shares: tuple[float, ...]
    radius_points: int = 3

    @classmethod
    def still(cls, dim: int, clusters: int, scale: float) -> "Started":
        """σ = 0.01/√d, close to the limit of no noise."""
        shares = (0.2, 0.85, 1.0, 1.2)
        return cls.of(dim, clusters, sigma=0.01 / sqrt(dim), case="still", scale=scale, shares=shares)

    @classmethod
    def noisy(cls, dim: int, clusters: int, scale: float) -> "Started":
        """σ = 1/√d, as in Example 1 (b)."""
        shares = (0.2, 0.6, 1.0, 1.6, 3.0)
        sigma = 1 / sqrt(dim)
        return cls.of(dim, clusters, sigma=sigma, case="noisy", scale=scale, shares=shares, radius_points=8)


def measure(s: Started, seed: int, context: Context) -> list[Row]:
    """ln(1/L) and bracketed radii of test points along the flow, and where the median radius passes 1.1 ‖u‖/k."""
    data = problem(s, seed)
    law = theory.robust_start_passage(s.dim, s.clusters, s.scale, PASSED) * theory.noisy_passage_share(s)
    times = sorted({*EARLY, *(round(share * law / CLOCK) for share in s.shares)})
    run = margin_descent(
        _start(s, data),
        data.train.x,
        data.train.y,
        step_size=CLOCK,
        steps=times[-1],
        record=times,
        progress=lambda share: context.progress(share / 2),
    )
    rows: list[Row] = []
    for step, net in zip(run.times, run.snapshots, strict=True):
        rows.append({"kind": "flow", "step": int(step), **_state(s, net, data)})
        context.progress(0.5 + 0.5 * len(rows) / len(times))
    clock = passage([row["clock"] for row in rows], [row["over_critical"] for row in rows], PASSED)
    passed: Row = {"kind": "passage", "clock": clock, "law": law, "over_law": clock / law}
    apart = separation(s, data)
    on_sample = theory.assumption_2_2(theory.on_sample(apart, data.train, data.test))
    flow = theory.theorem_2_1(-rows[-1]["clock"], len(data.train.y), "exponential")
    return [*rows, passed, *premises_of(s, apart), *(p.as_row() for p in (*on_sample, *flow))]


def _start(s: Started, data: Problem) -> TwoLayerNet:
    net = robust_margin_classifier(data.clusters.mu, data.clusters.labels)
    return TwoLayerNet(*(s.scale * part.detach() for part in net.parameters()), activation=net.activation)


@torch.no_grad()
def _state(s: Started, net: TwoLayerNet, data: Problem) -> Row:
    x, y = data.test.x[: s.radius_points], data.test.y[: s.radius_points]
    bracket = margin_radius(net, x, y, gap=0.02, seconds_per_point=inf, max_cells=CELLS)
    attacked, certified = float(bracket.attacked.median()), float(bracket.certified.median())
    return {
        "clock": -float(log_loss(data.train.y * net(data.train.x), "exponential")),
        "bias": float(net.b.mean()) / s.scale if net.b is not None else None,
        "radius": attacked / sqrt(s.dim),
        "certified": certified / sqrt(s.dim),
        "over_critical": attacked / critical_norm(data),
    }


def passage(clock: list[float], radius: list[float], level: float) -> float:
    """The first clock at which the radius falls to the level, from ln clock to ln clock on straight lines; NaN if it never does."""
    for i in range(1, len(radius)):
        if radius[i] <= level < radius[i - 1]:
            share = (radius[i - 1] - level) / (radius[i - 1] - radius[i])
            return float(np.exp((1 - share) * log(clock[i - 1]) + share * log(clock[i])))
    return nan


def _when(rows: Rows) -> str:
    parts = rows.of("passage", case="still").groups("dim", "scale")
    said = [
        f"{own.column('clock').mean():.0f} (d = {dim}, {scale:g} times the network; law {own[0]['law']:.0f})"
        for (dim, scale), own in parts.items()
    ]
    return "ln(1/L) at the passage: " + ", ".join(said)


def _last(rows: Rows) -> Rows:
    """The last row of the flow of every setting and seed."""
    ends = {tuple(key): own.rows[-1] for key, own in rows.of("flow").groups("seed", "case", "dim").items()}
    return Rows(tuple(ends.values()), rows.seeds)


def _ends(rows: Rows) -> str:
    """Where the radius is at the last time, size by size, and what it is held against."""
    parts = _last(rows.having(case="noisy")).groups("dim")
    told = ", ".join(f"{own.column('over_critical').mean():.2f} at d = {dim}" for dim, own in parts.items())
    return f"{told}; the order √(d/(c²k)) read with a constant of {PASSED / 2}; the start has √k/2 of ‖u‖/k, {sqrt(8) / 2:.2f} at k = 8"


def _passed(rows: Rows) -> str:
    """How many seeds pass at each size, for those that do not the claim cannot be measured."""
    parts = rows.of("passage", case="noisy").groups("dim")
    told = [
        f"{int(np.isfinite(own.column('clock')).sum())} of {len(own)} seeds at d = {dim}"
        for dim, own in parts.items()
    ]
    return f"it passes by three times its law in {', '.join(told)}"


CLAIMS = (
    Claim(
        "robust-end",
        "Theorems 2.1, 4.2",
        "even from the network of Theorem 4.1 the flow ends at a fragile one: median attacked radius ÷ (‖u‖/k) at the last time,"
        " σ = 1/√d",
        lambda rows: _last(rows.having(case="noisy")).largest("over_critical"),
        at_most(PASSED),
        note=_ends,
        premises=requires("assumption-2-2", "on-sample", "theorem-3-1", "theorem-2-1", case="noisy"),
    ),
    ours(
        "robust-start",
        "Theorems 2.1, 4.2, sharp",
        f"ln(1/L) at which the radius passes {PASSED} ‖u‖/k, ÷ its law of small noise (about 6 d^(3/2) scale² at k = 8), farthest",
        lambda rows: rows.of("passage", case="still").farthest("over_law", 1.0),
        between(0.93, 1.07),
        note=_when,
        premises=requires("on-sample", "theorem-2-1", case="still"),
    ),
    ours(
        "robust-start-noise",
        "Theorems 2.1, 4.2, sharp",
        "the same with σ = 1/√d, ÷ its law: noise opens the neurons to other clusters, and the radius passes nine times earlier",
        lambda rows: rows.of("passage", case="noisy").farthest("over_law", 1.0),
        between(0.8, 1.25),
        note=_passed,
        premises=requires("on-sample", "theorem-2-1", case="noisy"),
    ),
    ours(
        "robust-rise",
        "beyond Theorem 4.1",
        "before it falls the radius rises from ½ √d: largest certified median radius on the way ÷ √d (the law says √½)",
        lambda rows: rows.of("flow", case="still").largest("certified"),
        between(0.65, 0.7072),
        note="robustness has a best time to stop, long before any sign in the loss",
    ),
)

INITIALISATION = Experiment(
    id="double-edged/initialisation",
    source="Frei et al. 2023, Theorems 2.1 and 4.2",
    title="Gradient flow that starts at a robust network",
    scales={
        "quick": [Started.still(64, 8, 1.0), Started.still(1000, 8, 0.1), Started.noisy(1000, 8, 0.1)],
        "standard": [
            Started.still(100, 8, 1.0),
            Started.still(1000, 8, 0.1),
            Started.still(1000, 12, 0.1),
            Started.noisy(100, 8, 1.0),
            Started.noisy(1000, 8, 0.1),
        ],
        "paper": [Started.still(400, 8, 1.0), Started.noisy(400, 8, 1.0), Started.noisy(3000, 8, 0.1)],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Theorem 4.1's network, times a scale, trained by gradient flow with ln(1/L) as its clock; bracketed radii of test points along"
        " the way."
    ),
)
