"""sweep, rows and phase: many settings, what they gave, and its picture."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from featureprism.commands.common import chosen_executor, context_from
from featureprism.lab import Experiment
from featureprism.records import Row
from featureprism.report import progress_bar
from featureprism.report.phase import exponents, is_place, phase_of, power, save_phase, show
from featureprism.sweep import Local, Serial, Store, Summary, read_spec, sweep
from featureprism.sweep.export import as_csv, json_lines, write_parquet
from featureprism.sweep.work import DONE

BAD_USAGE = 2


def run_sweep(args: argparse.Namespace) -> int:
    """Run what is missing and say how the sweep stands."""
    asked, context = read_spec(args.spec), context_from(args, networks=args.out / "networks")
    executor = chosen_executor(args, asked.rules.limits.memory_mb)
    if asked.rules.limits.seconds and isinstance(executor, Serial):
        executor = Local(1)  # a time limit ends the process
    with progress_bar(asked.what) as track:
        summary = sweep(asked, args.out, executor, context=context, track=track)
    print(told(summary, args.out))
    if isinstance(asked.source, Experiment) and summary.done:
        print(f"claims.json in {args.out} judges its claims at every finished point.")
    return BAD_USAGE if summary.failed == summary.total else 0


def told(summary: Summary, folder: Path) -> str:
    """A few lines on how a sweep stands, and what can be done about it."""
    lines = [f"{summary.done} of {summary.total} units are finished, {summary.failed} failed ({folder})."]
    if summary.aside:
        lines.append(
            f"{summary.aside} had been measured with code or versions that have changed since: they were measured again."
        )
    if summary.waiting:
        lines.append(
            f"The budget is spent with {summary.waiting} units left; the same command goes on from there."
        )
    if summary.failed:
        lines.append(
            f"'sqlite3 {folder}/units.sqlite \"select ended, message, traceback from failures\"' says why;"
            ' rerun = ["failed"] in the spec tries them again.'
        )
    return "\n".join(lines)


def item_of(store: Store, asked: str | None) -> str:
    """What was asked for, or the only thing there is."""
    known = store.whats()
    if asked is None and len(known) == 1:
        return known[0]
    if asked not in known:
        raise ValueError(
            f"{store.path.parent} holds {', '.join(known) or 'nothing'}: choose one with --item."
        )
    return asked


def print_rows(args: argparse.Namespace) -> int:
    """Export the rows of a store."""
    with Store(args.folder) as store:
        rows = store.rows(item_of(store, args.item))
        if args.parquet:
            write_parquet(list(rows), args.folder / "rows.parquet")
            print(args.folder / "rows.parquet")
        elif args.csv:
            print(as_csv(list(rows)), end="")
        else:
            for line in json_lines(rows):
                print(line)
    return 0


def draw_phase(args: argparse.Namespace) -> int:
    """Draw a phase diagram and print its fitted exponents."""
    chosen = dict(_pair(text) for text in args.where)
    with Store(args.folder) as store:
        item = item_of(store, args.item)
        rows = [row for row in store.rows(item) if _is_chosen(row, chosen)]
        planned = [
            (setting, ended)
            for setting, _, ended in store.planned(item)
            if _is_chosen(setting, chosen, partly=True)
        ]
    if not rows:
        raise ValueError(f"No finished unit in {args.folder} has such rows.")
    found = phase_of(rows, args.x, args.y, args.value, theory=args.theory)
    places = [(tuple(s.get(name) for name in (args.x, args.y)), ended) for s, ended in planned]
    cells = [(cell, ended) for cell, ended in places if all(map(is_place, cell))]
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
