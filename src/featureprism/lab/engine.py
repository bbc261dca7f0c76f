"""Run units: what is not finished goes to the executor, what ends goes to the store, and a call after a stop goes on.

Everything that happens is one stream of events: `for event in unit_events(...)`. Progress within a unit that runs in this process goes
to `context.progress`. Processes that share a store share the work: each takes units that no living one has taken.
"""

import itertools
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from featureprism.lab.context import Context
from featureprism.lab.executors import Executor, Serial
from featureprism.lab.store import MINE, TAKEN, Store
from featureprism.lab.unit import Unit
from featureprism.lab.work import DONE, LOST, RETRYABLE, Ending, Job, Limits, pickled

WAIT = 0.2  # seconds after which a step of the stream comes even if nothing has ended
BATCH = 5000  # units that are planned in one transaction
TOGETHER, EACH = (
    0.2,
    0.005,
)  # short units go to a worker together, as many as take so many seconds; more for more workers
MOST = 1000  # units that go together
Value = TypeVar("Value")


@dataclass(frozen=True)
class Budget:
    """When to stop starting units: after so many seconds, or so many units; what is left waits for the next call."""

    seconds: float = math.inf
    units: float = math.inf


@dataclass(frozen=True)
class Rules:
    """What units may use, when to stop, and what is tried again.

    Parameters
    ----------
    limits : Limits
        What one unit may use.
    budget : Budget
        When to stop; what is left waits for the next call.
    retry : bool
        Try units again that failed before.
    attempts : int
        Attempts for a unit that costs its worker; one that raises is not tried again.
    """

    limits: Limits = Limits()
    budget: Budget = Budget()
    retry: bool = True
    attempts: int = 2


@dataclass(frozen=True)
class Step:
    """How far a run is; comes several times a second, also while units are planned."""

    ended: int
    total: int
    failed: int = 0
    seconds: float = 0.0
    is_plan: bool = False

    def __str__(self) -> str:
        if self.is_plan:
            return "planned"
        per_minute = 60 * self.ended / max(self.seconds, 1e-9)
        return f"({per_minute:.3g} a minute{f', {self.failed} failed' if self.failed else ''})"


@dataclass(frozen=True)
class UnitEnded:
    """A unit has ended, for good or ill, and is in the store."""

    unit: Unit
    ending: Ending


@dataclass(frozen=True)
class Remark:
    """Something about the store that people should know."""

    text: str


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
    total: int = 0,
) -> Generator[Step | UnitEnded | Remark, None, Summary]:
    """Run what is missing; yields every step, every unit that ends and remarks about the store, and returns the summary.

    A unit that costs its worker (dead, past its time, out of memory) is tried once more; then, like one that raises, it is
    recorded as failed, and the rest goes on. `total`: how many units there are, if that is known beforehand.
    """
    began = time.perf_counter()
    plan = _Plan(store, rules.retry)
    if store.damaged:
        yield Remark(f"Parts of {store.path} were damaged: what they held is measured again.")
    for some in batches(units, BATCH):
        plan.add(some)
        planned = len(plan.keys)
        yield Step(planned, max(total, planned), seconds=time.perf_counter() - began, is_plan=True)
    run = _Run(store, plan.due, context, rules)
    if plan.due:
        with executor:
            yield from run.events(executor)
    ends = plan.ends + run.ends
    failed = sum(count for status, count in ends.items() if status != DONE)
    waiting = len(plan.keys) - ends.total()
    if mixed := store.mixture():
        yield Remark(mixed)
    seconds = time.perf_counter() - began
    return Summary(len(plan.keys), ends[DONE], failed, waiting, plan.stale, seconds)


def batches(values: Iterable[Value], size: int) -> Iterator[list[Value]]:
    """Lists of `size` values, the last one shorter."""
    each = iter(values)
    while some := list(itertools.islice(each, size)):
        yield some


class _Plan:
    """Units that were asked for, each once: how many have ended how, and which are due."""

    def __init__(self, store: Store, retry: bool) -> None:
        self.store, self.retry = store, retry
        self.keys: set[str] = set()
        self.due: list[Unit] = []
        self.ends: Counter[str] = Counter()
        self.stale = 0

    def add(self, units: list[Unit]) -> None:
        """Plan some more."""
        new = [u for u in {unit.key: unit for unit in units}.values() if u.key not in self.keys]
        self.keys.update(unit.key for unit in new)
        endings, stale = self.store.plan(new, retry=self.retry)
        self.stale += stale
        self.ends.update(ended for ended in endings if ended)
        self.due += [unit for unit, ended in zip(new, endings, strict=True) if not ended]


@dataclass(frozen=True)
class _Due:
    """A unit that waits for a worker; `alone` after it was lost among others."""

    unit: Unit
    attempt: int = 1
    alone: bool = False


class _Run:
    """The units of one call on their way from the plan to the store."""

    def __init__(self, store: Store, due: Sequence[Unit], context: Context, rules: Rules) -> None:
        self.store, self.context, self.rules = store, context, rules
        self.again: deque[_Due] = deque()  # lost or to be repeated: these come first
        self.waiting: dict[str, deque[Unit]] = {}  # by affinity
        for unit in due:
            self.waiting.setdefault(unit.affinity, deque()).append(unit)
        self.elsewhere: deque[Unit] = deque()  # that another process works on
        self.running: dict[Hashable, tuple[list[_Due], float]] = {}  # what each worker has, and since when
        self.affinity: dict[Hashable, str] = {}  # of the last unit of each worker
        self.pickled: dict[Callable, bytes] = {}
        self.ends: Counter[str] = Counter()
        self.total, self.started = len(due), 0
        self.seconds_each = math.inf  # of the last units, with what sending them took
        self.began = time.perf_counter()

    def events(self, executor: Executor) -> Iterator[Step | UnitEnded]:
        """Start and take back units until nothing runs, and nothing waits or the budget is spent."""
        yield self._step()
        while self.running or self._may_start() or self._may_wait():
            for worker in executor.free():
                if self._may_start():
                    yield from self._start(executor, worker)
            if self.running:
                for worker, endings in executor.finished(WAIT):
                    yield from self._take(worker, endings)
            elif not self._may_start() and self.elsewhere:
                time.sleep(WAIT)
            yield from self._look_elsewhere()
            yield self._step()

    def _step(self) -> Step:
        ended = self.ends.total()
        return Step(ended, self.total, ended - self.ends[DONE], time.perf_counter() - self.began)

    def _has_time(self) -> bool:
        return time.perf_counter() - self.began < self.rules.budget.seconds

    def _may_start(self) -> bool:
        if not self._has_time():
            return False
        return bool(self.again) or (bool(self.waiting) and self.started < self.rules.budget.units)

    def _may_wait(self) -> bool:
        """Whether to wait for units that another process works on."""
        return bool(self.elsewhere) and self._has_time() and self.started < self.rules.budget.units

    def _look_elsewhere(self) -> Iterator[UnitEnded]:
        """See how some of the units do that other processes work on; those of a dead one are due here."""
        some = [self.elsewhere.popleft() for _ in range(min(len(self.elsewhere), 20))]
        for unit, answer in zip(some, self.store.claim(some) if some else [], strict=True):
            if answer == MINE:
                self.waiting.setdefault(unit.affinity, deque()).append(unit)
            else:
                yield from self._not_mine(unit, answer)

    def _not_mine(self, unit: Unit, answer: str) -> Iterator[UnitEnded]:
        if answer == TAKEN:
            self.elsewhere.append(unit)
        else:
            self.ends[answer] += 1
            yield UnitEnded(unit, Ending(answer))

    def _next(self, worker: Hashable) -> _Due:
        """The first unit of this worker's affinity, else the first of no other worker's, else the first."""
        if self.again:
            return self.again.popleft()
        mine = self.affinity.get(worker, "")
        others = {self.affinity.get(busy) for busy in self.running}
        free = (a for a in self.waiting if not a or a not in others)
        chosen = mine if mine in self.waiting and mine else next(free, next(iter(self.waiting)))
        unit = self.waiting[chosen].popleft()
        if not self.waiting[chosen]:
            del self.waiting[chosen]
        return _Due(unit)

    def _start(self, executor: Executor, worker: Hashable) -> Iterator[UnitEnded]:
        """Give a worker what it may run now: one unit, or several short ones."""
        some: list[_Due] = []
        slots = self._free_slots(executor)
        while not some and self._may_start():
            while len(some) < slots and self._may_start() and not (some and self.again):
                due = self._next(worker)
                self.started += due.attempt == 1 and not due.alone
                self.affinity[worker] = due.unit.affinity
                some.append(due)
                slots = 1 if due.alone else slots
            answers = self.store.claim([due.unit for due in some])
            for due, answer in zip(some, answers, strict=True):
                if answer != MINE:
                    self.started -= 1
                    yield from self._not_mine(due.unit, answer)
            some = [due for due, answer in zip(some, answers, strict=True) if answer == MINE]
        if some:
            self.running[worker] = some, time.perf_counter()
            executor.start(worker, [self._job(due, is_here=isinstance(executor, Serial)) for due in some])

    def _free_slots(self, executor: Executor) -> int:
        """How many units a worker gets at once; one where its death must be nobody else's."""
        if isinstance(executor, Serial) or self.rules.limits != Limits():
            return 1
        left = sum(map(len, self.waiting.values())) // (4 * max(len(self.running), 1))
        seconds = max(TOGETHER, EACH * len(self.running))
        return max(1, min(MOST, int(seconds / self.seconds_each), left))

    def _job(self, due: _Due, *, is_here: bool) -> Job:
        """In this process the function itself, with its progress; for another one what can be sent there."""
        unit = due.unit
        if is_here:
            measure, context = unit.measure, self.context
        else:
            if unit.measure not in self.pickled:
                self.pickled[unit.measure] = pickled(unit.measure)
            measure, context = self.pickled[unit.measure], self.context.unwatched()
        return Job(measure, unit.setting, unit.seed, context, self.rules.limits)

    def _take(self, worker: Hashable, endings: Sequence[Ending]) -> Iterator[UnitEnded]:
        some, since = self.running.pop(worker)
        self.seconds_each = max((time.perf_counter() - since) / len(some), 1e-6)
        records = []
        for due, ending in zip(some, endings, strict=True):
            if ending.status == LOST:
                self.again.append(_Due(due.unit, due.attempt, alone=True))
                continue
            is_final = ending.status not in RETRYABLE or due.attempt >= self.rules.attempts
            records.append((due.unit, ending, due.attempt, is_final))
            if not is_final:
                self.again.append(_Due(due.unit, due.attempt + 1, alone=True))
        self.store.record(records)
        for unit, ending, _, is_final in records:
            if is_final:
                self.ends[ending.status] += 1
                yield UnitEnded(unit, ending)
