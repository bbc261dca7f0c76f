"""audit: a head on your embeddings, and the robust heads you could have instead."""

import argparse
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from featureprism.audit import audit
from featureprism.commands.common import AddParser
from featureprism.report import progress_bar
from featureprism.report.audit import heads_table, premises_table, save_pareto


def add_parsers(add: AddParser) -> None:
    """The arguments of the command."""
    command = add(
        "audit",
        "Audit a head on your embeddings, and measure the robust heads you could have instead.",
        "audit embeddings.npz --head net.npz --out audit",
    )
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


def run_audit(args: argparse.Namespace) -> int:
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
    save_pareto(rows, args.out)
    console, found = Console(), rows[0]
    print(
        f"{found['points']} points in {found['dim']} dimensions, {found['clusters']} clusters: means of norm {found['mean_norm']:.3g}, "
        f"median |cosine| {found['median_abs_cosine']:.2f}, spread {found['spread_over_norm']:.2g} times the norm of the means"
    )
    console.print(premises_table(rows))
    console.print(heads_table(rows))
    print(rows[-1]["text"])
    print(f"pareto.png, audit.json, heads/ and head.npz are in {args.out}")
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {"audit": run_audit}
