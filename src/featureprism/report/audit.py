"""The audit for people: its tables and its Pareto figure."""

from collections.abc import Iterable
from itertools import cycle
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from rich.table import Table

from featureprism.lab.rows import Row
from featureprism.lab.style import COLOURS, SETTINGS, panels
from featureprism.lab.table import show

FAMILIES = (
    *("yours", "ReLU", "pReLU", "given", "discovered", "adversarial", "Gaussian", "other"),
    *("linear", "MLP", "noise", "neighbour"),
)
MARKS = "osD^v"  # of the heads of a family


def pareto(rows: Iterable[Row]) -> Figure:
    """Clean accuracy against the median radius, attacked (marks) down to proven (bars); a panel for each data set, all seeds."""
    heads = [row for row in rows if row["kind"] == "head"]
    names = list(dict.fromkeys(row["data"] for row in heads if "data" in row)) or [None]
    figure, axes = panels(len(names), width=6.0, height=3.8)
    for panel, name in zip(axes, names, strict=True):
        own = [row for row in heads if row.get("data") == name]
        for family in FAMILIES:
            members = list(dict.fromkeys(row["head"] for row in own if row["family"] == family))
            for mark, member in zip(cycle(MARKS), members, strict=False):
                found = [row for row in own if row["head"] == member]
                x = [100 * row["accuracy"] for row in found]
                low, high = ([row[f"{side}_radius"] for row in found] for side in ("certified", "attacked"))
                colour = COLOURS[FAMILIES.index(family) % len(COLOURS)]
                panel.vlines(x, low, high, color=colour, linewidth=0.9)
                panel.plot(x, low, "_", color=colour, markersize=6)
                panel.plot(x, high, mark, color=colour, markersize=4, label=member)
        panel.set(
            xlabel="accuracy on test points (%)", ylabel="median radius, proven to attacked", title=name or ""
        )
        panel.set_ylim(bottom=0)
        if own:
            panel.legend(fontsize=6, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def heads_table(rows: list[Row]) -> Table:
    """One line for each head."""
    table = Table(title="heads, measured on test points", title_justify="left", expand=False)
    for column in ("head", "accuracy", "proven", "attacked", "averaging", "universal", "CPU s"):
        table.add_column(column, overflow="fold")
    seen = {row["head"]: row for row in rows if row["kind"] == "features"}
    for row in (r for r in rows if r["kind"] == "head"):
        more = seen.get(row["head"], {})
        numbers = [row["certified_radius"], row["attacked_radius"]]
        extra = [more.get(name, float("nan")) for name in ("averaging_index", "universal_norm")]
        cells = [show(value) for value in (*numbers, *extra, row.get("train_seconds", float("nan")))]
        table.add_row(row["head"], f"{row['accuracy']:.2%}", *cells)
    return table


def premises_table(rows: list[Row]) -> Table:
    """The papers' conditions beside what the data has."""
    table = Table(title="what the theorems ask of the data", title_justify="left", expand=False)
    for column in ("condition", "measured", "asked", "slack", ""):
        table.add_column(column, overflow="fold")
    for row in (r for r in rows if r["kind"] == "premise"):
        asked = f"{row['relation']} {row['required']:.3g}"
        name = f"{row['name']} ({row['source']})"
        table.add_row(
            name,
            show(row["measured"]),
            asked,
            show(row["slack"]),
            {True: "holds", False: "fails", None: "unknown"}[row["holds"]],
        )
    return table


def save_pareto(rows: list[Row], folder: Path) -> None:
    """pareto.png and pareto.svg."""
    with plt.rc_context(SETTINGS):
        figure = pareto(rows)
        figure.savefig(folder / "pareto.png", metadata={"Software": None})
        figure.savefig(folder / "pareto.svg", metadata={"Date": None})
    plt.close(figure)
