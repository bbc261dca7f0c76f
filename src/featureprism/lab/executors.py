"""Where units run: in this process, or in local processes with loky. See cluster.py for Dask.

A local worker is a loky pool of one process with one unit at a time. When its process dies there is no doubt which unit did it,
no neighbour is harmed, and a new process takes its place.
"""

import os
import time
import warnings
from collections.abc import Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from joblib.externals.loky import BrokenProcessPool, ProcessPoolExecutor, cpu_count

from featureprism._threads import one_thread
from featureprism.lab.work import (
    DIED,
    LOST,
    MB,
    RAISED,
    TIME,
    WORKER_ENV,
    Ending,
    Job,
    Limits,
    enter_worker,
    run_jobs,
)

OVERDUE = 60.0  # seconds past its time limit after which a unit that has not ended its worker is given up, with the worker
WORKER_MB = 500  # what a worker holds before its first unit: Python, torch, featureprism
Finished = list[tuple[Hashable, list[Ending]]]


@runtime_checkable
class Executor(Protocol):
    """Takes jobs while it has free workers, and hands back how they ended, those of a worker together."""

    def __enter__(self) -> "Executor": ...

    def __exit__(self, *error: object) -> None: ...

    def free(self) -> list[Hashable]:
        """The workers that could start a job now."""
        ...

    def start(self, worker: Hashable, jobs: Sequence[Job]) -> None:
        """Start jobs on a free worker, one after the other."""
        ...

    def finished(self, timeout: float) -> Finished:
        """Workers whose jobs have ended since the last call, and how; waits for one, but no longer than `timeout` seconds."""
        ...


class Serial:
    """One unit after the other in this process, watched from within; nothing protects the process from them."""

    def __init__(self) -> None:
        self._jobs: Sequence[Job] = ()
        self._threads = ExitStack()

    def __enter__(self) -> "Serial":
        self._threads.enter_context(one_thread())
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.close()

    def free(self) -> list[Hashable]:
        return [] if self._jobs else [0]

    def start(self, worker: Hashable, jobs: Sequence[Job]) -> None:
        if any(job.limits != Limits() for job in jobs):
            raise ValueError(
                "Limits need worker processes: use the local executor instead of the serial one."
            )
        self._jobs = jobs

    def finished(self, timeout: float) -> Finished:
        jobs, self._jobs = self._jobs, ()
        return [(0, run_jobs(jobs))] if jobs else []


@dataclass
class _Worker:
    """A pool of one process and what it is doing."""

    pool: ProcessPoolExecutor
    jobs: Sequence[Job] = ()
    future: Future | None = None
    began: float = 0.0

    @property
    def is_overdue(self) -> bool:
        """Whether its process should long be gone."""
        return past_due(self.jobs, time.perf_counter() - self.began)


class Local:
    """Run units in processes of this machine.

    Parameters
    ----------
    workers : int, optional
        Processes, fewer if memory does not suffice; by default one for each core.
    memory_mb : float, optional
        Memory that each process needs.
    """

    def __init__(self, workers: int | None = None, memory_mb: float | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"--workers must be at least 1, got {workers}.")
        self.size = affordable(workers or cpu_count(), memory_mb)
        self._workers: list[_Worker] = []
        self._quiet = ExitStack()

    def __enter__(self) -> "Local":
        self._quiet.enter_context(warnings.catch_warnings())
        # loky replaces a worker that has grown, which is what we want; turned into an error this warning would end its thread
        warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
        self._workers = [_Worker(_pool()) for _ in range(self.size)]
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.pool.shutdown(wait=True, kill_workers=True)
        self._quiet.close()

    def free(self) -> list[Hashable]:
        return [index for index, worker in enumerate(self._workers) if not worker.jobs]

    def start(self, worker: Hashable, jobs: Sequence[Job]) -> None:
        assert isinstance(worker, int)
        chosen = self._workers[worker]
        chosen.jobs, chosen.began = jobs, time.perf_counter()
        chosen.future = self._submit(chosen, jobs)

    def finished(self, timeout: float) -> Finished:
        busy = [(i, w) for i, w in enumerate(self._workers) if w.future]
        wait([w.future for _, w in busy if w.future], timeout, FIRST_COMPLETED)
        return [(i, self._take(w)) for i, w in busy if w.future and (w.future.done() or w.is_overdue)]

    def _submit(self, worker: _Worker, jobs: Sequence[Job]) -> Future:
        try:
            return worker.pool.submit(run_jobs, jobs)
        except BrokenProcessPool:  # it died between two units
            self._renew(worker)
            return worker.pool.submit(run_jobs, jobs)

    def _take(self, worker: _Worker) -> list[Ending]:
        """How the jobs of a worker ended, which is free again afterwards."""
        jobs, future = worker.jobs, worker.future
        assert future is not None
        seconds = time.perf_counter() - worker.began
        worker.jobs, worker.future = (), None
        if not future.done():
            self._renew(worker)
            return ended_alike(jobs, Ending(TIME, message="the worker had to be killed", seconds=seconds))
        error = future.exception()
        if error is None:
            return future.result()
        text = " ".join(str(error).split())
        if not isinstance(error, BrokenProcessPool):
            return ended_alike(
                jobs, Ending(RAISED, message=f"{type(error).__name__}: {text}", seconds=seconds)
            )
        self._renew(worker)
        status = TIME if jobs[0].limits.seconds and "SIGALRM" in text else DIED
        return ended_alike(jobs, Ending(status, message=text, seconds=seconds))

    def _renew(self, worker: _Worker) -> None:
        worker.pool.shutdown(wait=True, kill_workers=True)
        worker.pool = _pool()


def ended_alike(jobs: Sequence[Job], ending: Ending) -> list[Ending]:
    """What is known of jobs that were lost together: it is the ending of one job, but of several nobody knows which it was."""
    return [ending] if len(jobs) == 1 else [Ending(LOST)] * len(jobs)


def past_due(jobs: Sequence[Job], seconds: float) -> bool:
    """Whether jobs have run so long that their time limits must have failed."""
    limits = [job.limits.seconds for job in jobs if job.limits.seconds is not None]
    return bool(limits) and seconds > sum(limits) + OVERDUE


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, initializer=enter_worker, initargs=(os.getpid(),), env=WORKER_ENV)


def affordable(workers: int, memory_mb: float | None) -> int:
    """How many of the workers the free memory bears if each needs `memory_mb` beside what it holds idle; at least one."""
    table = Path("/proc/meminfo")
    if not table.exists():
        return workers
    lines = dict(line.split(":") for line in table.read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024 / MB
    return max(1, min(workers, int(available / (WORKER_MB + (memory_mb or 0)))))
