"""audit: a head on your embeddings, and the robust heads you could have instead."""

import argparse

from joblib.externals.loky import cpu_count
from rich.console import Console

from featureprism.audit import audit
from featureprism.audit.advice import YOURS
from featureprism.audit.tables import heads_table, premises_table, save_pareto
from featureprism.commands.words import say
from featureprism.lab.rows import Row
from featureprism.lab.terminal import stage_progress


def run_audit(args: argparse.Namespace) -> int:
    """`featureprism audit`: every stage with progress, then the tables, the figure and the recommendation."""
    if args.points is not None and args.points < 1:
        raise ValueError(f"--points must be at least 1, got {args.points}.")
    if args.workers is not None and args.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {args.workers}.")
    with stage_progress("audit") as show:
        rows = audit(
            args.embeddings,
            args.head,
            args.out,
            normalise=args.normalise,
            num_points=args.points,
            seen=args.seen,
            workers=args.workers or cpu_count(),
            show=show,
        )
    save_pareto(rows, args.out)
    console, facts = Console(), rows[0]
    say(
        f"{facts['points']} points in {facts['dim']} dimensions, {facts['clusters']} clusters: means of norm {facts['mean_norm']:.3g}, "
        f"median |cosine| {facts['median_abs_cosine']:.2f}, spread {facts['spread_over_norm']:.2g} times the norm of the means"
    )
    console.print(premises_table(rows))
    console.print(heads_table(rows))
    for row in (r for r in rows if r["kind"] == "mixture"):
        say(_distance(row))
    if remark := _seen(rows):
        say(remark)
    say(rows[-1]["text"])
    saved = ", witnesses/ and head.npz" if rows[-1]["saved"] else " and witnesses/"
    say(f"pareto.png, audit.json, heads/{saved} are in {args.out}")
    return 0


def _distance(row: Row) -> str:
    """How far the data is from a mixture of Gaussians, in one line."""
    return (
        f"{row['head']}: the points are at least {row['variation_at_least']:.2f} (total variation) from its mixture, on which it would "
        f"have an accuracy of {row['mixture_accuracy']:.1%} and a median radius of {row['mixture_radius']:.3g}"
    )


SEEN = {
    "training": "Your head is judged on test rows; the training rows, which it has seen, do not count for it.",
    "all": "Your head was trained on the rows it is judged on: its accuracy and radii here are too good, those of the others are not.",
    "none": "Your head is judged on rows that it has not seen.",
    None: "Nobody said which rows your head was trained on: if it has seen these, it looks better here than it is. Give x_train, "
    "y_train, x_test, y_test instead of x, y, or say --seen.",
}


def _seen(rows: list[Row]) -> str:
    """Whether the head that was brought is judged on rows that it was trained on."""
    return next((SEEN[row["seen"]] for row in rows if row["kind"] == "head" and row["head"] == YOURS), "")
