"""Heads in one figure: accuracy against radius."""

from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING

from featureprism.lab.rows import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILIES = (
    *("yours", "ReLU", "pReLU", "given", "discovered", "adversarial", "Gaussian", "other"),
    *("linear", "MLP", "noise", "neighbour"),
)
MARKS = "osD^v"  # of the heads of a family


def pareto(rows: Iterable[Row]) -> "Figure":
    """Clean accuracy against the median radius, attacked (marks) down to proven (bars); a panel for each data set, all seeds."""
    from featureprism.lab.style import COLOURS, panels

    heads = [row for row in rows if row["kind"] == "head"]
    names = list(dict.fromkeys(row["data"] for row in heads if "data" in row)) or [None]
    figure, axes = panels(len(names), width=6.0, height=3.8)
    for panel, name in zip(axes, names, strict=True):
        shown = [row for row in heads if row.get("data") == name]
        for family in FAMILIES:
            members = list(dict.fromkeys(row["head"] for row in shown if row["family"] == family))
            for mark, member in zip(cycle(MARKS), members, strict=False):
                runs = [row for row in shown if row["head"] == member]
                x = [100 * row["accuracy"] for row in runs]
                low, high = ([row[f"{side}_radius"] for row in runs] for side in ("certified", "attacked"))
                colour = COLOURS[FAMILIES.index(family) % len(COLOURS)]
                panel.vlines(x, low, high, color=colour, linewidth=0.9)
                panel.plot(x, low, "_", color=colour, markersize=6)
                panel.plot(x, high, mark, color=colour, markersize=4, label=member)
        panel.set(
            xlabel="accuracy on test points (%)", ylabel="median radius, proven to attacked", title=name or ""
        )
        panel.set_ylim(bottom=0)
        if shown:
            panel.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
