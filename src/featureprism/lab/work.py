"""What happens in a worker: one unit, on one thread, within its limits; whatever happens, an `Ending`.

The time limit is a kernel timer whose signal ends the process, so that it also reaches code that hangs inside a library; the
executor sees the death and blames the one unit it had given to that worker. The memory limit makes allocations fail.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from featureprism._environment import environment
from featureprism._threads import one_thread_for_good
from featureprism.lab.context import Context
from featureprism.lab.experiment import Measure

DONE, RAISED, TIME, MEMORY, DIED = "done", "raised", "time limit", "memory limit", "worker died"
LOST = "lost"  # with its worker, among others, or with the scheduler: nobody knows whether this unit was to blame
RETRYABLE = (TIME, MEMORY, DIED)  # these cost a worker, and are tried once more
MB = 2**20
# one thread each; and tensors from 4 MB on go back to the system when they are freed: where the C library decides by itself, those of a
# training whose sizes change from step to step leave holes, and a process of 400 MB grows to 5 GB
WORKER_ENV = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1") | {
    "MALLOC_MMAP_THRESHOLD_": str(4 * MB)
}


@dataclass(frozen=True)
class Limits:
    """What one unit, a setting and a seed, may use.

    Parameters
    ----------
    seconds : float, optional
        Wall-clock time of a unit.
    memory_mb : float, optional
        Megabytes beyond what its worker holds before it (Linux).
    """

    seconds: float | None = None
    memory_mb: float | None = None


@dataclass(frozen=True)
class Job:
    """All that a worker needs for a unit; for other processes `measure` is pickled, by value where they could not import it."""

    measure: bytes | Measure
    setting: Any
    seed: int
    context: Context
    limits: Limits


@dataclass(frozen=True)
class Ending:
    """How a unit ended, with its rows as JSON, or with what went wrong."""

    status: str
    rows: tuple[str, ...] = ()
    message: str = ""
    traceback: str = ""
    seconds: float = 0.0  # of processor time: what else the machine was doing does not count
    memory_mb: float = 0.0  # the most that its process held meanwhile
    environment: str = ""  # versions and kind of processor that measured it


def run_job(job: Job) -> Ending:
    """Measure one setting; an exception becomes part of the ending."""
    began = time.process_time()
    forget_peak()
    try:
        with within(job.limits):
            rows = _callable(job.measure)(job.setting, job.seed, job.context)
            lines = tuple(_encoded(rows))
        ending: dict[str, Any] = {"status": DONE, "rows": lines}
    except KeyboardInterrupt:  # only in the main process: workers ignore it
        raise
    except BaseException as error:  # SystemExit too: a unit must not end its worker
        status = MEMORY if job.limits.memory_mb and _is_out_of_memory(error) else RAISED
        message = f"{type(error).__name__}: {error}"
        ending = {"status": status, "message": message, "traceback": traceback.format_exc()}
    return Ending(
        **ending, seconds=time.process_time() - began, memory_mb=peak_mb(), environment=environment()
    )


def run_jobs(jobs: Sequence[Job]) -> list[Ending]:
    """Measure one setting after the other: short ones share the cost of being sent."""
    return [run_job(job) for job in jobs]


def forget_peak() -> None:
    """Let the peak memory of this process be counted from now on, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mb() -> float:
    """The most memory that this process has held at a time since `forget_peak`, or since it began."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (MB if sys.platform == "darwin" else 1024)


@contextmanager
def within(limits: Limits) -> Iterator[None]:
    """End the process after `seconds`; refuse it more than `memory_mb` beyond what it holds now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        if limits.memory_mb:
            resource.setrlimit(resource.RLIMIT_DATA, (_held() + int(limits.memory_mb * MB), hard))
        if limits.seconds:
            signal.setitimer(signal.ITIMER_REAL, limits.seconds)
        yield
    finally:
        if limits.seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if limits.memory_mb:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _held() -> int:
    """Bytes that RLIMIT_DATA counts against this process (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("This system does not say how much memory a process holds: leave memory_mb out.")


def _is_out_of_memory(error: BaseException) -> bool:
    """NumPy raises MemoryError; torch a RuntimeError that says so."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def pickled(measure: Measure) -> bytes:
    """A function for `Job`; one from a single file is packed by value, as workers may not find its file."""
    module = _module_to_pack(measure)
    if module is None:
        return cloudpickle.dumps(measure)
    cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(measure)
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _module_to_pack(measure: Any) -> ModuleType | None:
    """The module of a function that a worker could not import: a single file, or what was typed in."""
    while isinstance(measure, partial):
        measure = next((value for value in measure.args if callable(value)), measure.func)
    name = getattr(measure, "__module__", None) or ""
    package, dot, _ = name.partition(".")
    return None if dot and PathFinder.find_spec(package) else sys.modules.get(name)


def _callable(measure: bytes | Measure) -> Measure:
    return _load(measure) if isinstance(measure, bytes) else measure


@lru_cache(maxsize=64)
def _load(measure: bytes) -> Measure:
    return cloudpickle.loads(measure)


def _encoded(rows: Any) -> Iterator[str]:
    """Each row as one JSON object."""
    if not isinstance(rows, list | tuple) or not all(isinstance(row, dict) for row in rows):
        raise TypeError(f"measure must return a list of rows (dictionaries), got {type(rows).__name__}.")
    for row in rows:
        nested = [name for name, value in row.items() if isinstance(value, dict | list | tuple)]
        if nested:
            raise TypeError(
                f"Rows are flat: {', '.join(map(str, nested))} must be numbers, words or booleans."
            )
        yield json.dumps(row, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A NumPy or torch number as a Python number."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"A row cannot hold a {type(value).__name__}.")


def enter_worker(parent: int) -> None:
    """Prepare a worker process: one thread; Ctrl-C is left to the parent; it ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    one_thread_for_good()
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
