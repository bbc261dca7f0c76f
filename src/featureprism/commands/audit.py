"""audit: a head on your embeddings, and the robust heads you could have instead."""

import argparse

from rich.console import Console

from featureprism.audit import audit
from featureprism.report import progress_bar
from featureprism.report.audit import heads_table, premises_table, save_pareto


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
