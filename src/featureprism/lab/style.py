"""One look for all figures."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from featureprism.lab.rows import Row

# Okabe-Ito, readable with any colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
FAILED_SELF_TEST = "The attack failed its self-test: do not believe these curves"
SETTINGS: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "savefig.dpi": 160,
    "svg.hashsalt": "featureprism",
}


def panels(num: int, width: float = 3.3, height: float = 2.7) -> tuple[Figure, list[Axes]]:
    """A row of axes in the common style."""
    with plt.rc_context(SETTINGS):
        figure, axes = plt.subplots(
            1, num, figsize=(width * num, height), layout="constrained", squeeze=False
        )
    return figure, list(axes[0])


def guide(axes: Axes, value: float, text: str, *, along: str = "x", height: float = 0.9) -> None:
    """A thin dashed line at a predicted value, with its name; where two are close, one name stands lower."""
    if along == "x":
        axes.axvline(value, color="0.45", linewidth=0.8, linestyle="--", zorder=0)
        axes.annotate(
            text,
            (value, height),
            xycoords=("data", "axes fraction"),
            xytext=(2, -2),
            textcoords="offset points",
            va="top",
            fontsize=7,
            color="0.35",
        )
    else:
        axes.axhline(value, color="0.45", linewidth=0.8, linestyle="--", zorder=0)
        axes.annotate(
            text,
            (1.0, value),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            fontsize=7,
            color="0.35",
        )


def plain_ticks(axes: Axes, values: Any, *, along: str = "x") -> None:
    """On a logarithmic axis: ticks at these values only, as plain numbers."""
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_ticks(list(values), [f"{v:g}" for v in values])
    axis.set_ticks([], minor=True)


def band(
    axes: Axes,
    x: Any,
    low: Any,
    middle: Any,
    high: Any,
    colour: str,
    label: str | None,
    dashed: bool = False,
) -> None:
    """A line with a band from low to high; dashed where lines cover each other."""
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(x, middle, color=colour, label=label, linestyle=(0, (4, 2)) if dashed else "-")


def over_seeds(
    rows: Iterable[Row], x: str, value: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, least, mean and largest of a value over seeds; rows without the value are passed over."""
    groups: dict[float, list[float]] = defaultdict(list)
    for row in rows:
        if row.get(value) is not None:
            groups[row[x]].append(row[value])
    xs = sorted(groups)
    stats = [(min(groups[v]), sum(groups[v]) / len(groups[v]), max(groups[v])) for v in xs]
    low, mean, high = np.array(stats).reshape(-1, 3).T
    return np.array(xs), low, mean, high
