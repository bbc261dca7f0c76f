"""What Theorem 3.1 leads to: how robust the amplified features are, and whether long training memorises the noise."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from featureprism.context import Context, part
from featureprism.lab import (
    Bound,
    Claim,
    Experiment,
    Rows,
    Values,
    above,
    at_least,
    at_most,
    below,
    between,
)
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification.figure import times_of
from featureprism.papers.feature_amplification.setting import (
    C,
    Setting,
    clean_error,
    margins,
    problem,
    trained,
)
from featureprism.probes import self_test
from featureprism.probes.amplification import count_by_noise
from featureprism.verify import Budget, robust_radius

BEST = 1 / sqrt(2)  # the distance of a centre from the boundary of f*
EARLY = (4, 100)  # steps: after the start has been forgotten, long before anything is memorised
BEYOND = "beyond the paper"
NOISE = 0.1  # share of flipped labels


@dataclass(frozen=True, kw_only=True)
class Bracketed(Setting):
    """How many test points get a bracket of their radius, and the cells that each may cost."""

    radius_points: int
    max_cells: int


def measure_robustness(s: Bracketed, seed: int, context: Context) -> list[Row]:
    """Bracketed radii of clean test points after T = 1 + 1/(4α) steps and after long training."""
    data = problem(s, seed)
    run = trained(s, data.train, seed, (s.theorem_steps, s.steps), part(context.progress, 0, 0.4))
    x, y = data.test.data.x[: s.radius_points], data.test.clean[: s.radius_points]
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        share = part(context.progress, 0.4 + 0.3 * len(rows), 0.7 + 0.3 * len(rows))
        bracket = robust_radius(
            net, x, y, gap=0.02, budget=Budget(branches=s.max_cells), max_radius=3.0, progress=share
        )
        rows.append(
            {
                "kind": "radius",
                "time": time,
                "stage": "theorem" if time == s.theorem_steps else "long",
                "half_radius": bracket.half_radius[1],
                "certified_half_radius": bracket.half_radius[0],
                "clean_error": clean_error(net, data.test),
                "zero_gradient_share": bracket.zero_gradient_share,
                "blind_share": bracket.blind_share,
                "self_test_passed": self_test().passed,
            }
        )
    return rows


def _radius(rows: Rows, stage: str, name: str = "half_radius") -> Values:
    return rows.of("radius", stage=stage).per_seed(name)


def _ours(name: str, statement: str, value: Callable[[Rows], Values], bound: Bound) -> Claim:
    return Claim(name, BEYOND, statement, value, bound, origin="featureprism")


CLAIMS_ROBUSTNESS = (
    _ours(
        "amplified",
        "amplified features: 50 % radius ÷ 1/√2, the distance of a centre from the boundary of f*; attacked end",
        lambda rows: _radius(rows, "theorem") / BEST,
        between(0.5, 1.05),
    ),
    _ours(
        "proven",
        "the same, proven end",
        lambda rows: _radius(rows, "theorem", "certified_half_radius") / BEST,
        between(0.4, 1.05),
    ),
    _ours(
        "long",
        "long training does not change it much: 50 % radius ÷ that after the theorem's steps",
        lambda rows: _radius(rows, "long") / _radius(rows, "theorem"),
        between(0.5, 1.5),
    ),
)


def measure_memorisation(s: Setting, seed: int, context: Context) -> list[Row]:
    """Clean points lost and flipped points fitted along a long run."""
    data = problem(s, seed)
    run = trained(s, data.train, seed, times_of(s.steps), part(context.progress, 0, 0.9))
    flips = max(1, int(data.train.flipped.sum()))
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        wrong, right = count_by_noise(margins(net, data.train), data.train.flipped)
        rows.append(
            {
                "kind": "time",
                "time": time,
                "clean_wrong": wrong,
                "fitted_share": right / flips,
                "clean_error": clean_error(net, data.test),
            }
        )
    context.progress(1.0)
    return rows


def _at_end(field: str, *, most: bool) -> Callable[[Rows], Values]:
    """The value after the last step in the largest dimension, or in the smallest."""

    def value(run: Rows) -> float:
        dims = run.column("dim") if most else -run.column("dim")
        last = int(np.lexsort((run.column("time"), dims))[-1])
        return run.column(field)[last]

    return lambda rows: rows.of("time").per_seed(value)


def _early(rows: Rows) -> Values:
    early = rows.of("time").where(lambda row: EARLY[0] <= (row["time"] or 0) <= EARLY[1])
    return early.largest("fitted_share")


_SOON = f"from step {EARLY[0]} to {EARLY[1]} no flipped label is fitted: largest share"
_MANY = "the largest d, more directions than points: share of flipped labels that long training fits"
_BENIGN = "the largest d: and fresh points keep their clean label all the same (clean test error)"
_FEW = "the smallest d: only part of them can be fitted (share)"
_HARM = "the smallest d: and what is fitted costs clean test error"
CLAIMS_MEMORISATION = (
    _ours("early", _SOON, _early, at_most(0.0)),
    _ours("high-dimension", _MANY, _at_end("fitted_share", most=True), at_least(0.9)),
    _ours("benign", _BENIGN, _at_end("clean_error", most=True), at_most(0.02)),
    _ours("low-dimension", _FEW, _at_end("fitted_share", most=False), below(0.7)),
    _ours("harmful", _HARM, _at_end("clean_error", most=False), above(0.02)),
)


def _wide(dims: tuple[int, ...], points: int, steps: int) -> list[Setting]:
    """Noise of norm 1, so that points have something of their own to be memorised by, and larger steps."""
    sizes = {"points": points, "width": 60, "steps": steps, "noise_rate": NOISE, "step_size": 1.0}
    return [Setting.on_edge(C, dim=dim, sigma=1 / sqrt(dim), **sizes) for dim in dims]


BRACKETED = {
    "quick": {"dim": 50, "points": 800, "width": 40, "steps": 1000, "radius_points": 20, "max_cells": 20},
    "standard": {
        "dim": 200,
        "points": 1000,
        "width": 80,
        "steps": 2000,
        "radius_points": 60,
        "max_cells": 60,
    },
    "paper": {
        "dim": 200,
        "points": 2000,
        "width": 100,
        "steps": 3000,
        "radius_points": 120,
        "max_cells": 120,
    },
}
ROBUSTNESS = Experiment(
    id="feature-amplification/robustness",
    source=BEYOND,
    title="How robust amplified features are",
    scales={scale: [Bracketed.on_edge(C, noise_rate=NOISE, **sizes)] for scale, sizes in BRACKETED.items()},
    measure=measure_robustness,
    claims=CLAIMS_ROBUSTNESS,
    about="Radii of test points under their clean labels, bracketed: after the steps of Theorem 3.1 and after long training.",
)
MEMORISATION = Experiment(
    id="feature-amplification/memorisation",
    source=BEYOND,
    title="Does long training fit the flipped labels?",
    scales={
        "quick": _wide((20, 600), 150, 3000),
        "standard": _wide((20, 200, 1200), 300, 8000),
        "paper": _wide((20, 200, 1600), 400, 15000),
    },
    measure=measure_memorisation,
    claims=CLAIMS_MEMORISATION,
    about="The paper leaves open what happens after T = 1 + 1/(4α) steps. Flipped labels are ignored for long, then"
    " fitted: harmlessly where there are more directions than points, at a cost where there are few.",
)
