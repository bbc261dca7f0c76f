"""Theorem 2.1: gradient flow goes to a KKT point of the max-margin problem."""

from typing import TYPE_CHECKING

import torch

from featureprism.context import Context, part
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most, requires
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.setting import EXACT_KINK, KINK, TrainingSetting, problem, start_of
from featureprism.probes import KKTAudit, direction_cosines, kkt_audit
from featureprism.records import Dataset, Row
from featureprism.training import log_loss, margin_ascent, margin_descent, max_margin_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATHS = {  # name: loss, method, step size
    "flow, exponential": ("exponential", "flow", 2.0),
    "flow, logistic": ("logistic", "flow", 2.0),
    "normalised": ("exponential", "normalised", 0.1),
}
TIMES = (100, 400)


def measure(s: TrainingSetting, seed: int, context: Context) -> list[Row]:
    """The solver's point and its audit, then every way of training, seen at a few times, and L-BFGS after the last."""
    train = problem(s, seed).train
    x, y = train.x, train.y
    solution = max_margin_network(x, y)
    multipliers = (solution.alone, solution.against)
    exact = kkt_audit(solution.net, x, y, tolerance=EXACT_KINK, multipliers=multipliers)
    rows: list[Row] = [
        {
            "kind": "solution",
            **exact.as_row(),
            "fitted_stationarity": kkt_audit(solution.net, x, y, tolerance=EXACT_KINK).stationarity,
            "hard_stationarity": kkt_audit(solution.net, x, y, tolerance=0.0).stationarity,
        }
    ]
    net = solution.net
    for index, (path, (loss, method, step_size)) in enumerate(PATHS.items()):
        run = margin_descent(
            start_of(s, seed),
            x,
            y,
            loss=loss,
            method=method,
            step_size=step_size,
            steps=TIMES[-1],
            record=TIMES,
            progress=part(context.progress, index / (len(PATHS) + 1), (index + 1) / (len(PATHS) + 1)),
        )
        for time, net in zip(run.times, run.snapshots, strict=True):
            label = {"kind": "path", "path": path, "time": int(time)}
            rows.append(label | _state(net, loss, solution.net, exact, train))
        rows += [p.as_row() for p in theory.theorem_2_1(rows[-1]["log_loss"], len(y), loss)]
    last = part(context.progress, len(PATHS) / (len(PATHS) + 1), 1)
    climbed = margin_ascent(net, x, y, iterations=s.iterations, progress=last)
    label = {"kind": "path", "path": "then L-BFGS", "time": TIMES[-1]}
    return [*rows, label | _state(climbed, "exponential", solution.net, exact, train)]


def _state(net: TwoLayerNet, loss: str, best: TwoLayerNet, exact: KKTAudit, data: Dataset) -> Row:
    """The KKT conditions of one trained network and how close it is to the solver's point."""
    with torch.no_grad():
        margins = data.y * net(data.x)
    value, least = float(log_loss(margins, loss)), float(margins.min())
    below_threshold = theory.theorem_2_1(value, len(data.y), loss)[0].holds
    row: Row = {"log_loss": value, "below_threshold": below_threshold, "least_margin": least}
    if not least > 0:
        return row
    audit = kkt_audit(net, data.x, data.y, tolerance=KINK)
    return {
        **row,
        **audit.as_row(),
        "margin_share": audit.normalised_margin / exact.normalised_margin,
        "cosine": float(direction_cosines(net, best).min()),
    }


def _last_flows(rows: Rows) -> Rows:
    """Gradient flow under both losses at the last time."""
    return rows.of("path", time=TIMES[-1]).where(lambda row: row["path"].startswith("flow"))


def _last_cosine(rows: Rows) -> Values:
    """The least over ways of training and settings, of the networks that have all points on their side."""
    return rows.of("path", time=TIMES[-1]).where(lambda row: "cosine" in row).least("cosine")


def _how_far(rows: Rows) -> str:
    """In every case: the mean residual, and the least ln(1/L)."""
    flows = _last_flows(rows)
    residuals = [
        f"{case}: {group.column('stationarity').mean():.2g}" for case, group in flows.groups("case").items()
    ]
    clock = -flows.column("log_loss").max()
    return (
        f"at ln(1/L) = {clock:.0f}, {', '.join(residuals)}; it falls no faster than 1/√ln(1/L), and with small noise it may rise"
        " first"
    )


CLAIMS = (
    Claim(
        "approach",
        source="Theorem 2.1",
        says="Gradient flow on the exponential or the logistic loss converges in direction to a KKT point of the max-margin problem.",
        quantity=f"stationarity ‖θ - Σ λ_i y_i ∇N(x_i)‖/‖θ‖ after {TIMES[-1]} steps, largest over losses and settings",
        bound=at_most(0.1),
        because="a tenth of the norm of the weights; the theorem is about t → ∞ and gives no rate",
        value=lambda rows: _last_flows(rows).largest("stationarity"),
        note=_how_far,
        premises=requires("theorem-2-1"),
    ),
    Claim(
        "trained-residual",
        source="beyond Theorem 2.1",
        says="L-BFGS on the smoothed normalised margin comes closer to a KKT point than gradient flow does in any affordable time.",
        quantity=f"stationarity of the network after L-BFGS, derivatives free within {KINK:g} of a kink; largest over settings",
        bound=at_most(0.01),
        because="a hundredth of the norm of the weights, a tenth of what the flow is asked for",
        value=lambda rows: rows.of("path", path="then L-BFGS").largest("stationarity"),
        origin="featureprism",
        premises=requires("theorem-2-1"),
    ),
    Claim(
        "trained-cosine",
        source="beyond Theorem 2.1",
        says="With exactly or nearly orthogonal means trained networks turn towards the KKT point with one neuron for each class.",
        quantity="cosine between the summed neurons of the trained network and those of that KKT point, smallest over signs,"
        " methods and"
        " settings",
        bound=above(0.98),
        because="the theorem says 'a KKT point'; that it is this one is an observation",
        value=_last_cosine,
        origin="featureprism",
        premises=requires("theorem-2-1"),
    ),
)


def draw(rows: Rows) -> "Figure":
    """Stationarity along training for each method, and the margin it has reached, in the usual setting."""
    from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels, plain_ticks

    figure, (left, right) = panels(2, width=3.9, height=3.0)
    audited = rows.of("path", case="usual").where(lambda row: "stationarity" in row)
    for colour, (path, group) in zip(COLOURS, audited.groups("path").items(), strict=False):
        x, low, mean, high = over_seeds(group, "time", "stationarity")
        _, least, share, most = over_seeds(group, "time", "margin_share")
        if len(x) > 1:
            band(left, x, low, mean, high, colour, path)
            band(right, x, 1 - most, 1 - share, 1 - least, colour, path)
        else:
            left.plot(x, mean, "o", color=colour, label=path)
            right.plot(x, 1 - share, "o", color=colour, label=path)
    hard = rows.of("solution", case="usual").column("hard_stationarity")
    if len(hard):
        guide(left, hard.mean(), "exact point, derivatives 0 or 1", along="y")
    left.set(xscale="log", yscale="log", xlabel="steps", ylabel="stationarity residual ÷ ‖θ‖")
    right.set(xscale="log", yscale="log", xlabel="steps", ylabel="1 - margin ÷ largest margin")
    for panel in (left, right):
        plain_ticks(panel, sorted(audited.distinct("time")))
    left.legend()
    return figure


KKT = Experiment(
    id="double-edged/kkt",
    source="Frei et al. 2023, Theorem 2.1",
    title="Training goes to a KKT point of the max-margin problem",
    scales={
        "quick": [
            made(iterations=80)
            for made in (TrainingSetting.usual, TrainingSetting.on_sphere, TrainingSetting.within)
        ],
        "standard": [
            TrainingSetting.usual(),
            TrainingSetting.on_sphere(),
            TrainingSetting.within(),
            TrainingSetting.within(3000, 8),
            TrainingSetting.usual(3072, 10),
        ],
        "paper": [
            TrainingSetting.usual(width=100),
            TrainingSetting.on_sphere(width=100),
            TrainingSetting.within(6000, 16),
            TrainingSetting.usual(3072, 10, width=100),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "The convex problem gives a KKT point to rounding; networks trained by gradient flow (both losses, in the log domain) and by"
        " normalised descent are audited on the way, and L-BFGS on the smoothed normalised margin goes on from the last."
    ),
    draw=draw,
)
