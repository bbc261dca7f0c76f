"""Run a sweep: what is not finished goes to the executor, what ends goes to the store, and a call after a stop goes on."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from featureprism.records import Row
from featureprism.sweep.executors import Executor
from featureprism.sweep.runner import prepare_folder
from featureprism.sweep.spec import FAILED, OLD_CODE, Sweep
from featureprism.sweep.store import Known, Store, locked
from featureprism.sweep.work import DONE, LOST, Job, Outcome, Task, environment, pickled, source_hash

ATTEMPTS = 2  # for a task that costs its worker; one that raises would raise again
Track = Callable[[int, int, str], None]  # told how many tasks have ended, of how many, and a remark


@dataclass(frozen=True)
class Summary:
    """How a sweep stands: tasks by how they ended, those still waiting, and those kept though other code ran them."""

    folder: Path
    total: int
    done: int
    failed: int
    waiting: int
    old_code: int
    seconds: float


def sweep(asked: Sweep, out: Path, executor: Executor, *, track: Track | None = None) -> Summary:
    """Run what is missing, and keep each outcome in out/sweep.sqlite as soon as it is there.

    A task that costs its worker (dead, past its time, out of memory) is tried once more; then, like one that raises, it is
    recorded as failed, and the rest goes on.
    """
    began = time.perf_counter()
    prepare_folder(out)
    tasks = asked.tasks()
    with locked(out), Store(out, write=True) as store:
        store.plan(asked.what, tasks)
        own = {"function": source_hash(asked.measure)}
        code = store.version(environment() | own)
        known = store.known()
        waiting = deque(t for t in tasks if _is_due(known.get(t.key), code, asked.rerun))
        if waiting:
            run = _Run(asked, store, waiting, own, track or (lambda *_: None))
            with executor:
                run.drain(executor)
        known = store.known()
        ends = Counter(known[t.key].ended if t.key in known else "" for t in tasks)
        old = sum(t.key in known and known[t.key].code != code for t in tasks)
    failed = sum(count for ended, count in ends.items() if ended not in ("", DONE))
    return Summary(out, len(tasks), ends[DONE], failed, ends[""], old, time.perf_counter() - began)


def _is_due(known: Known | None, code: str, rerun: frozenset[str]) -> bool:
    if known is None:
        return True
    return (FAILED in rerun and known.ended != DONE) or (OLD_CODE in rerun and known.code != code)


class _Run:
    """The tasks of one call on their way from the plan to the store."""

    def __init__(self, asked: Sweep, store: Store, waiting: deque[Task], own: Row, track: Track) -> None:
        self.asked, self.store, self.waiting, self.own, self.track = asked, store, waiting, own, track
        self.measure = pickled(asked.measure)
        self.began = time.perf_counter()
        self.deadline = self.began + asked.budget.seconds
        self.total, self.started, self.ended, self.failed, self.running = len(waiting), 0, 0, 0, 0

    def drain(self, executor: Executor) -> None:
        """Until nothing runs, and nothing waits or the budget is spent."""
        while self.running or self._may_start():
            while executor.num_free() and self._may_start():
                self._start(executor, self.waiting.popleft())
            for job, outcome in executor.ended(0.2):
                self._take(job.task, outcome)
            self.track(self.ended, self.total, self._note())

    def _note(self) -> str:
        """The rate so far, and how many failed."""
        rate = 60 * self.ended / (time.perf_counter() - self.began)
        return f"({rate:.3g} a minute{f', {self.failed} failed' if self.failed else ''})"

    def _may_start(self) -> bool:
        if not self.waiting or time.perf_counter() >= self.deadline:
            return False
        return self.started < self.asked.budget.tasks or self.waiting[0].attempt > 1

    def _start(self, executor: Executor, task: Task) -> None:
        executor.start(Job(self.measure, task, self.asked.limits))
        self.started += task.attempt == 1
        self.running += 1

    def _take(self, task: Task, outcome: Outcome) -> None:
        self.running -= 1
        again = outcome.ended in LOST and task.attempt < ATTEMPTS
        code = self.store.version({**environment(), **outcome.environment, **self.own})
        self.store.record(task, outcome, code, final=not again)
        if again:
            self.waiting.appendleft(replace(task, attempt=task.attempt + 1))
        else:
            self.ended += 1
            self.failed += outcome.ended != DONE
