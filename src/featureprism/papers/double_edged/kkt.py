"""Theorem 2.1: gradient flow goes to a KKT point of the max-margin problem."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from featureprism._progress import part
from featureprism.attacks import flipping_norm
from featureprism.data.dataset import Dataset
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, below, rate, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    FLOW_STEP,
    Problem,
    TrainingSetting,
    critical_norm,
    direction,
    problem,
    start_of,
)
from featureprism.training import flow_limit, margin_descent
from featureprism.training.margins import log_loss, margin_ascent
from featureprism.training.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOSSES = ("exponential", "logistic")
TIMES = (100, 200, 400, 800, 1600)  # steps


@dataclass(frozen=True, kw_only=True)
class FlowSetting(TrainingSetting):
    """So many random starts of the flow."""

    starts: int = 1


def few_points(setting: FlowSetting, per_cluster: int = 10) -> FlowSetting:
    """The same with fewer points than Theorem 3.1 asks for, which Theorem 2.1 does not."""
    return replace(setting, points=per_cluster * setting.clusters)


def measure(s: FlowSetting, seed: int, context: Context) -> list[Row]:
    """Gradient flow under both losses beside its limit, the KKT point of its activation pattern; and a maximiser of the margin."""
    data = problem(s, seed)
    runs = [(start, loss) for start in range(s.starts) for loss in LOSSES]
    rows: list[Row] = []
    largest = 0.0
    for index, (start, loss) in enumerate(runs):
        progress = part(context.progress, 0.8 * index / len(runs), 0.8 * (index + 1) / len(runs))
        run = margin_descent(
            start_of(s, data.train, seed + 1000 * start),
            data.train.x,
            data.train.y,
            loss=loss,
            step_size=FLOW_STEP,
            steps=TIMES[-1],
            record=TIMES,
            progress=progress,
        )
        label = {"start_number": start, "loss": loss}
        rows += [label | row for row in _followed(run, loss, data)]
        rows += [p.as_row() for p in theory.theorem_2_1(-rows[-2]["clock"], s.points, loss)]
        if index == 0:
            climbed = margin_ascent(run.last, data.train.x, data.train.y, iterations=s.iterations)
            largest = margin_of(climbed, data.train)
    context.progress(1.0)
    for row in rows:
        if row["kind"] == "limit":
            row["maximiser_margin"], row["margin_share"] = largest, row["margin"] / largest
    return rows


def _followed(run: Trajectory[TwoLayerNet], loss: str, data: Problem) -> list[Row]:
    """The flow at its times, and its limit as the pattern has it at the end and at half of ln(1/L)."""
    train, test, u = data.train, data.test, direction(data)
    limit, earlier = (flow_limit(net, train.x, train.y).net for net in (run.last, run.snapshots[-2]))
    best = margin_of(limit, train)
    states = [
        {"kind": "flow", "time": int(time), **_state(net, loss, train, best)}
        for time, net in zip(run.times, run.snapshots, strict=True)
    ]
    norms = [flipping_norm(net, test.x, test.y, u) / critical_norm(data) for net in (limit, run.last)]
    end = {"margin": best, "flow_margin": states[-1].get("margin"), "neurons": len(limit.a)}
    change, gap = abs(margin_of(earlier, train) / best - 1), states[-1].get("gap")
    end |= {"early_share": change / gap if gap else None, "norm": norms[0], "flow_norm": norms[1]}
    return [*states, {"kind": "limit", **end}]


@torch.no_grad()
def margin_of(net: TwoLayerNet, data: Dataset) -> float:
    """Least y N(x)/‖θ‖²."""
    return float((data.y * net(data.x)).min()) / sum(float((p**2).sum()) for p in net.parameters())


@torch.no_grad()
def _state(net: TwoLayerNet, loss: str, data: Dataset, best: float) -> Row:
    """ln(1/L), and how far the flow is from its limit: 1 - margin ÷ that of the limit."""
    margins = data.y * net(data.x)
    row: Row = {"clock": -float(log_loss(margins, loss)), "least_margin": float(margins.min())}
    if not row["least_margin"] > 0:
        return row
    margin = margin_of(net, data)
    return row | {"margin": margin, "gap": 1 - margin / best}


def _runs(flow: Rows) -> list[Rows]:
    return list(flow.groups("seed", "case", "dim", "clusters", "loss", "start_number").values())


def _least_progress(flows: Rows) -> Values:
    """The gap at the last time ÷ that at the first, the largest over settings, losses and starts."""
    return flows.per_seed(
        lambda flow: max(run.column("gap")[-1] / run.column("gap")[0] for run in _runs(flow))
    )


def _exponents(rows: Rows) -> str:
    words = [
        f"{CASE_NAMES[case]}: {max(rate(run, x='clock', y='gap').exponents.max() for run in _runs(part)):.2f}"
        for case, part in rows.of("flow").groups("case").items()
    ]
    clock = rows.of("flow", time=TIMES[-1]).column("clock").min()
    return f"exponents up to ln(1/L) = {clock:.0f}: {', '.join(words)}"


CLAIMS = (
    Claim(
        "approach",
        source="Theorem 2.1",
        says="Gradient flow on the exponential or the logistic loss converges in direction to a KKT point of the max-margin problem.",
        quantity="1 - normalised margin of the flow ÷ that of the KKT point of its activation pattern: at the end ÷ at a sixteenth of"
        " the steps, largest over settings, losses and starts",
        formula=r"\theta(t)/\lVert\theta(t)\rVert \to \tilde\theta/\lVert\tilde\theta\rVert",
        bound=below(1.0),
        because="what converges to 0 becomes smaller; the theorem gives no rate",
        value=lambda rows: _least_progress(rows.of("flow")),
        note=_exponents,
        premises=requires("theorem-2-1"),
    ),
    Claim(
        "early",
        source="beyond Theorem 2.1",
        says="The activation pattern of gradient flow rests long before its weights do, so that the KKT point at its end is known"
        " early.",
        quantity="|margin of the KKT point of the flow's pattern at half of ln(1/L) ÷ that at the end - 1| ÷ the gap of the flow itself"
        " at the end, largest",
        bound=at_most(0.1),
        because="known early means ten times closer than the flow has come",
        value=lambda rows: rows.of("limit").largest("early_share"),
        origin="featureprism",
        premises=requires("theorem-2-1"),
    ),
    Claim(
        "the-maximiser",
        source="beyond Theorem 2.1",
        says="With orthogonal means gradient flow ends at a network of the largest margin.",
        quantity="normalised margin of the limit of the flow ÷ that of a network trained to maximise it, orthogonal means, least",
        bound=at_least(0.99),
        because="there a positive bias opens every neuron to all clusters of its class",
        value=lambda rows: (
            rows.of("limit").where(lambda row: row["case"] in ("usual", "within")).least("margin_share")
        ),
        origin="featureprism",
        premises=requires("theorem-2-1"),
    ),
)


def draw(rows: Rows) -> "Figure":
    """The distance of the flow from its limit against ln(1/L), and the margins of flow, limit and maximiser."""
    from featureprism.lab.style import COLOURS, panels, plain_ticks

    figure, (left, right) = panels(2, width=4.0, height=3.0)
    for place, (case, flow) in enumerate(rows.of("flow", loss=LOSSES[0]).groups("case").items()):
        for index, run in enumerate(flow.groups("seed", "start_number").values()):
            name = CASE_NAMES[case] if index == 0 else None
            left.plot(
                run.column("clock"), run.column("gap"), "o-", color=COLOURS[place], alpha=0.7, label=name
            )
        limits = rows.of("limit", case=case, loss=LOSSES[0])
        largest = limits.column("maximiser_margin")
        last, limit = limits.column("flow_margin") / largest, limits.column("margin") / largest
        right.plot([place] * len(last), last, "o", color=COLOURS[0], label=None if place else "flow")
        right.plot([place] * len(limit), limit, "D", color=COLOURS[1], label=None if place else "its limit")
    left.set(xscale="log", yscale="log", xlabel="ln(1/L)", ylabel="1 - margin ÷ margin of the limit")
    plain_ticks(left, (50, 100, 200, 500, 1000))
    cases = rows.of("flow").distinct("case")
    names = [
        CASE_NAMES[case].replace(" means", "\nmeans").replace(" on the", "\non the").replace(", ", "\n")
        for case in cases
    ]
    right.set_xticks(range(len(cases)), names, fontsize=7)
    right.set(ylabel="margin ÷ that of the maximiser")
    left.legend()
    right.legend()
    return figure


KKT = Experiment(
    id="double-edged/kkt",
    source="Frei et al. 2023, Theorem 2.1",
    title="Does gradient flow come to a KKT point of the max-margin problem?",
    scales={
        "quick": [
            few_points(FlowSetting.usual(iterations=50)),
            few_points(FlowSetting.within(iterations=50)),
            few_points(FlowSetting.obtuse(iterations=50, starts=4)),
        ],
        "standard": [
            FlowSetting.usual(),
            FlowSetting.on_sphere(),
            FlowSetting.within(),
            FlowSetting.within(3000, 8),
            few_points(FlowSetting.obtuse(starts=4)),
        ],
        "paper": [
            FlowSetting.usual(3072, 10, width=100),
            FlowSetting.within(6000, 16),
            few_points(FlowSetting.obtuse(width=100, starts=4)),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Gradient flow with ln(1/L) as its clock, under both losses, beside the KKT point of the activation pattern that it has"
        " reached,"
        " which a convex problem gives to rounding; and beside a maximiser of the margin (L-BFGS from the flow's network)."
    ),
    draw=draw,
)
