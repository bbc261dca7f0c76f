"""The audit for people: its tables and its Pareto figure."""

from pathlib import Path

import matplotlib.pyplot as plt
from rich.table import Table

from featureprism.lab.heads.pareto import pareto
from featureprism.lab.rows import Row
from featureprism.lab.style import SETTINGS
from featureprism.lab.table import show


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
