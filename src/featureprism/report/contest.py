"""The table of the contest as a page of the documentation."""

import numpy as np

from featureprism.experiment import Rows

COLUMNS = (
    ("accuracy", 100, 1),
    ("certified_radius", 1, 3),
    ("attacked_radius", 1, 3),
    ("train_seconds", 1, 2),
)


def contest_page(rows: Rows) -> str:
    """One table for each data set and number of classes: means over the splits with a standard error, and who is first."""
    heads = rows.of("head")
    lines = [
        "# The contest",
        "",
        "Made by `featureprism reproduce beyond/contest --seeds 5 --seed 1000`, which writes this page as `page.md`.",
        f"Splits: seeds {', '.join(str(s) for s in sorted(set(heads.distinct('seed'))))}. Every number is a mean over splits ± its"
        " standard error; accuracy in per cent, median radii of test points (misclassified ones count as 0), CPU seconds of training.",
        "",
    ]
    for (data, classes), own in heads.groups("data", "classes").items():
        lines += [
            f"## {data}, {classes} classes",
            "",
            "| head | accuracy | proven | attacked | fit |",
            "|---|---|---|---|---|",
        ]
        table = {
            name: [_cell(part, *column) for column in COLUMNS] for name, part in own.groups("head").items()
        }
        lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in table.items()]
        lines += ["", _winners(own), ""]
    return "\n".join(lines)


def _cell(own: Rows, column: str, scale: float, digits: int) -> str:
    values = scale * own.column(column)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


def _winners(own: Rows) -> str:
    """Who is most accurate, and who holds farthest, proven and attacked."""
    means = {
        column: {name: float(part.column(column).mean()) for name, part in own.groups("head").items()}
        for column in ("accuracy", "certified_radius", "attacked_radius")
    }
    first = {column: max(values, key=lambda name: values[name]) for column, values in means.items()}
    near = {
        name: means["certified_radius"][name]
        for name, value in means["accuracy"].items()
        if value >= max(means["accuracy"].values()) - 0.02
    }
    return (
        f"Best accuracy: {first['accuracy']}. Largest radius, proven: {first['certified_radius']}; "
        f"attacked: {first['attacked_radius']}."
        f" Within 2 points of the best accuracy, the largest proven radius is that of {max(near, key=lambda name: near[name])}."
    )
