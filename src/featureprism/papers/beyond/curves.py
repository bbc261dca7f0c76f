"""What the phase items read off measured cells: their ends, how far they are from a law, where a curve passes a level."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import exp, isnan, log, nan

import numpy as np

from featureprism.lab import Rows, Values, log_slope

FAR = 1e6  # the dimension extrapolated to


def ends(cells: Rows, field: str) -> tuple[Rows, Rows]:
    """The cells with the least and those with the largest value of a field."""
    values = sorted(cells.distinct(field))
    if not values:
        return cells, cells
    return cells.having(**{field: values[0]}), cells.having(**{field: values[-1]})


def largest_gap(rows: Rows, column: str, predicted: str) -> Values:
    """The largest difference of a measured and a predicted column over cells, seed by seed."""
    return rows.of("cell").per_seed(lambda own: np.abs(own.column(column) - own.column(predicted)).max())


def crossing(x: Iterable[float], y: Iterable[float], level: float) -> float:
    """The first x at which y rises past the level, on straight lines between points; NaN if it does nowhere."""
    points = sorted(zip(x, y, strict=True))
    for (left, low), (right, high) in pairwise(points):
        if low <= level < high:
            return float(left + (level - low) / (high - low) * (right - left))
    return nan


def extrapolated(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, at: float) -> float:
    """The least-squares power law through the points, at another x; NaN if there is none."""
    slope = log_slope(x, y)
    return nan if isnan(slope) else exp(np.log(y).mean() + slope * (log(at) - np.log(x).mean()))
