"""Figure 1: the boundary that the network learns from flipped labels."""

from math import sqrt
from typing import Any

import torch

from featureprism.context import Context
from featureprism.data import best_classifier
from featureprism.lab import Bound, Claim, Experiment, Rows, Values, at_least, at_most, between, requires
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_amplification.lemmas import HIGHLY, near_centre
from featureprism.papers.feature_amplification.planar import planar_descent
from featureprism.papers.feature_amplification.setting import (
    Problem,
    Setting,
    margins,
    problem,
    start,
    test_error,
)
from featureprism.probes.amplification import count_by_noise
from featureprism.theory import feature_amplification as theory

POINTS, WIDTH, STEPS, ALPHA, NOISE = 5000, 500, 3000, 0.05, 0.15  # caption of Figure 1
WINDOW, GRID = 2.0, 61
SHOWN = 400  # points drawn


# d = 2, σ² = 1/(25d), ω² = 1/(16md)
# labels are flipped by coins, as in Section 2.1
PRINTED = Setting(
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


def times_of(steps: int) -> tuple[int, ...]:
    """About ten times from 1 to the end, evenly on a log scale."""
    return tuple(sorted({round(steps ** (i / 9)) for i in range(10)}))


def grid_of(num: int) -> torch.Tensor:
    """The points of a grid over [-2, 2]²."""
    axis = torch.linspace(-WINDOW, WINDOW, num, dtype=torch.float64)
    return torch.cartesian_prod(axis, axis)


def agreement(net: TwoLayerNet, directions: torch.Tensor) -> float:
    """Share of a grid over [-2, 2]² (in the plane of μ1, μ2) where f and f* have one sign."""
    plane = grid_of(201) @ directions
    with torch.no_grad():
        return float((net(plane).sign() == best_classifier(directions, plane).sign()).double().mean())


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """Counts, error and agreement with f* along training; the boundary and some points at the end."""
    data = problem(s, seed)
    x, y = data.train.data.x, data.train.data.y
    run = planar_descent(start(s, seed), x, y, step_size=s.step_size, steps=s.steps, record=times_of(s.steps))
    context.progress(0.9)
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        wrong, right = count_by_noise(margins(net, data.train), data.train.flipped)
        rows.append(
            {
                "kind": "time",
                "time": time,
                "clean_wrong": wrong,
                "noisy_right": right,
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
    """Some training points in the plane of μ1, μ2, with the labels one sees."""
    plane = data.train.data.x[:SHOWN] @ data.clusters.directions.T
    labels, flipped = data.train.data.y.tolist(), data.train.flipped.tolist()
    return [
        {"kind": "point", "x1": x1, "x2": x2, "label": label, "flipped": flip}
        for (x1, x2), label, flip in zip(plane.tolist(), labels, flipped, strict=False)
    ]


def _no_constant(rows: Rows) -> str:
    constants = rows.of("constants")
    least, largest = (constants.column(name).mean() for name in ("least", "largest"))
    return f"(A7) asks for C ≥ {least:.0f}, the others for C ≤ {largest:.2g}: no C fits these parameters"


def _at_end(
    name: str, statement: str, field: str, bound: Bound, source: str = "Figure 1", **other: Any
) -> Claim:
    def value(rows: Rows) -> Values:
        return rows.of("time").per_seed(lambda run: run.column(field)[-1])

    return Claim(name, source, statement, value, bound, **other)


_EVERY: dict[str, Any] = {"reported": 0.0, "aggregate": "worst"}
_RIGHT = "every clean training point is right: clean training points that are wrong"
_WRONG = "every flipped training point is wrong: flipped training points that are fitted"
CLAIMS = (
    _at_end("clean-wrong", _RIGHT, "clean_wrong", at_most(0.0), **_EVERY),
    _at_end("noisy-right", _WRONG, "noisy_right", at_most(0.0), **_EVERY),
    _at_end(
        "boundary",
        "the boundary is near the diagonals: agreement with |⟨μ1,x⟩| - |⟨μ2,x⟩| on [-2, 2]²",
        "agreement",
        at_least(0.95),
        "Section 3, Figure 1",
    ),
    _at_end(
        "near-centres",
        f"nearly every neuron becomes highly correlated to a cluster mean: share with a cosine of {HIGHLY:g}",
        "near_centre",
        at_least(0.95),
        "Section 3, Figure 1",
        note="of directions drawn at random in the plane a share of 0.57 has it",
    ),
    _at_end(
        "test-error",
        "the test error is close to the noise rate: error under noisy labels minus that rate",
        "excess_error",
        between(-0.01, 0.01),
        "Theorem 3.1, in the setting of Figure 1",
        note=_no_constant,
        premises=requires("assumption", "theorem-3-1"),
    ),
)

FIGURE_1 = Experiment(
    id="feature-amplification/figure-1",
    source="Frei et al. 2023, Figure 1",
    title="Every clean point right, every flipped point wrong",
    scales={scale: [PRINTED] for scale in ("quick", "standard", "paper")},
    measure=measure,
    claims=CLAIMS,
    about=(
        "XOR clusters in the plane with 15 % of the labels flipped. The network ignores the flipped labels; its boundary follows the"
        " diagonals. The parameters of the figure satisfy the paper's assumptions for no value of their constant C, and its 3000 steps"
        " are 500 times those of the theorem."
    ),
)
