"""Figure 1: the boundary that the network learns from flipped labels."""

from math import sqrt
from typing import Any

import numpy as np
import torch

from featureprism.data.xor import best_classifier
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between, requires
from featureprism.lab.context import Context
from featureprism.lab.experiment import SCALES
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_amplification import theory
from featureprism.papers.feature_amplification.lemmas import HIGH, near_centre
from featureprism.papers.feature_amplification.planar import planar_descent
from featureprism.papers.feature_amplification.setting import (
    NoisyXor,
    Problem,
    at_last_time,
    log_times,
    margins,
    problem,
    start,
    test_error,
)
from featureprism.probes.amplification import count_by_noise

POINTS, WIDTH, STEPS, ALPHA, NOISE = 5000, 500, 3000, 0.05, 0.15  # caption of Figure 1
WINDOW, GRID = 2.0, 61
SHOWN = 400  # points drawn


# d = 2, σ² = 1/(25d), ω² = 1/(16md)
# labels are flipped by coins, as in Section 2.1
PRINTED = NoisyXor(
    dim=2,
    points=POINTS,
    width=WIDTH,
    sigma=1 / sqrt(50),
    noise_rate=NOISE,
    start=1 / sqrt(32 * WIDTH),
    step_size=ALPHA,
    steps=STEPS,
    test_points=4000,
)


def grid_of(num: int) -> torch.Tensor:
    """The points of a grid over [-2, 2]²."""
    axis = torch.linspace(-WINDOW, WINDOW, num, dtype=torch.float64)
    return torch.cartesian_prod(axis, axis)


def agreement(net: TwoLayerNet, directions: torch.Tensor) -> float:
    """Share of a grid over [-2, 2]² (in the plane of μ1, μ2) where f and f* have one sign."""
    plane = grid_of(201) @ directions
    with torch.no_grad():
        return float((net(plane).sign() == best_classifier(directions, plane).sign()).double().mean())


def measure(s: NoisyXor, seed: int, context: Context) -> list[Row]:
    """Exceptions, error and agreement with f* along training; the boundary and some points at the end."""
    data = problem(s, seed)
    x, y = data.train.data.x, data.train.data.y
    run = planar_descent(
        start(s, seed), x, y, step_size=s.step_size, steps=s.steps, record=log_times(s.steps)
    )
    context.progress(0.9)
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        rows.append(
            {
                "kind": "time",
                "time": time,
                "exceptions": sum(count_by_noise(margins(net, data.train), data.train.flipped)),
                "excess_error": test_error(net, data.test) - float(data.test.flipped.double().mean()),
                "agreement": agreement(net, data.clusters.directions),
                "near_centre": near_centre(net.W.detach(), data.clusters.centres),
            }
        )
    for index in (len(run.times) // 3, len(run.times) - 1):
        rows += _boundary(run.snapshots[index], run.times[index], data.clusters.directions)
    low, high = theory.feasible_constants(s)
    constants = {"kind": "constants", "least": low, "largest": high}
    premises = [*theory.assumptions(s, low), theory.stopping_time(s)]
    return [*rows, *_points(data), constants, *(premise.as_row() for premise in premises)]


def _boundary(net: TwoLayerNet, time: float, directions: torch.Tensor) -> list[Row]:
    """The output of the network on a grid in the plane of μ1, μ2."""
    grid = grid_of(GRID)
    with torch.no_grad():
        values = net(grid @ directions)
    return [
        {"kind": "boundary", "time": time, "x1": x1, "x2": x2, "value": value}
        for (x1, x2), value in zip(grid.tolist(), values.tolist(), strict=True)
    ]


def _points(data: Problem) -> list[Row]:
    """Some training points in the plane of μ1, μ2, with their noisy labels."""
    plane = data.train.data.x[:SHOWN] @ data.clusters.directions.T
    labels, flipped = data.train.data.y.tolist(), data.train.flipped.tolist()
    return [
        {"kind": "point", "x1": x1, "x2": x2, "label": label, "flipped": flip}
        for (x1, x2), label, flip in zip(plane.tolist(), labels, flipped, strict=False)
    ]


def _constants_note(rows: Rows) -> str:
    constants = rows.of("constants")
    least, largest = (constants.column(name).mean() for name in ("least", "largest"))
    return f"(A7) asks for C ≥ {least:.0f}, the others for C ≤ {largest:.2g}: no C fits these parameters"


CLAIMS = (
    Claim(
        "exceptions",
        source="Figure 1",
        says="In the plane, with 15 % of the labels flipped, the trained network classifies every clean training point correctly and"
        " every flipped one incorrectly.",
        quantity="clean training points that are wrong plus flipped ones that are fitted, of 5000",
        bound=at_most(0.0),
        because="the figure shows no exception",
        value=at_last_time("exceptions"),
        aggregate="worst",
        reported=0.0,
    ),
    Claim(
        "boundary",
        source="Section 3, Figure 1",
        says="The decision boundary of the trained network is near the two diagonals between the clusters.",
        quantity="share of the square [-2, 2]² where the network agrees with the best classifier",
        formula=r"f^*(x) = |\langle\mu_1, x\rangle| - |\langle\mu_2, x\rangle|",
        bound=at_least(0.95),
        because="near is read as 95 % of the square",
        value=at_last_time("agreement"),
    ),
    Claim(
        "near-centres",
        source="Section 3, Figure 1",
        says="In the plane, nearly every neuron becomes highly correlated with one of the four cluster centres.",
        quantity=f"share of all neurons with a cosine of {HIGH:g} or more with a centre",
        bound=at_least(0.95),
        because=f"nearly every is read as 95 %, highly as a cosine of {HIGH:g}",
        value=at_last_time("near_centre"),
        note="of directions drawn at random in the plane a share of 0.57 has it",
    ),
    Claim(
        "test-error",
        source="Theorem 3.1, in the setting of Figure 1",
        says="In the plane, the test error under noisy labels is close to the noise rate.",
        quantity="test error minus the share of flipped test labels",
        bound=between(-0.01, 0.01),
        because="close is read as one percent",
        value=at_last_time("excess_error"),
        premises=requires("assumption", "theorem-3-1"),
        note=_constants_note,
    ),
)


def draw(rows: Rows) -> Any:
    """Boundary and points of the first seed at two times, and the agreement with f* along training."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels

    first = rows.having(seed=rows.seeds[0])
    times = sorted(first.of("boundary").distinct("time"))
    figure, axes = panels(len(times) + 1, width=3.3, height=3.1)
    for panel, time in zip(axes, times, strict=False):
        grid = first.of("boundary", time=time)
        x = sorted(grid.distinct("x1"))
        values = {(r["x1"], r["x2"]): r["value"] for r in grid}
        table = np.array([[values[a, b] for a in x] for b in x])
        panel.contourf(x, x, np.sign(table), levels=[-2, 0, 2], colors=["#f5c9b0", "#bcd9ec"])
        for label, marker in ((1.0, "+"), (-1.0, "_")):
            for flipped in (False, True):
                points = first.of("point", label=label, flipped=flipped)
                colour = "black" if flipped else COLOURS[0 if label > 0 else 1]
                panel.scatter(
                    points.column("x1"),
                    points.column("x2"),
                    marker=marker,
                    s=14,
                    linewidths=0.8,
                    color=colour,
                )
        panel.set(xlim=(-2, 2), ylim=(-2, 2), title=f"t = {time:g} (black: flipped labels)", aspect="equal")
    band(axes[-1], *over_seeds(rows.of("time"), "time", "agreement"), COLOURS[0], None)
    axes[-1].set(xscale="log", xlabel="steps", ylabel="agreement with f*", ylim=(0.4, 1.02))
    return figure


FIGURE_1 = Experiment(
    id="feature-amplification/figure-1",
    source="Frei et al. 2023, Figure 1",
    title="Every clean point right, every flipped point wrong",
    scales={scale: [PRINTED] for scale in SCALES},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "XOR clusters in the plane with 15 % of the labels flipped. The network ignores the flipped labels; its boundary follows the"
        " diagonals. The parameters of the figure satisfy the paper's assumptions for no value of their constant C, and its 3000 steps"
        " are 500 times those of the theorem."
    ),
)
