"""sweep, rows and phase: many settings, what they gave, and its picture."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from featureprism.records import Row
from featureprism.report import progress_bar
from featureprism.report.phase import exponents, phase_of, power, save_phase, show
from featureprism.sweep import Cluster, Executor, Local, Store, Summary, Sweep, read_spec, sweep
from featureprism.sweep.export import as_csv, json_lines, write_parquet
from featureprism.sweep.work import DONE

AddParser = Callable[[str, str, str], argparse.ArgumentParser]


def add_parsers(add: AddParser) -> None:
    """The arguments of the commands."""
    doing = add(
        "sweep",
        "Run an item or your own function over many settings and seeds; a second call goes on where the first was stopped.",
        "sweep noise.toml --out noise --workers 2",
    )
    doing.add_argument("spec", type=Path, metavar="SPEC.toml", help="what to sweep; see docs/sweeps.md")
    doing.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    doing.add_argument(
        "--executor", choices=("local", "dask"), default="local", help="where tasks run (default: local)"
    )
    doing.add_argument(
        "--workers", type=int, metavar="N", help="how many local processes (default: one for each core)"
    )
    doing.add_argument("--scheduler", metavar="ADDRESS", help="a Dask scheduler, such as tcp://10.0.0.1:8786")

    rows = add(
        "rows",
        "Print the rows of a sweep as JSON lines or CSV, or write DIR/rows.parquet.",
        "rows noise --csv",
    )
    rows.add_argument("folder", type=Path, metavar="DIR", help="a folder that sweep wrote")
    form = rows.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV")
    form.add_argument("--parquet", action="store_true", help="write DIR/rows.parquet")

    phase = add(
        "phase",
        "Draw a value of a sweep over two parameters: heat map, contours, slices with fitted exponents.",
        "phase noise --x alpha --y per_cluster --value distance --theory predicted_distance",
    )
    phase.add_argument("folder", type=Path, metavar="DIR", help="a folder that sweep wrote")
    for name, text in (
        ("x", "the parameter along x"),
        ("y", "the parameter along y"),
        ("value", "what to draw"),
    ):
        phase.add_argument(f"--{name}", required=True, metavar="COLUMN", help=text)
    phase.add_argument(
        "--theory", metavar="COLUMN", help="what the theory predicts for the value, drawn dashed"
    )
    phase.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="only these rows; may be given several times",
    )


def run_sweep(args: argparse.Namespace) -> int:
    """Run what is missing and say how the sweep stands."""
    asked = read_spec(args.spec)
    executor = executor_for(args, asked)
    with progress_bar(asked.what) as track:
        summary = sweep(
            asked, args.out, executor, track=lambda done, total, note: track(done, total, note)(0.0)
        )
    print(told(summary))
    return 0


def executor_for(args: argparse.Namespace, asked: Sweep) -> Executor:
    """What --executor, --workers and --scheduler ask for."""
    if args.scheduler and args.executor != "dask":
        raise ValueError("--scheduler needs --executor dask.")
    if args.executor == "dask":
        return Cluster(args.scheduler, args.workers, asked.limits.memory_mb)
    return Local(args.workers, asked.limits.memory_mb)


def told(summary: Summary) -> str:
    """A few lines on how a sweep stands, and what can be done about it."""
    lines = [
        f"{summary.done} of {summary.total} tasks are finished, {summary.failed} failed ({summary.folder})."
    ]
    if summary.waiting:
        lines.append(
            f"The budget is spent with {summary.waiting} tasks left; the same command goes on from there."
        )
    if summary.failed:
        lines.append(
            f"'sqlite3 {summary.folder}/sweep.sqlite \"select ended, message, traceback from failures\"' says why;"
            ' rerun = ["failed"] in the spec tries them again.'
        )
    if summary.old_code:
        lines.append(
            f'{summary.old_code} were run by other code or other versions; rerun = ["old code"] in the spec runs them again.'
        )
    return "\n".join(lines)


def print_rows(args: argparse.Namespace) -> int:
    """Export the rows of a store."""
    with Store(args.folder) as store:
        if args.parquet:
            write_parquet(list(store.rows()), args.folder / "rows.parquet")
            print(args.folder / "rows.parquet")
        elif args.csv:
            print(as_csv(list(store.rows())), end="")
        else:
            for line in json_lines(store.rows()):
                print(line)
    return 0


def draw_phase(args: argparse.Namespace) -> int:
    """Draw a phase diagram and print its fitted exponents."""
    chosen = dict(_pair(text) for text in args.where)
    with Store(args.folder) as store:
        rows = [row for row in store.rows() if _is_chosen(row, chosen)]
        tasks = [
            (setting, ended)
            for setting, _, ended in store.tasks()
            if _is_chosen(setting, chosen, partly=True)
        ]
    if not rows:
        raise ValueError(f"No finished task in {args.folder} has such rows.")
    found = phase_of(rows, args.x, args.y, args.value, theory=args.theory)
    cells = [((s[args.x], s[args.y]), ended) for s, ended in tasks if args.x in s and args.y in s]
    failed = frozenset(cell for cell, ended in cells if ended not in (DONE, None))
    missing = frozenset(cell for cell, ended in cells if ended is None) - failed
    found = replace(found, failed=failed, missing=missing)
    path = save_phase(found, args.folder)
    for fit in exponents(found):
        over = (
            f"95 %, t interval over {fit.num_seeds} seeds" if fit.num_seeds > 1 else "one seed, no interval"
        )
        print(f"{args.y} = {show(fit.y)}: {args.value} ∝ {power(fit, args.x)} ({over})")
    print(path)
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--where takes NAME=VALUE, got '{text}'.")
    return name, value


def _is_chosen(row: Row, chosen: dict[str, str], *, partly: bool = False) -> bool:
    """Whether a row has the chosen values; `partly`: those that it has at all."""
    return all(partly if name not in row else _is_same(row[name], text) for name, text in chosen.items())


def _is_same(value: Any, text: str) -> bool:
    try:
        return str(value) == text or float(text) == value
    except ValueError:
        return False


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "sweep": run_sweep,
    "rows": print_rows,
    "phase": draw_phase,
}
