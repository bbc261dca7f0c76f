"""The command line; what needs more than a few lines is in `commands`."""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from featureprism.commands import audit, data, networks, sweeps
from featureprism.data.images import DIGITS, find_source
from featureprism.experiment import fields_of
from featureprism.papers import PAPERS
from featureprism.records import Experiment
from featureprism.report import claims_table, progress_bar, save_figure, write_report
from featureprism.sweep import Result, did_you_mean, run, strict

OTHERS = (networks, sweeps, audit, data)
COMMANDS = {name: command for module in OTHERS for name, command in module.COMMANDS.items()}
SCALES = ("quick", "standard", "paper")
BAD_USAGE, CLAIM_FAILED, INTERRUPTED = 2, 3, 130


def find_experiments(name: str) -> list[Experiment]:
    """The experiments of "all", PAPER or PAPER/ITEM."""
    everything = [e for experiments in PAPERS.values() for e in experiments]
    paper, _, item = name.partition("/")
    chosen = [
        e for e in everything if e.id == name or (not item and paper in ("all", e.id.partition("/")[0]))
    ]
    if not chosen:
        known = ["all", *PAPERS, *(e.id for e in everything)]
        raise ValueError(
            f"Nothing is called '{name}'. {did_you_mean(name, known)} 'featureprism list' shows all."
        )
    return chosen


def list_experiments(as_json: bool) -> None:
    """Print what can be reproduced."""
    rows = [
        {"id": e.id, "title": e.title, "source": e.source, "scales": list(e.scales)}
        for experiments in PAPERS.values()
        for e in experiments
    ]
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    width = max(len(row["id"]) for row in rows)
    for row in rows:
        print(f"{row['id']:<{width}}  {row['title']}  ({row['source']})")


def reproduce(args: argparse.Namespace) -> int:
    """Run experiments, keep what they measure, print the claims."""
    if args.seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {args.seeds}.")
    seeds = range(args.seed, args.seed + args.seeds)
    context = data.context_from(args.data, args.device, networks=args.out / "networks")
    chosen, results = find_experiments(args.name), []
    left = [] if args.long or "/" in args.name else [e for e in chosen if e.long]
    if left:
        names = ", ".join(e.id for e in left)
        print(f"Left out, as they take minutes: {names}. Name one, or add --long.", file=sys.stderr)
    for experiment in [e for e in chosen if e not in left]:
        tell_stand_ins(experiment, args.scale, context.data)
        with progress_bar(experiment.id) as track:
            result = run(experiment, args.scale, seeds, args.out, track=track)
        save_figure(experiment.id, result.rows, result.folder)
        results.append(result)
        if not args.json:
            console = Console()
            console.print(claims_table(f"{experiment.id}: {experiment.title}", result.claims))
    if args.json:
        print(json.dumps(strict(as_object(args, results)), indent=1, ensure_ascii=False))
    else:
        print(f"Results are in {args.out}; 'featureprism report {args.out}' makes the page.")
    failed = any(claim.holds is not True for r in results for claim in r.claims)
    return CLAIM_FAILED if args.strict and failed else 0


def tell_stand_ins(experiment: Experiment, scale: str, folder: Path | None) -> None:
    """Say when the digits stand for data that is not at hand."""
    asked = {fields_of(s).get("data", DIGITS) for s in experiment.scales.get(scale, ())} - {DIGITS}
    for name in sorted(n for n in asked if find_source(n, folder)[0] == DIGITS):
        print(
            f"{experiment.id}: {name} is not at hand; digits stand for it (--data, or fetch).",
            file=sys.stderr,
        )


def as_object(args: argparse.Namespace, results: list[Result]) -> dict[str, Any]:
    """Everything a program wants to know of a run."""
    items = [
        {
            "id": r.experiment.id,
            "title": r.experiment.title,
            "source": r.experiment.source,
            "folder": str(r.folder),
            "seconds": r.seconds,
            "claims": [c.as_row() for c in r.claims],
            "premises": [row for row in r.rows if row["kind"] == "premise"],
        }
        for r in results
    ]
    return {
        "featureprism": version("featureprism"),
        "name": args.name,
        "scale": args.scale,
        "seeds": list(results[0].seeds),
        "claims": [claim for item in items for claim in item["claims"]],
        "items": items,
    }


def parser() -> argparse.ArgumentParser:
    """The arguments of every command."""
    top = argparse.ArgumentParser(
        prog="featureprism",
        description="What features gradient descent finds, and how far the networks that use them are from breaking.",
    )
    top.add_argument("--version", action="version", version=version("featureprism"))
    commands = top.add_subparsers(dest="command", required=True)

    def add(name: str, text: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, description=text, epilog=f"Example: featureprism {example}"
        )

    listing = add("list", "Show every experiment that can be reproduced.", "list --json")
    listing.add_argument("--json", action="store_true", help="print JSON")

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
    doing.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help=f"folder with archives or .npz files, or one .npz file (default: ${data.DATA}, then the cache of fetch)",
    )
    doing.add_argument("--device", metavar="NAME", help="where image networks are trained: cpu, cuda, mps")
    doing.add_argument(
        "--long", action="store_true", help="with a paper: also its items on images, which take minutes each"
    )
    doing.add_argument("--json", action="store_true", help="print one JSON object on stdout and nothing else")
    doing.add_argument("--strict", action="store_true", help="exit with 3 when a claim does not hold")

    for module in OTHERS:
        module.add_parsers(add)

    page = add("report", "Write DIR/index.html from the results in DIR.", "report runs")
    page.add_argument("folder", type=Path, metavar="DIR", help="a folder that reproduce wrote")
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 2 bad usage, 3 a claim failed under --strict, 130 interrupted."""
    args = parser().parse_args(argv)
    try:
        if args.command == "list":
            list_experiments(args.json)
        elif args.command == "reproduce":
            return reproduce(args)
        elif args.command in COMMANDS:
            return COMMANDS[args.command](args)
        else:
            print(write_report(args.folder).resolve())
    except (ValueError, OSError) as error:
        print(f"featureprism: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        print("\nStopped. What is finished is kept; the same command goes on from there.", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
