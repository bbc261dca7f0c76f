"""sweep and rows: many settings, and what they gave."""

import argparse
from collections.abc import Callable
from pathlib import Path

from featureprism.report import progress_bar
from featureprism.sweep import Cluster, Executor, Local, Store, Summary, Sweep, read_spec, sweep
from featureprism.sweep.export import as_csv, json_lines, write_parquet

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


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {"sweep": run_sweep, "rows": print_rows}
