"""reproduce and report: the papers' experiments."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from joblib.externals.loky import cpu_count
from rich.console import Console
from rich.text import Text

from featureprism import __version__
from featureprism._files import as_json
from featureprism.commands.common import chosen_executor, context_from, parsed_changes
from featureprism.data.images import DIGITS, find_source
from featureprism.lab.comparison import compare
from featureprism.lab.context import Context
from featureprism.lab.costs import Estimate, estimate_seconds
from featureprism.lab.engine import Remark
from featureprism.lab.experiment import Experiment, fields_of
from featureprism.lab.figures import save_figure
from featureprism.lab.looks import Looks
from featureprism.lab.page import in_words_of, read_items, write_report
from featureprism.lab.printers import to_terminal
from featureprism.lab.published import fresh_seeds, publish
from featureprism.lab.registry import all_papers, experiments_called
from featureprism.lab.reproduction import Failure, ItemJudged, Reproduction, Result, reproduction_events
from featureprism.lab.rows import Row, Rows
from featureprism.lab.table import ClaimTable, tally
from featureprism.lab.terminal import duration, progress_bar
from featureprism.lab.verdict import Outcome

BAD_USAGE, CLAIM_FAILED = 2, 3
WIDEST = 160  # columns of a table of claims


def run_reproduce(args: argparse.Namespace) -> int:
    """Run experiments, keep what they measure, print the claims."""
    if args.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {args.seeds}.")
    context = context_from(args, networks=args.out / "networks")
    request = requested(args)
    if args.estimate:
        return print_estimates(args, request, context)
    for experiment in request.experiments:
        print_stand_ins(experiment, args.scale, context)
    results, failures = run(args, request, context)
    if args.json:
        print(as_json(as_object(args, results, failures), indent=1))
    else:
        lines = [line for result in results for line in ClaimTable.of_result(result)]
        without = "No claims are made about what was run." if results else "Nothing was run."
        print(f"{tally(lines)}." if lines else without)
        print(f"Results are in {args.out}. For the page: featureprism report {args.out}")
    return ending(args, results, failures)


def requested(args: argparse.Namespace) -> Reproduction:
    """What the arguments ask for."""
    chosen = chosen_experiments(args)
    looks = None if args.until_decided is None else Looks(seconds=args.until_decided)
    seeds: Sequence[int] | Mapping[str, Sequence[int]] = range(args.seed, args.seed + args.seeds)
    if args.fresh is not None:
        seeds = fresh_seeds(chosen, args.scale, args.fresh)
        chosen = _without(
            [e for e in chosen if e.id not in seeds], chosen, "as they are published as they are", ""
        )
    return Reproduction(chosen, args.scale, seeds, parsed_changes(args.set), looks)


def run(
    args: argparse.Namespace, request: Reproduction, context: Context
) -> tuple[list[Result], list[Failure]]:
    """Follow the events of a run: the bar moves, and every item is drawn and printed as soon as it is judged."""
    console = Console()
    with progress_bar(args.name) as bar:
        watched = replace(context, progress=bar.within, log=bar.log)
        events = reproduction_events(request, args.out, chosen_executor(args), context=watched)
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                return end.value
            bar.show(event)
            if isinstance(event, Remark):
                print(f"featureprism: {event.text}", file=sys.stderr)
            if isinstance(event, ItemJudged):
                draw(event.result.experiment, event.result.rows, event.result.folder)
                if not args.json:
                    print_claims(console, event.result, all_claims=args.all or "/" in args.name)


def draw(experiment: Experiment, rows: Rows, folder: Path) -> None:
    """Save the figure; the numbers are there without it."""
    try:
        save_figure(experiment, rows, folder)
    except Exception as error:  # whatever a drawing raises
        reason = f"{type(error).__name__}: {error}"
        print(f"{experiment.id}: no figure could be drawn: {reason}", file=sys.stderr)


def draw_missing(folder: Path) -> None:
    """Draw items of a folder of runs that have no figure yet: a run may have been ended between its rows and its figure."""
    known = {e.id: e for paper in all_papers().values() for e in paper.experiments}
    for about, _ in read_items(folder):
        place = folder / about["id"]
        if about["id"] in known and not (place / "figure.png").is_file():
            lines = (place / "rows.jsonl").read_text("utf-8").splitlines()
            draw(
                known[about["id"]],
                Rows(tuple(json.loads(line) for line in lines), tuple(about["seeds"])),
                place,
            )


def print_claims(console: Console, result: Result, *, all_claims: bool) -> None:
    """The table of claims of one experiment."""
    for text, style in to_terminal(
        ClaimTable.of_result(result), all_claims=all_claims, width=min(console.width, WIDEST)
    ):
        console.print(Text(text, style=style), soft_wrap=True)
    console.print()


def print_estimates(args: argparse.Namespace, request: Reproduction, context: Context) -> int:
    """What a run will cost, item by item and in all."""
    estimates = [
        estimate
        for e in request.experiments
        for estimate in estimate_seconds(
            [e.with_settings(args.scale, request.changes)], args.scale, request.seeds_of(e), args.out, context
        )
    ]
    workers, known = args.workers or cpu_count(), [e for e in estimates if e.seconds is not None]
    total = sum(e.seconds or 0.0 for e in known)
    longest = max((e.seconds / max(e.seeds, 1) for e in known if e.seconds is not None), default=0.0)
    wall, memory = max(total / workers, longest), max((e.memory_mb or 0.0 for e in known), default=0.0)
    if args.json:
        rows = [asdict(estimate) for estimate in estimates]
        print(as_json({"items": rows, "seconds": wall, "memory_mb": workers * memory}, indent=1))
        return 0
    width = max((len(e.item) for e in estimates), default=0)
    for estimate in estimates:
        print(f"{estimate.item:<{width}}  {_in_words(estimate)}")
    unknown = len(estimates) - len(known)
    print(
        f"About {duration(wall)} with {workers} worker{'s' * (workers > 1)} and {workers * memory / 1024:.1f} GB"
        + (f", and {unknown} items of which no unit has ever finished." if unknown else ".")
    )
    return 0


def _in_words(estimate: Estimate) -> str:
    seeds = f"{estimate.seeds} seeds left"
    if estimate.seconds is None:
        return f"{seeds}, cost unknown"
    return f"{seeds}, {duration(estimate.seconds)}, {estimate.memory_mb:.0f} MB ({estimate.source})"


def chosen_experiments(args: argparse.Namespace) -> list[Experiment]:
    """What was named; of a whole paper, less what takes minutes and what has no such scale."""
    chosen = experiments_called(args.name)
    if "/" in args.name:
        return chosen
    sized = _without(
        [e for e in chosen if args.scale not in e.scales], chosen, f"as they have no scale {args.scale}", ""
    )
    slow = [] if args.slow else [e for e in sized if e.slow]
    return _without(slow, sized, "as they take minutes", " Name one, or add --slow.")


def _without(left: list[Experiment], chosen: list[Experiment], why: str, advice: str) -> list[Experiment]:
    """The others, after a word about those that are left out."""
    if left:
        print(f"Left out, {why}: {', '.join(e.id for e in left)}.{advice}", file=sys.stderr)
    return [e for e in chosen if e not in left]


def print_stand_ins(experiment: Experiment, scale: str, context: Context) -> None:
    """Say when the digits stand for data that is not at hand."""
    fields = [fields_of(setting) for setting in experiment.settings(scale)]
    wanted = {f["data"] for f in fields if "data" in f}
    for name in sorted(n for n in wanted if n != DIGITS and find_source(n, context.data)[0] == DIGITS):
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
            "seeds": list(r.seeds),
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
        "seeds": sorted({seed for item in items for seed in item["seeds"]}),
        "claims": [claim for item in items for claim in item["claims"]],
        "items": items,
        "failures": [_failure(f) for f in failures],
    }


def _failure(failure: Failure) -> Row:
    unit = failure.unit
    return {
        "item": unit.name,
        "seed": unit.seed,
        "setting": json.loads(json.dumps(unit.fields)),
        "message": failure.message,
    }


def ending(args: argparse.Namespace, results: Sequence[Result], failures: Sequence[Failure]) -> int:
    """The exit code; units that failed are named on stderr."""
    for item in dict.fromkeys(f.unit.name for f in failures):
        messages = [f.message for f in failures if f.unit.name == item]
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
    """Write the page and print its path; with --publish keep the results for the atlas, with --against compare them."""
    if args.against is not None:
        comparison = compare(args.folder, args.against, tolerant=args.tolerant)
        print(comparison)
        return CLAIM_FAILED if comparison.differing else 0
    if args.publish is not None:
        draw_missing(args.folder)
        for path in publish(read_items(args.folder), args.folder, args.publish):
            print(path.resolve())
    page = write_report(args.folder)
    for sentence in in_words_of(args.folder):
        print(sentence)
    print("The page with the story, the figures and every claim, to be opened in a browser:")
    print(page.resolve())
    return 0
