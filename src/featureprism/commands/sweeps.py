"""sweep, rows and phase: many settings, what they gave, and its picture."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from featureprism.commands.common import chosen_executor, context_from
from featureprism.lab import Experiment, Local, Serial, Store, read_spec
from featureprism.lab.engine import Remark, Summary
from featureprism.lab.export import as_csv, json_lines, write_parquet
from featureprism.lab.phase import is_place, phase_of, power, rates, save_phase, show
from featureprism.lab.rows import Row
from featureprism.lab.sweeps import sweep_events
from featureprism.lab.terminal import progress_bar
from featureprism.lab.work import DONE

BAD_USAGE, DAMAGED = 2, 3


def run_sweep(args: argparse.Namespace) -> int:
    """Run what is missing and say how the sweep stands."""
    plan, context = read_spec(args.spec), context_from(args, networks=args.out / "networks")
    executor = chosen_executor(args, plan.rules.limits.memory_mb)
    if plan.rules.limits.seconds and isinstance(executor, Serial):
        executor = Local(1)  # a time limit ends the process
    with progress_bar(plan.name) as bar:
        events = sweep_events(plan, args.out, executor, context=replace(context, progress=bar.within))
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                summary: Summary = end.value
                break
            bar.show(event)
            if isinstance(event, Remark):
                print(f"featureprism: {event.text}", file=sys.stderr)
    print(in_words(summary, args.out))
    if isinstance(plan.source, Experiment) and summary.done:
        print(_judged(args.out / "claims.json"))
    return BAD_USAGE if summary.failed == summary.total else 0


def _judged(path: Path) -> str:
    """What claims.json holds; a point at which some claims cannot be judged is no failure."""
    points = json.loads(path.read_text(encoding="utf-8"))
    open_points = [point for point in points if "not judged" in point]
    words = f"{path} judges its claims at every finished point"
    if not open_points:
        return f"{words}."
    reason = open_points[0]["not judged"]
    return f"{words}; at {len(open_points)} of {len(points)} some are not judged: {reason}"


def in_words(summary: Summary, folder: Path) -> str:
    """A few lines on how a sweep stands, and what can be done about it."""
    lines = [f"{summary.done} of {summary.total} units are finished, {summary.failed} failed ({folder})."]
    if summary.stale:
        lines.append(
            f"{summary.stale} had been measured with code or versions that have changed since: they were measured again."
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


def item_of(store: Store, name: str | None) -> str:
    """The item of that name, or the only one there is."""
    known = store.names()
    if name is None and len(known) == 1:
        return known[0]
    if name not in known:
        raise ValueError(
            f"{store.path.parent} holds {', '.join(known) or 'nothing'}: choose one with --item."
        )
    return name


def print_rows(args: argparse.Namespace) -> int:
    """Export the rows of a store."""
    with Store(args.folder) as store:
        item = item_of(store, args.item)
        rows = store.rows(item)
        if args.parquet:
            write_parquet(list(rows), args.folder / "rows.parquet")
            print(args.folder / "rows.parquet")
        elif args.csv:
            print(as_csv(list(rows)), end="")
        else:
            for line in json_lines(rows):
                print(line)
        return _caveats(store, item)


def _caveats(store: Store, item: str) -> int:
    """Say on stderr what somebody who uses these rows should know; the exit code."""
    endings = [ended for _, _, ended in store.planned(item)]
    finished = endings.count(DONE)
    if finished < len(endings):
        print(f"featureprism: {finished} of {len(endings)} units of {item} are finished.", file=sys.stderr)
    if mixed := store.mixture():
        print(f"featureprism: {mixed}", file=sys.stderr)
    if store.damaged:
        words = "are damaged and left out; the same 'sweep' or 'reproduce' measures them again."
        print(f"featureprism: Parts of {store.path} {words}", file=sys.stderr)
    return DAMAGED if store.damaged else 0


def draw_phase(args: argparse.Namespace) -> int:
    """Draw a phase diagram and print its fitted exponents."""
    chosen = dict(_pair(text) for text in args.where)
    with Store(args.folder) as store:
        item = item_of(store, args.item)
        rows = [row for row in store.rows(item) if _is_chosen(row, chosen)]
        planned = [
            (setting, status)
            for setting, _, status in store.planned(item)
            if _is_chosen(setting, chosen, partly=True)
        ]
    if not rows:
        raise ValueError(f"No finished unit in {args.folder} has such rows.")
    phase = phase_of(rows, args.x, args.y, args.value, theory=args.theory)
    places = [(tuple(s.get(name) for name in (args.x, args.y)), status) for s, status in planned]
    cells = [(cell, status) for cell, status in places if all(map(is_place, cell))]
    failed = frozenset(cell for cell, status in cells if status not in (DONE, None))
    missing = frozenset(cell for cell, status in cells if status is None) - failed
    path = save_phase(replace(phase, failed=failed, missing=missing), args.folder)
    for y, fit in rates(phase).items():
        num = len(fit.exponents)
        over = f"95 %, t interval over {num} seeds" if num > 1 else "one seed, no interval"
        sign = "is" if fit.is_power_law is False else "∝"
        print(f"{args.y} = {show(y)}: {args.value} {sign} {power(fit, args.x)} ({over})")
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
