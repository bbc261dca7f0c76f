"""reproduce and report: the papers' experiments."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from joblib.externals.loky import cpu_count
from rich.console import Console

from featureprism import __version__
from featureprism.commands.common import chosen_executor, context_from
from featureprism.context import Context
from featureprism.data.images import DIGITS, find_source
from featureprism.files import as_json, write_whole
from featureprism.lab import Experiment, Outcome, fields_of
from featureprism.papers import experiments_called
from featureprism.records import Row
from featureprism.report import (
    claims_table,
    duration,
    estimates_table,
    progress_bar,
    save_figure,
    write_report,
)
from featureprism.report.claims import tally
from featureprism.report.markdown import results_page
from featureprism.report.page import read_items
from featureprism.report.published import in_words, publish, read_published
from featureprism.report.scales import scales_page
from featureprism.sweep import Failure, Local, Result, reproduce
from featureprism.sweep.beginnings import Beginning, beginnings
from featureprism.sweep.costs import Estimate, estimates
from featureprism.sweep.unit import Unit

BAD_USAGE, CLAIM_FAILED = 2, 3


def run_reproduce(args: argparse.Namespace) -> int:
    """Run experiments, keep what they measure, print the claims."""
    if args.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {args.seeds}.")
    seeds = range(args.seed, args.seed + args.seeds)
    context = context_from(args, networks=args.out / "networks")
    chosen = chosen_experiments(args)
    if args.estimate:
        return tell_estimates(args, estimated(args, chosen, seeds, context))
    for experiment in chosen:
        tell_stand_ins(experiment, args.scale, context)
        tell_duration(experiment, args.scale, args.seeds, context)
    console = Console()

    def finish(result: Result) -> None:
        try:
            save_figure(result.experiment, result.rows, result.folder)
        except Exception as error:  # whatever a drawing raises: the numbers are there without it
            told = f"{type(error).__name__}: {error}"
            print(f"{result.experiment.id}: no figure could be drawn: {told}", file=sys.stderr)
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
        print(f"{tally(v.as_row() for r in results for v in r.verdicts)}.")
        print(f"Results are in {args.out}; 'featureprism report {args.out}' makes the page.")
    return ending(args, results, failures)


def estimated(
    args: argparse.Namespace, chosen: Sequence[Experiment], seeds: Sequence[int], context: Context
) -> list[Estimate]:
    """What a run will cost; what nobody has timed is begun, which takes a minute or two."""
    with progress_bar("beginning what nobody has timed") as track:

        def begin(units: Sequence[Unit]) -> dict[str, Beginning]:
            return beginnings(units, context, Local(args.workers), track)

        return estimates(chosen, args.scale, seeds, args.out, context, begin)


def tell_estimates(args: argparse.Namespace, found: Sequence[Estimate]) -> int:
    """What a run will cost, item by item and in all."""
    workers, rows = args.workers or cpu_count(), [asdict(e) for e in found]
    known = [e for e in found if e.seconds is not None]
    in_all = sum(e.seconds or 0.0 for e in known)
    longest = max((e.seconds / max(e.seeds, 1) for e in known if e.seconds is not None), default=0.0)
    wall, memory = max(in_all / workers, longest), max((e.memory_mb or 0.0 for e in known), default=0.0)
    if args.json:
        told = {"items": rows, "seconds": wall, "memory_mb": workers * memory}
        print(as_json(told, indent=1))
        return 0
    Console().print(estimates_table(rows))
    unknown = sum(e.unknown for e in found)
    print(
        f"About {duration(wall)} with {workers} worker{'s' * (workers > 1)} and {workers * memory / 1024:.1f} GB here"
        + (f", and {unknown} settings of which nothing is known." if unknown else ".")
    )
    return 0


def chosen_experiments(args: argparse.Namespace) -> list[Experiment]:
    """What was named; of a whole paper, less what takes minutes and what has no such scale."""
    chosen = experiments_called(args.name)
    if "/" in args.name:
        return chosen
    sized = _without(
        [e for e in chosen if args.scale not in e.scales], chosen, f"as they have no scale {args.scale}", ""
    )
    long = [] if args.long else [e for e in sized if e.long]
    return _without(long, sized, "as they take minutes", " Name one, or add --long.")


def _without(left: list[Experiment], chosen: list[Experiment], why: str, advice: str) -> list[Experiment]:
    """The others, after a word about those that are left out."""
    if left:
        print(f"Left out, {why}: {', '.join(e.id for e in left)}.{advice}", file=sys.stderr)
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


def tell_duration(experiment: Experiment, scale: str, seeds: int, context: Context) -> None:
    """Say how long training will take here, from a step timed now, where an item knows and the scale is not quick."""
    if experiment.foretell is None or scale == "quick":
        return
    unit = sum(experiment.foretell(setting, context) for setting in experiment.settings(scale))
    print(
        f"{experiment.id}: at most {duration(seeds * unit)} of training on this {context.device.partition(':')[0]} for {seeds}"
        f" seed{'s' * (seeds > 1)} (from steps timed now; networks that are kept are not trained again).",
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
        "featureprism": __version__,
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
    missed = any(v.outcome != Outcome.HOLDS for r in results for v in r.verdicts)
    return CLAIM_FAILED if args.strict and missed else 0


def run_report(args: argparse.Namespace) -> int:
    """Write the page and print its path; with --publish keep the results for the atlas, and all of them in FOLDER.md."""
    if args.publish is not None:
        for path in publish(read_items(args.folder), args.folder, args.publish):
            print(path.resolve())
        known = read_published(args.publish)
        write_whole(args.publish / "scales.md", scales_page(known))
        first = next(iter(known.values()))  # of the smallest scale
        write_whole(args.publish.with_name(f"{args.publish.name}.md"), results_page(in_words(first)))
    print(write_report(args.folder).resolve())
    return 0
