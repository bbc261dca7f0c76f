"""Theorem 4.2 holds for any start: gradient flow that starts at the robust network of Theorem 4.1, and when it stops being robust."""

from dataclasses import dataclass
from math import log, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet, robust_margin_classifier
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.setting import (
    MixtureSetting,
    Problem,
    critical_norm,
    premises_of,
    problem,
    separation,
)
from featureprism.training import flow_limit, margin_descent
from featureprism.training.margins import log_loss
from featureprism.verify import Budget, robust_radius

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PASSED = 1.1  # of ‖u‖/k: below this radius the network counts as broken
CLOCK = 1.0  # ln(1/L) a step; the slowest clusters return to the others at rate 1 in this clock, so an Euler step of 1 is stable
EARLY = (0, 4)  # steps; after about 6 units of ln(1/L) the paper's own network is at its most robust
CELLS = 4


@dataclass(frozen=True, kw_only=True)
class RobustStartSetting(MixtureSetting):
    """The start is `scale` times the network of Theorem 4.1; the flow is seen at these shares of the law's passage, and at EARLY."""

    scale: float
    shares: tuple[float, ...]
    radius_points: int = 3

    @classmethod
    def still(cls, dim: int, clusters: int, scale: float) -> "RobustStartSetting":
        """σ = 0.01/√d, close to the limit of no noise."""
        shares = (0.2, 0.85, 1.0, 1.2)
        return cls.of(dim, clusters, sigma=0.01 / sqrt(dim), case="still", scale=scale, shares=shares)

    @classmethod
    def noisy(cls, dim: int, clusters: int, scale: float) -> "RobustStartSetting":
        """σ = 1/√d, as in Example 1 (b)."""
        shares = (0.2, 0.6, 1.0, 1.6, 3.0)
        sigma = 1 / sqrt(dim)
        return cls.of(dim, clusters, sigma=sigma, case="noisy", scale=scale, shares=shares, radius_points=8)


def measure(s: RobustStartSetting, seed: int, context: Context) -> list[Row]:
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
    rows.append({"kind": "limit", **_state(s, flow_limit(run.last, data.train.x, data.train.y).net, data)})
    apart = separation(s, data)
    on_sample = theory.assumption_2_2(theory.on_sample(apart, data.train, data.test))
    flow = theory.theorem_2_1(-rows[-2]["clock"], len(data.train.y), "exponential")
    return [*rows, passed, *premises_of(s, apart), *(p.as_row() for p in (*on_sample, *flow))]


def _start(s: RobustStartSetting, data: Problem) -> TwoLayerNet:
    net = robust_margin_classifier(data.clusters.mu, data.clusters.labels)
    return TwoLayerNet(*(s.scale * part.detach() for part in net.parameters()), activation=net.activation)


@torch.no_grad()
def _state(s: RobustStartSetting, net: TwoLayerNet, data: Problem) -> Row:
    x, y = data.test.x[: s.radius_points], data.test.y[: s.radius_points]
    bracket = robust_radius(net, x, y, gap=0.02, budget=Budget(branches=CELLS))
    attacked, certified = bracket.half_radius[1], bracket.half_radius[0]
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


def _passages(rows: Rows) -> str:
    groups = rows.of("passage", case="still").groups("dim", "scale")
    words = [
        f"{group.column('clock').mean():.0f} (d = {dim}, {scale:g} times the network; law {group[0]['law']:.0f})"
        for (dim, scale), group in groups.items()
    ]
    return "ln(1/L) at the passage: " + ", ".join(words)


def _ends(rows: Rows) -> str:
    """Where the radius is at the last time, size by size, and what it is held against."""
    groups = rows.of("flow", case="noisy").groups("dim", "seed").items()
    words = [
        f"{flow[len(flow) - 1]['over_critical']:.2f} at d = {dim}"
        for (dim, seed), flow in groups
        if seed == rows.seeds[0]
    ]
    return f"the flow itself is at {', '.join(words)} at its last time; the start has √k/2 of ‖u‖/k, {sqrt(8) / 2:.2f} at k = 8"


def _how_many_pass(rows: Rows) -> str:
    """How many seeds pass at each size; for the others the claim cannot be measured."""
    groups = rows.of("passage", case="noisy").groups("dim")
    words = [
        f"{int(np.isfinite(group.column('clock')).sum())} of {len(group)} seeds at d = {dim}"
        for dim, group in groups.items()
    ]
    return f"the radius passes by three times its law in {', '.join(words)}"


CLAIMS = (
    Claim(
        "robust-end",
        source="Theorems 2.1, 4.2",
        says="Gradient flow that starts at the robust network of Theorem 4.1 ends at a fragile network all the same.",
        quantity="median attacked radius ÷ (‖u‖/k) of the KKT point of the activation pattern that the flow has reached, σ ="
        " 1/√d, largest",
        bound=at_most(PASSED),
        because="the order √(d/(c²k)) is read with a constant of 0.55; the theorem is about t → ∞, so the limit is judged",
        value=lambda rows: rows.of("limit", case="noisy").largest("over_critical"),
        note=_ends,
        premises=requires("assumption-2-2", "on-sample", "theorem-3-1", "theorem-2-1", case="noisy"),
    ),
    Claim(
        "robust-start",
        source="Theorems 2.1, 4.2, sharp",
        says="Gradient flow from the network of Theorem 4.1 loses its robustness only when ln(1/L) has grown to the order of"
        " d^(3/2), as a"
        " law without free constants says.",
        quantity=f"|ln(1/L) at which the radius passes {PASSED} ‖u‖/k ÷ the law of small noise - 1|, largest over settings",
        bound=at_most(0.07),
        because="the law is exact as σ → 0; the passage is interpolated between few times",
        value=lambda rows: abs(rows.of("passage", case="still").farthest("over_law", 1.0) - 1),
        origin="featureprism",
        note=_passages,
        premises=requires("on-sample", "theorem-2-1", case="still"),
    ),
    Claim(
        "robust-start-noise",
        source="Theorems 2.1, 4.2, sharp",
        says="Noise of σ = 1/√d opens the neurons to other clusters, so that gradient flow from the network of Theorem 4.1 loses its"
        " robustness nine times earlier.",
        quantity=f"|ln(1/L) at which the radius passes {PASSED} ‖u‖/k ÷ the law with noise - 1|, largest over settings",
        bound=at_most(0.25),
        because="the law guesses that one point opens a neuron; it is meant to be right to a quarter",
        value=lambda rows: abs(rows.of("passage", case="noisy").farthest("over_law", 1.0) - 1),
        origin="featureprism",
        note=_how_many_pass,
        premises=requires("on-sample", "theorem-2-1", case="noisy"),
    ),
    Claim(
        "robust-rise",
        source="beyond Theorem 4.1",
        says="Before it falls, the radius of the network of Theorem 4.1 rises under gradient flow from √d/2 to nearly √(d/2), so"
        " robustness has a best time to stop.",
        quantity="largest certified median radius on the way ÷ √d",
        bound=at_least(0.65),
        because="√½ = 0.707 is half of the distance between two means over √d, the most that any classifier can have",
        value=lambda rows: rows.of("flow", case="still").largest("certified"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """The radius along the flow from a robust network, certified and attacked, against ln(1/L) over the law's passage."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=5.6, height=3.2)
    laws = {(row["case"], row["dim"], row["seed"]): row["law"] for row in rows.of("passage")}
    colours: dict[tuple, str] = {}
    for (case, dim, seed), flow in rows.of("flow").groups("case", "dim", "seed").items():
        colour = colours.setdefault((case, dim), COLOURS[len(colours) % len(COLOURS)])
        x, name = flow.column("clock") / laws[case, dim, seed], f"{case}, d = {dim}"
        axes.fill_between(x, flow.column("certified"), flow.column("radius"), color=colour, alpha=0.25)
        axes.plot(x, flow.column("radius"), color=colour, label=name if seed == rows.seeds[0] else None)
    guide(axes, 1.0, "law: passes 1.1 √(d/k)")
    guide(axes, 0.5, "√d/2, the start", along="y")
    axes.set(
        xscale="log", xlabel="ln(1/L) ÷ the law's passage", ylabel="median radius ÷ √d", ylim=(0.3, 0.75)
    )
    axes.legend()
    return figure


INITIALISATION = Experiment(
    id="double-edged/initialisation",
    source="Frei et al. 2023, Theorems 2.1 and 4.2",
    title="Gradient flow that starts at a robust network",
    scales={
        "quick": [
            RobustStartSetting.still(64, 8, 1.0),
            RobustStartSetting.still(1000, 8, 0.1),
            RobustStartSetting.noisy(1000, 8, 0.1),
        ],
        "standard": [
            RobustStartSetting.still(100, 8, 1.0),
            RobustStartSetting.still(1000, 8, 0.1),
            RobustStartSetting.still(1000, 12, 0.1),
            RobustStartSetting.noisy(100, 8, 1.0),
            RobustStartSetting.noisy(1000, 8, 0.1),
        ],
        "paper": [
            RobustStartSetting.still(400, 8, 1.0),
            RobustStartSetting.noisy(400, 8, 1.0),
            RobustStartSetting.noisy(3000, 8, 0.1),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Theorem 4.1's network, times a scale, trained by gradient flow with ln(1/L) as its clock; bracketed radii of test points along"
        " the way."
    ),
    draw=draw,
)
