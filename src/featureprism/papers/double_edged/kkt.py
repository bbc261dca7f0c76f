"""Where training goes: Theorem 2.1."""

import numpy as np
import torch

from featureprism.context import Context, part
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most, between, requires
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.setting import EXACT_KINK, KINK, Trained, ours, problem, start_of
from featureprism.probes import KKTAudit, direction_cosines, kkt_audit
from featureprism.records import Dataset, Row
from featureprism.theory import double_edged as theory
from featureprism.training import log_loss, margin_ascent, margin_descent, max_margin_network

PATHS = {  # name: loss, method, step size
    "flow, exponential": ("exponential", "flow", 2.0),
    "flow, logistic": ("logistic", "flow", 2.0),
    "normalised": ("exponential", "normalised", 0.1),
}
TIMES = (100, 400)
CONDITIONS = ("stationarity", "fitted_stationarity", "feasibility", "slackness")


def measure(s: Trained, seed: int, context: Context) -> list[Row]:
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


def _largest(rows: Rows, *names: str) -> Values:
    """The largest absolute value over settings and columns."""
    return rows.per_seed(lambda run: max(np.abs(run.column(name)).max() for name in names))


def _last_flows(rows: Rows) -> Rows:
    """Gradient flow under both losses at the last time."""
    return rows.of("path", time=TIMES[-1]).where(lambda row: row["path"].startswith("flow"))


def _last_cosine(rows: Rows) -> Values:
    """The least over ways of training and settings, of the networks that have all points on their side."""
    return rows.of("path", time=TIMES[-1]).where(lambda row: "cosine" in row).least("cosine")


def _how_far(rows: Rows) -> str:
    """In every case: the mean residual, and the least ln(1/L)."""
    flows = _last_flows(rows)
    told = [f"{case}: {own.column('stationarity').mean():.2g}" for case, own in flows.groups("case").items()]
    clock = -flows.column("log_loss").max()
    return f"at ln(1/L) = {clock:.0f}, {', '.join(told)}; it falls no faster than 1/√ln(1/L), and with small noise it may rise first"


CLAIMS = (
    Claim(
        "approach",
        "Theorem 2.1",
        f"gradient flow goes to a KKT point: stationarity after {TIMES[-1]} steps, largest over losses and settings",
        lambda rows: _last_flows(rows).largest("stationarity"),
        at_most(0.1),
        note=_how_far,
        premises=requires("theorem-2-1"),
    ),
    ours(
        "trained-residual",
        "beyond Theorem 2.1",
        f"stationarity of the network after L-BFGS, derivatives free within {KINK:g} of a kink; largest over settings",
        lambda rows: _largest(rows.of("path", path="then L-BFGS"), "stationarity"),
        at_most(0.01),
        premises=requires("theorem-2-1"),
    ),
    ours(
        "trained-cosine",
        "beyond Theorem 2.1",
        "cosine between the trained network's summed neurons and the solver's, smallest over signs, methods and settings",
        _last_cosine,
        above(0.98),
        note="the theorem says 'a KKT point'; that it is this one is an observation",
        premises=requires("theorem-2-1"),
    ),
    ours(
        "hard-residual",
        "beyond Theorem 2.1",
        "stationarity of the exact point itself in the usual setting when derivatives may only be 0 or 1",
        lambda rows: _largest(rows.of("solution", case="usual"), "hard_stationarity"),
        between(0.005, 0.2),
        note="no trained network can come below: some neurons sit on their kinks, where the derivative is a fraction",
    ),
    ours(
        "stationarity",
        "eqs. (2)-(7)",
        "the convex solver finds a KKT point to rounding: largest of ‖θ - Σ λ_i y_i ∇N(x_i)‖/‖θ‖ (with its multipliers and with those"
        " of the audit), |1 - least margin| and λ_i (y_i N(x_i) - 1)/Σλ, over settings",
        lambda rows: _largest(rows.of("solution"), *CONDITIONS),
        at_most(5e-12),
    ),
)

KKT = Experiment(
    id="double-edged/kkt",
    source="Frei et al. 2023, Theorem 2.1",
    title="Training goes to a KKT point of the max-margin problem",
    scales={
        "quick": [made(iterations=80) for made in (Trained.usual, Trained.on_sphere, Trained.within)],
        "standard": [
            Trained.usual(),
            Trained.on_sphere(),
            Trained.within(),
            Trained.within(3000, 8),
            Trained.usual(3072, 10),
        ],
        "paper": [
            Trained.usual(width=100),
            Trained.on_sphere(width=100),
            Trained.within(6000, 16),
            Trained.usual(3072, 10, width=100),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "The convex problem gives a KKT point to rounding; networks trained by gradient flow (both losses, in the log domain) and by"
        " normalised descent are audited on the way, and L-BFGS on the smoothed normalised margin goes on from the last."
    ),
)
