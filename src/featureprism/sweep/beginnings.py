"""What a unit will cost that nobody has timed: it is begun here, and its own reports of progress tell the rest."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from featureprism.context import Context
from featureprism.lab import Measure
from featureprism.records import Row
from featureprism.sweep.engine import Rules, Track, run_units
from featureprism.sweep.executors import Local
from featureprism.sweep.store import Store
from featureprism.sweep.unit import Unit
from featureprism.sweep.work import Limits

IN_ALL = 60.0  # seconds of each worker, shared by all that is begun
LEAST, MOST = 0.3, 10.0  # seconds of one unit
LITTLE = 0.1  # a share of the whole that is soon followed by another
LONGER = 10  # times that for one whose pace is not settled
PATIENCE = 20.0  # seconds after which a unit that has reported nothing is given up


class _Enough(BaseException):
    """Ends a measurement from within its progress; no `except Exception` on the way stops it."""


@dataclass(frozen=True)
class Beginning:
    """Seconds that a unit will take, those of them that were measured, and the largest memory until then."""

    seconds: float
    seen: float
    memory_mb: float


def beginnings(
    units: Sequence[Unit], context: Context, executor: Local, track: Track | None = None
) -> dict[str, Beginning]:
    """Begin units and keep nothing of what they measure; by their keys, without those that told nothing in time."""
    if not units:
        return {}
    enough = max(LEAST, min(MOST, IN_ALL * executor.size / len(units)))
    begun = [replace(unit, measure=partial(begin, unit.measure, enough)) for unit in units]
    rules = Rules(limits=Limits(seconds=LONGER * enough + PATIENCE), attempts=1)
    with TemporaryDirectory() as folder, Store(Path(folder), write=True) as store:
        apart = replace(context, networks=Path(folder) / "networks")
        run_units(store, begun, executor, context=apart, rules=rules, track=track)
        return {
            unit.key: Beginning(row["whole_seconds"], row["seen_seconds"], store.memory_of([own]))
            for unit, own in zip(units, begun, strict=True)
            for row in store.rows_of([own])
        }


def begin(
    measure: Measure,
    enough: float,
    setting: Any,
    seed: int,
    context: Context,
    clock: Callable[[], float] = time.process_time,
) -> list[Row]:
    """Measure up to the first report of progress after `enough` seconds; one row tells how long the whole will take.

    One that still gets faster and faster, as flows do whose steps grow, goes on for up to LONGER times as much.
    """
    reports: list[tuple[float, float]] = []
    began, look = clock(), enough

    def hear(done: float) -> None:
        nonlocal look
        now = clock() - began
        reports.append((now, done))
        if now < look or done <= 0 or (done < LITTLE and is_alone(reports)):
            return
        if now >= LONGER * enough or not gets_faster(reports):
            raise _Enough
        look = 1.2 * now

    try:
        measure(setting, seed, replace(context, progress=hear))
    except _Enough:
        return [{"seen_seconds": reports[-1][0], "whole_seconds": whole(reports)}]
    seconds = clock() - began
    return [{"seen_seconds": seconds, "whole_seconds": seconds}]


def is_alone(reports: Sequence[tuple[float, float]]) -> bool:
    """Whether the last report is the only one in the second half of the time: its pace is then that of what came once, first."""
    return len(reports) < 2 or reports[-2][0] < reports[-1][0] / 2


def gets_faster(reports: Sequence[tuple[float, float]]) -> bool:
    """Whether half of the time ago the whole seemed to take more than half as long again."""
    before = [report for report in reports if report[0] <= reports[-1][0] / 2]
    return bool(before) and before[-1][1] > 0 and whole(before) > 1.5 * whole(reports)


def whole(reports: Sequence[tuple[float, float]]) -> float:
    """The seconds at which the share done will be 1, if it goes on as in the second half of the time seen.

    Reports are pairs of seconds and the share done. The first half is left out: data are drawn, an adaptive step grows.
    """
    now, much = reports[-1]
    early, little = next(report for report in reports if report[0] >= now / 2)
    if much <= little:  # no two reports: what came before the last one goes on
        early, little = 0.0, 0.0
    return now + (1 - much) * (now - early) / (much - little)
