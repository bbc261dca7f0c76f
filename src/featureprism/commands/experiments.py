"""list, claims, reproduce and report: the papers' experiments."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from featureprism.commands.common import AddParser, add_context, add_executor, chosen_executor, context_from
from featureprism.context import Context
from featureprism.data.images import DIGITS, find_source
from featureprism.experiment import SCALES, Experiment, Outcome, fields_of
from featureprism.files import as_json
from featureprism.papers import all_papers, experiments_called
from featureprism.records import Row
from featureprism.report import claims_table, progress_bar, save_figure, write_report
from featureprism.sweep import Failure, Result, reproduce

BAD_USAGE, CLAIM_FAILED = 2, 3


def add_parsers(add: AddParser) -> None:
    """The arguments of the commands."""
    listing = add("list", "Show every experiment that can be reproduced.", "list --json")
    listing.add_argument("--json", action="store_true", help="print JSON")
    claims = add(
        "claims",
        "Show what is claimed, by whom and with which bound, without running anything.",
        "claims gmm-flow/figure-2",
    )
    claims.add_argument(
        "name",
        nargs="?",
        default="all",
        metavar="PAPER[/ITEM]",
        help="a paper or one of its items (default: all)",
    )
    claims.add_argument("--json", action="store_true", help="print JSON")
    doing = add(
        "reproduce",
        "Run the experiments of a paper and judge its claims.",
        "reproduce gmm-flow/figure-5 --scale quick --out runs",
    )
    doing.add_argument("name", metavar="PAPER[/ITEM]", help="a paper, one of its items, or all")
    doing.add_argument("--scale", choices=SCALES, default="quick", help="how large (default: quick)")
    doing.add_argument("--seeds", type=int, default=3, metavar="N", help="how many seeds (default: 3)")
    doing.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (default: 0)")
    doing.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="where results go (default: runs)"
    )
    add_executor(doing)
    add_context(doing)
    doing.add_argument(
        "--long", action="store_true", help="with a paper: also its items on images, which take minutes each"
    )
    doing.add_argument("--json", action="store_true", help="print one JSON object on stdout and nothing else")
    doing.add_argument("--strict", action="store_true", help="exit with 3 when a claim does not hold")
    page = add("report", "Write DIR/index.html and DIR/results.md from the results in DIR.", "report runs")
    page.add_argument("folder", type=Path, metavar="DIR", help="a folder that reproduce wrote")


def list_experiments(args: argparse.Namespace) -> int:
    """Print what can be reproduced."""
    experiments = [e for paper in all_papers().values() for e in paper.experiments]
    rows = [{"id": e.id, "title": e.title, "source": e.source, "scales": list(e.scales)} for e in experiments]
    if args.json:
        print(as_json(rows, indent=1))
        return 0
    width = max(len(row["id"]) for row in rows)
    for row in rows:
        print(f"{row['id']:<{width}}  {row['title']}  ({row['source']})")
    return 0


def list_claims(args: argparse.Namespace) -> int:
    """Print what is claimed."""
    rows = [
        {"id": e.claim_id(claim), "item": e.id, **claim.as_row()}
        for e in experiments_called(args.name)
        for claim in e.claims
    ]
    if args.json:
        print(as_json(rows, indent=1))
        return 0
    for item in dict.fromkeys(row["item"] for row in rows):
        print(f"\n{item}")
        for row in (r for r in rows if r["item"] == item):
            bound = (
                f"{row['bound'][0]:g} to {row['bound'][1]:g}"
                if row["relation"] == "in"
                else f"{row['relation']} {row['bound']:g}"
            )
            speaker = row["source"] if row["speaker"] == "paper" else f"ours; {row['source']}"
            print(f"  {row['id']}: {row['statement']} [{bound}] ({speaker})")
    return 0


def run_reproduce(args: argparse.Namespace) -> int:
    """Run experiments, keep what they measure, print the claims."""
    if args.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {args.seeds}.")
    seeds = range(args.seed, args.seed + args.seeds)
    context = context_from(args, networks=args.out / "networks")
    chosen = chosen_experiments(args)
    for experiment in chosen:
        tell_stand_ins(experiment, args.scale, context)
    console = Console()

    def finish(result: Result) -> None:
        save_figure(result.experiment, result.rows, result.folder)
        if not args.json:
            console.print(claims_table(f"{result.experiment.id}: {result.experiment.title}", result.verdicts))

    with progress_bar(args.name) as track:
        watched = replace(context, announce=track.say)
        results, failures = reproduce(
            chosen,
            args.scale,
            seeds,
            args.out,
            chosen_executor(args),
            context=watched,
            track=track,
            finish=finish,
        )
    if args.json:
        print(as_json(as_object(args, results, failures), indent=1))
    else:
        print(f"Results are in {args.out}; 'featureprism report {args.out}' makes the page.")
    return ending(args, results, failures)


def chosen_experiments(args: argparse.Namespace) -> list[Experiment]:
    """What was named, less what takes minutes unless it was named itself."""
    chosen = experiments_called(args.name)
    left = [] if args.long or "/" in args.name else [e for e in chosen if e.long]
    if left:
        names = ", ".join(e.id for e in left)
        print(f"Left out, as they take minutes: {names}. Name one, or add --long.", file=sys.stderr)
    return [e for e in chosen if e not in left]


def tell_stand_ins(experiment: Experiment, scale: str, context: Context) -> None:
    """Say when the digits stand for data that is not at hand."""
    fields = [fields_of(setting) for setting in experiment.settings(scale)]
    asked = {f["data"] for f in fields if "data" in f}
    for name in sorted(n for n in asked if n != DIGITS and find_source(n, context.data)[0] == DIGITS):
        print(
            f"{experiment.id}: {name} is not at hand; digits stand for it (--data, or fetch).",
            file=sys.stderr,
        )


def as_object(
    args: argparse.Namespace, results: Sequence[Result], failures: Sequence[Failure]
) -> dict[str, Any]:
    """Everything a program wants to know of a run."""
    items = [
        {
            "id": r.experiment.id,
            "title": r.experiment.title,
            "source": r.experiment.source,
            "folder": str(r.folder),
            "seconds": r.seconds,
            "claims": [v.as_row() for v in r.verdicts],
            "premises": list(r.rows.of("premise")),
        }
        for r in results
    ]
    return {
        "featureprism": version("featureprism"),
        "name": args.name,
        "scale": args.scale,
        "seeds": list(range(args.seed, args.seed + args.seeds)),
        "claims": [claim for item in items for claim in item["claims"]],
        "items": items,
        "failures": [_failure(f) for f in failures],
    }


def _failure(failure: Failure) -> Row:
    unit = failure.unit
    return {
        "item": unit.what,
        "seed": unit.seed,
        "setting": json.loads(json.dumps(unit.fields)),
        "message": failure.message,
    }


def ending(args: argparse.Namespace, results: Sequence[Result], failures: Sequence[Failure]) -> int:
    """The exit code; what could not be measured is told."""
    for item in dict.fromkeys(f.unit.what for f in failures):
        messages = [f.message for f in failures if f.unit.what == item]
        print(f"{item}: {len(messages)} units failed, so it is not judged: {messages[0]}", file=sys.stderr)
    if failures:
        print(
            f"The tracebacks are in {args.out}/units.sqlite (table failures); the same command tries them again.",
            file=sys.stderr,
        )
        return BAD_USAGE
    missed = any(
        v.outcome != Outcome.HOLDS for r in results for v in r.verdicts if v.claim.speaker == "paper"
    )
    return CLAIM_FAILED if args.strict and missed else 0


def run_report(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    print(write_report(args.folder).resolve())
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": list_experiments,
    "claims": list_claims,
    "reproduce": run_reproduce,
    "report": run_report,
}
