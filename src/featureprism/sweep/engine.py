"""Run units: what is not finished goes to the executor, what ends goes to the store, and a call after a stop goes on."""

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from featureprism.context import Context, Progress, silent
from featureprism.sweep.executors import Executor, Serial
from featureprism.sweep.store import Store
from featureprism.sweep.unit import Unit
from featureprism.sweep.work import DONE, LOST, Job, Limits, Outcome, pickled

Track = Callable[
    [int, int, str], Progress
]  # told how many units have ended, of how many, and a remark; gives the progress of one
Hear = Callable[[Unit, Outcome], None]  # told of every unit that ended


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
class Summary:
    """How units stand: by how they ended, those still waiting, and those that edited code had measured before."""

    total: int
    done: int
    failed: int
    waiting: int
    aside: int
    seconds: float


def run_units(
    store: Store,
    units: Iterable[Unit],
    executor: Executor,
    *,
    context: Context = Context(),
    rules: Rules = Rules(),
    track: Track | None = None,
    hear: Hear | None = None,
) -> Summary:
    """Run what is missing, and keep each outcome as soon as it is there.

    A unit that costs its worker (dead, past its time, out of memory) is tried once more; then, like one that raises, it is
    recorded as failed, and the rest goes on.
    """
    began = time.perf_counter()
    units = list({unit.key: unit for unit in units}.values())
    aside = store.plan(units)
    before = store.endings(unit.key for unit in units)
    due = [u for u in units if u.key not in before or (rules.retry and before[u.key] != DONE)]
    if due:
        run = _Run(store, due, context, rules, track or (lambda *_: silent), hear or (lambda *_: None))
        with executor:
            run.drain(executor)
    after = store.endings(unit.key for unit in units)
    ends = Counter(after.get(unit.key, "") for unit in units)
    failed = sum(count for ended, count in ends.items() if ended not in ("", DONE))
    return Summary(len(units), ends[DONE], failed, ends[""], aside, time.perf_counter() - began)


class _Run:
    """The units of one call on their way from the plan to the store."""

    def __init__(
        self, store: Store, due: list[Unit], context: Context, rules: Rules, track: Track, hear: Hear
    ) -> None:
        self.store, self.context, self.rules, self.track, self.hear = store, context, rules, track, hear
        self.waiting = [(unit, 1) for unit in due]
        self.running: dict[str, tuple[Unit, Hashable]] = {}
        self.near: dict[Hashable, str] = {}  # what each worker was last near to
        self.pickled: dict[Callable, bytes] = {}
        self.total, self.started, self.ended, self.failed = len(due), 0, 0, 0
        self.began = time.perf_counter()

    def drain(self, executor: Executor) -> None:
        """Until nothing runs, and nothing waits or the budget is spent."""
        while self.running or self._may_start():
            for worker in executor.free():
                if self._may_start():
                    self._start(executor, worker)
            for job, outcome in executor.ended(0.2):
                self._take(job, outcome)
            self.track(self.ended, self.total, self._remark())(0.0)

    def _remark(self) -> str:
        """The rate so far, and how many failed."""
        rate = 60 * self.ended / (time.perf_counter() - self.began)
        return f"({rate:.3g} a minute{f', {self.failed} failed' if self.failed else ''})"

    def _may_start(self) -> bool:
        budget = self.rules.budget
        if not self.waiting or time.perf_counter() - self.began >= budget.seconds:
            return False
        return self.started < budget.units or self.waiting[0][1] > 1

    def _next(self, worker: Hashable) -> tuple[Unit, int]:
        """The first unit near to the last one of this worker, else the first that is near to no other worker's, else the first."""
        own, others = self.near.get(worker, ""), {self.near.get(w) for _, w in self.running.values()}
        wishes = [lambda unit: unit.near == own] if own else []
        wishes.append(lambda unit: not unit.near or unit.near not in others)
        for wish in wishes:
            for index, (unit, _) in enumerate(self.waiting):
                if wish(unit):
                    return self.waiting.pop(index)
        return self.waiting.pop(0)

    def _start(self, executor: Executor, worker: Hashable) -> None:
        unit, attempt = self._next(worker)
        if self.store.endings([unit.key]).get(unit.key) == DONE:  # by another process, meanwhile
            self.ended += 1
            self.hear(unit, Outcome(DONE))
            return
        self.near[worker], self.running[unit.key] = unit.near, (unit, worker)
        self.started += attempt == 1
        executor.start(worker, self._job(unit, attempt, isinstance(executor, Serial)))

    def _job(self, unit: Unit, attempt: int, here: bool) -> Job:
        """In this process the function itself, watched from within; for another one what can be sent there."""
        if here:
            tick = self.track(self.ended, self.total, self._remark())
            measure, context = unit.measure, replace(self.context, progress=tick)
        else:
            if unit.measure not in self.pickled:
                self.pickled[unit.measure] = pickled(unit.measure)
            measure, context = self.pickled[unit.measure], self.context.unwatched()
        return Job(unit.key, attempt, measure, unit.setting, unit.seed, context, self.rules.limits)

    def _take(self, job: Job, outcome: Outcome) -> None:
        unit, _ = self.running.pop(job.key)
        again = outcome.ended in LOST and job.attempt < self.rules.attempts
        self.store.record(unit, outcome, job.attempt, final=not again)
        if again:
            self.waiting.insert(0, (unit, job.attempt + 1))
            return
        self.ended += 1
        self.failed += outcome.ended != DONE
        self.hear(unit, outcome)
