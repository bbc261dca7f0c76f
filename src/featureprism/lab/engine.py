"""Run units: what is not finished goes to the executor, what ends goes to the store, and a call after a stop goes on.

Everything that happens is one stream of events: `for event in unit_events(...)`. Progress within a unit that runs in this process goes
to `context.progress`.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from featureprism.lab.context import Context
from featureprism.lab.executors import Executor, Serial
from featureprism.lab.store import Store
from featureprism.lab.unit import Unit
from featureprism.lab.work import DONE, RETRYABLE, Ending, Job, Limits, pickled

WAIT = 0.2  # seconds after which a step of the stream comes even if nothing has ended
Value = TypeVar("Value")


@dataclass(frozen=True)
class Budget:
    """When to stop starting units: after so many seconds, or so many units; what is left waits for the next call."""

    seconds: float = math.inf
    units: float = math.inf


@dataclass(frozen=True)
class Rules:
    """What units may use, when to stop, and whether those that failed before are tried again.

    `attempts`: for a unit that costs its worker; one that raises would raise again.
    """

    limits: Limits = Limits()
    budget: Budget = Budget()
    retry: bool = True
    attempts: int = 2


@dataclass(frozen=True)
class Step:
    """How far a run is; comes several times a second."""

    ended: int
    total: int
    failed: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        per_minute = 60 * self.ended / max(self.seconds, 1e-9)
        return f"({per_minute:.3g} a minute{f', {self.failed} failed' if self.failed else ''})"


@dataclass(frozen=True)
class UnitEnded:
    """A unit has ended, for good or ill, and is in the store."""

    unit: Unit
    ending: Ending


@dataclass(frozen=True)
class Summary:
    """How many units are done, failed and waiting, and how many results became stale because code was edited."""

    total: int
    done: int
    failed: int
    waiting: int
    stale: int
    seconds: float


def run_units(
    store: Store,
    units: Iterable[Unit],
    executor: Executor,
    *,
    context: Context = Context(),
    rules: Rules = Rules(),
) -> Summary:
    """Run what is missing, and keep each ending as soon as it is there; see `unit_events`."""
    return last(unit_events(store, units, executor, context=context, rules=rules))


def last(events: Generator[object, None, Value]) -> Value:
    """Let a stream of events run to its end, and return its result."""
    while True:
        try:
            next(events)
        except StopIteration as end:
            return end.value


def unit_events(
    store: Store,
    units: Iterable[Unit],
    executor: Executor,
    *,
    context: Context = Context(),
    rules: Rules = Rules(),
) -> Generator[Step | UnitEnded, None, Summary]:
    """Run what is missing; yields every step and every unit that ends, and returns the summary.

    A unit that costs its worker (dead, past its time, out of memory) is tried once more; then, like one that raises, it is
    recorded as failed, and the rest goes on.
    """
    began = time.perf_counter()
    units = list({unit.key: unit for unit in units}.values())
    stale = store.plan(units)
    before = store.statuses(unit.key for unit in units)
    due = [u for u in units if u.key not in before or (rules.retry and before[u.key] != DONE)]
    if due:
        with executor:
            yield from _Run(store, due, context, rules).events(executor)
    after = store.statuses(unit.key for unit in units)
    counts = Counter(after.get(unit.key, "") for unit in units)
    failed = sum(count for status, count in counts.items() if status not in ("", DONE))
    return Summary(len(units), counts[DONE], failed, counts[""], stale, time.perf_counter() - began)


class _Run:
    """The units of one call on their way from the plan to the store."""

    def __init__(self, store: Store, due: list[Unit], context: Context, rules: Rules) -> None:
        self.store, self.context, self.rules = store, context, rules
        self.waiting = [(unit, 1) for unit in due]
        self.running: dict[str, tuple[Unit, Hashable]] = {}
        self.affinity: dict[Hashable, str] = {}  # of the last unit of each worker
        self.pickled: dict[Callable, bytes] = {}
        self.total, self.started, self.ended, self.failed = len(due), 0, 0, 0
        self.began = time.perf_counter()

    def events(self, executor: Executor) -> Iterator[Step | UnitEnded]:
        """Start and take back units until nothing runs, and nothing waits or the budget is spent."""
        yield self._step()
        while self.running or self._may_start():
            for worker in executor.free():
                if self._may_start():
                    yield from self._start(executor, worker)
            for job, ending in executor.finished(WAIT):
                yield from self._take(job, ending)
            yield self._step()

    def _step(self) -> Step:
        return Step(self.ended, self.total, self.failed, time.perf_counter() - self.began)

    def _may_start(self) -> bool:
        budget = self.rules.budget
        if not self.waiting or time.perf_counter() - self.began >= budget.seconds:
            return False
        return self.started < budget.units or self.waiting[0][1] > 1

    def _next(self, worker: Hashable) -> tuple[Unit, int]:
        """The first unit of this worker's affinity, else the first of no other worker's, else the first."""
        mine = self.affinity.get(worker, "")
        others = {self.affinity.get(busy) for _, busy in self.running.values()}
        wishes = [lambda unit: unit.affinity == mine] if mine else []
        wishes.append(lambda unit: not unit.affinity or unit.affinity not in others)
        for wish in wishes:
            for index, (unit, _) in enumerate(self.waiting):
                if wish(unit):
                    return self.waiting.pop(index)
        return self.waiting.pop(0)

    def _start(self, executor: Executor, worker: Hashable) -> Iterator[UnitEnded]:
        unit, attempt = self._next(worker)
        if self.store.statuses([unit.key]).get(unit.key) == DONE:  # by another process, meanwhile
            self.ended += 1
            yield UnitEnded(unit, Ending(DONE))
            return
        self.affinity[worker], self.running[unit.key] = unit.affinity, (unit, worker)
        self.started += attempt == 1
        executor.start(worker, self._job(unit, attempt, in_this_process=isinstance(executor, Serial)))

    def _job(self, unit: Unit, attempt: int, *, in_this_process: bool) -> Job:
        """In this process the function itself, with its progress; for another one what can be sent there."""
        if in_this_process:
            measure, context = unit.measure, self.context
        else:
            if unit.measure not in self.pickled:
                self.pickled[unit.measure] = pickled(unit.measure)
            measure, context = self.pickled[unit.measure], self.context.unwatched()
        return Job(unit.key, attempt, measure, unit.setting, unit.seed, context, self.rules.limits)

    def _take(self, job: Job, ending: Ending) -> Iterator[UnitEnded]:
        unit, _ = self.running.pop(job.key)
        again = ending.status in RETRYABLE and job.attempt < self.rules.attempts
        self.store.record(unit, ending, job.attempt, final=not again)
        if again:
            self.waiting.insert(0, (unit, job.attempt + 1))
            return
        self.ended += 1
        self.failed += ending.status != DONE
        yield UnitEnded(unit, ending)
