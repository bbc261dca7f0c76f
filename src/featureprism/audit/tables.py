"""The audit for people: its tables and its Pareto figure."""

import math
from pathlib import Path

import matplotlib.pyplot as plt
from rich.table import Table

from featureprism.lab.heads.pareto import pareto
from featureprism.lab.rows import Row
from featureprism.lab.style import SETTINGS
from featureprism.lab.table import show

RADII = ("certified_radius", "attacked_radius")


def heads_table(rows: list[Row]) -> Table:
    """One line for each head, the largest proven radius first, with 95 % intervals."""
    table = Table(
        title="heads on test points, by their proven radius; 95 % intervals below",
        title_justify="left",
        expand=False,
    )
    for column in ("head", "points", "accuracy", "proven", "attacked", "averaging", "universal"):
        table.add_column(column, overflow="fold")
    seen = {row["head"]: row for row in rows if row["kind"] == "features"}
    heads = [row for row in rows if row["kind"] == "head"]
    for row in sorted(heads, key=lambda row: -row["certified_radius"]):
        both = {**seen.get(row["head"], {}), **row}
        percent = {name: 100 * value for name, value in both.items() if name.startswith("accuracy")}
        cells = [_with_interval(percent, "accuracy", "%"), *(_with_interval(both, name) for name in RADII)]
        averaging = show(both.get("averaging_index", float("nan")))
        universal = _with_interval(both, "universal_norm") if "universal_norm" in both else "unknown"
        table.add_row(row["head"], str(row["points"]), *cells, averaging, universal)
    return table


def _with_interval(row: Row, name: str, unit: str = "") -> str:
    """A number, and its interval in the line below."""
    if math.isnan(row[name]):
        return show(row[name])
    number, low, high = (f"{row[key]:.3g}" for key in (name, f"{name}_low", f"{name}_high"))
    return f"{number}{unit}\n{low} to {high}"


def premises_table(rows: list[Row]) -> Table:
    """The papers' conditions beside what the data has."""
    table = Table(title="what the theorems ask of the data", title_justify="left", expand=False)
    for column in ("condition", "measured", "asked", "slack", ""):
        table.add_column(column, overflow="fold")
    for row in (r for r in rows if r["kind"] == "premise"):
        required = f"{row['relation']} {row['required']:.3g}"
        name = f"{row['name']} ({row['source']})"
        table.add_row(
            name,
            show(row["measured"]),
            required,
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
