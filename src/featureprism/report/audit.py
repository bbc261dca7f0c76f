"""The audit for people: its command, its tables and its Pareto figure."""

import argparse
from itertools import cycle
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from featureprism.audit import audit
from featureprism.records import Row
from featureprism.report.style import COLOURS, SETTINGS, panels
from featureprism.report.terminal import progress_bar, show, verdict

FAMILIES = ("yours", "ReLU", "pReLU", "given", "discovered", "adversarial", "other")
MARKS = "osD^v"  # of the heads of a family


def pareto(rows: list[Row]) -> Figure:
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
                colour = COLOURS[FAMILIES.index(family)]
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
        table.add_row(name, show(row["measured"]), asked, show(row["slack"]), verdict(row["holds"]))
    return table


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of `featureprism audit`."""
    command.add_argument(
        "embeddings",
        type=Path,
        metavar="EMBEDDINGS.npz",
        help="x_train, y_train, x_test, y_test (or x, y); optional fine_train",
    )
    command.add_argument(
        "--head", type=Path, metavar="NET.npz", help="the head you have: W, a, activation, or a saved head"
    )
    command.add_argument(
        "--normalise", choices=("unit", "none"), help="scale every row to norm 1, or keep rows as they are"
    )
    command.add_argument(
        "--points", type=int, default=100, metavar="N", help="test points that are bracketed (default: 100)"
    )
    command.add_argument(
        "--out", type=Path, default=Path("audit"), metavar="DIR", help="where results go (default: audit)"
    )


def run_audit(args: argparse.Namespace) -> None:
    """`featureprism audit`: every stage with progress, then the tables, the figure and the recommendation."""
    if args.points < 1:
        raise ValueError(f"--points must be at least 1, got {args.points}.")
    with progress_bar("audit") as track:
        rows = audit(
            args.embeddings,
            args.head,
            args.out,
            normalise=args.normalise,
            num_points=args.points,
            track=track,
        )
    with plt.rc_context(SETTINGS):
        figure = pareto(rows)
        figure.savefig(args.out / "pareto.png", metadata={"Software": None})
        figure.savefig(args.out / "pareto.svg", metadata={"Date": None})
    plt.close(figure)
    console, found = Console(), rows[0]
    print(
        f"{found['points']} points in {found['dim']} dimensions, {found['clusters']} clusters: means of norm {found['mean_norm']:.3g}, "
        f"median |cosine| {found['median_abs_cosine']:.2f}, spread {found['spread_over_norm']:.2g} times the norm of the means"
    )
    console.print(premises_table(rows))
    console.print(heads_table(rows))
    print(rows[-1]["text"])
    print(f"pareto.png, audit.json, heads/ and head.npz are in {args.out}")
