"""Different KKT points of one sample, and what the theorems say of each of them."""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from featureprism.attacks import flip_rate, flipping_norm
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.setting import (
    Problem,
    TrainingSetting,
    critical_norm,
    direction,
    error_of,
    flow_end,
    separation,
)
from featureprism.probes import KKTPoint, kkt_points
from featureprism.seeds import generator_for
from featureprism.verify import Budget, robust_radius

CELLS = 4  # cells a point; counted, not timed, so that rows repeat exactly


@dataclass(frozen=True, kw_only=True)
class ExploredSetting(TrainingSetting):
    """How many random groupings and starts of the flow lead to KKT points; how many test points get a bracket of their radius."""

    patterns: int = 4
    starts: int = 3
    radius_points: int = 0


def points_of(s: ExploredSetting, data: Problem, seed: int) -> list[KKTPoint]:
    """The KKT points of the training set that are found, the largest margin first."""
    scale = s.start * sqrt((data.train.x.shape[1] + 1) / (s.dim + 1))
    return kkt_points(
        data.train.x,
        data.train.y,
        cluster=data.train.cluster,
        num_patterns=s.patterns,
        num_starts=s.starts,
        width=s.width,
        start_size=scale,
        steps=s.steps,
        generator=generator_for("patterns", seed),
    )


def breaking_row(s: ExploredSetting, data: Problem, net: TwoLayerNet) -> Row:
    """Test error, the norm along u that flips half of the points, the share that the order of Theorem 4.2 flips, radii of points."""
    seen, x, along = seen_with(net, data.test.x, direction(data))
    unit = along / along.norm()
    row: Row = {
        "error": error_of(net, data.test),
        "norm": flipping_norm(seen, x, data.test.y, along) / critical_norm(data),
        "flipped": flip_rate(seen, x, data.test.y, theory.norm_of_order(separation(s, data)) * unit),
    }
    if s.radius_points:
        few = slice(0, s.radius_points)
        bracket = robust_radius(seen, x[few], data.test.y[few], gap=0.05, budget=Budget(branches=CELLS))
        row |= {
            "attacked": bracket.half_radius[1] / sqrt(s.dim),
            "certified": bracket.half_radius[0] / sqrt(s.dim),
        }
    return row


def seen_with(net: TwoLayerNet, x: Tensor, u: Tensor) -> tuple[TwoLayerNet, Tensor, Tensor]:
    """Network, points and a direction in the span of the neurons and the direction: all that moving along it needs."""
    basis = torch.linalg.qr(torch.cat([net.input_directions(), u.unsqueeze(0)]).T).Q
    return net.in_coordinates(basis), x @ basis, u @ basis


def flow_row(s: ExploredSetting, data: Problem, seed: int) -> Row:
    """The network of the flow itself, at the loss that it has reached."""
    return breaking_row(s, data, flow_end(s, data.train, seed))
