"""explain: what breaks your model, what its neurons look at, and how far it is from each theorem."""

import argparse
import math

from rich.console import Console
from rich.table import Table

from featureprism._points import read_points
from featureprism.audit.explanation import Explanation, explain
from featureprism.checker.arrays import read_arrays
from featureprism.commands.words import say
from featureprism.lab.table import show
from featureprism.lab.terminal import progress_bar


def run_explain(args: argparse.Namespace) -> int:
    """`featureprism explain`: what is seen, the predictions of a theorem that fits, and the page with figures in a folder."""
    x, y = read_points(args.data)
    fine = read_arrays(args.data).get("fine") if args.data.suffix.lower() == ".npz" else None
    with progress_bar("explain") as bar:
        explanation = explain(args.model, x, y, fine, num_points=args.points, progress=bar.within)
    explanation.save(args.out)
    say(explanation)
    if explanation.predictions:
        Console().print(_table(explanation))
    say(f"index.html and explanation.json are in {args.out}")
    return 0


def _table(explanation: Explanation) -> Table:
    table = Table(title="what the theorem predicts, and what is measured", title_justify="left", expand=False)
    for column in ("theorem", "quantity", "predicted", "measured"):
        table.add_column(column, overflow="fold")
    for c in explanation.predictions:
        measured = show(c.measured) if math.isnan(c.proven) else f"{show(c.proven)} to {show(c.measured)}"
        table.add_row(c.paper, c.quantity, show(c.predicted), measured)
    return table
