"""What the phase diagrams share: reading measured cells, and drawing them with a prediction."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from featureprism.lab import Rows
from featureprism.lab.rows import Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def largest_gap(cells: Rows, column: str, predicted: str) -> Values:
    """The largest difference of a measured and a predicted column over cells, seed by seed."""
    return cells.per_seed(lambda run: np.abs(run.column(column) - run.column(predicted)).max())


def crossing(x: Iterable[float], y: Iterable[float], level: float) -> float:
    """The first x at which y rises past the level, on straight lines between points; NaN if it does nowhere."""
    points = sorted(zip(x, y, strict=True))
    for (left, low), (right, high) in pairwise(points):
        if low <= level < high:
            return float(left + (level - low) / (high - low) * (right - left))
    return nan


def farthest_from_1(ratios: np.ndarray) -> float:
    """The ratio with the largest distance to 1; NaN if there is none."""
    return float(ratios[np.abs(ratios - 1).argmax()]) if len(ratios) else nan


def draw_phase(
    cells: Rows,
    x: str,
    y: str,
    value: str,
    *,
    theory: str | None = None,
    boundary: Callable[[float], float] | None = None,
    label: str = "theory",
    levels: tuple[float, ...] = (),
) -> "Figure":
    """A map over x and y with the theory's line or contours, and slices along x."""
    from featureprism.lab.phase import draw_map, draw_slices, phase_of
    from featureprism.lab.style import panels

    phase = phase_of(cells, x, y, value, theory=theory)
    figure, (left, right) = panels(2, width=5.0, height=3.8)
    draw_map(left, phase, boundary=boundary, label=label, levels=levels)
    draw_slices(right, phase)
    return figure
