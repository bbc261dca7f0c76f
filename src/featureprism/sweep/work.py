"""What happens in a worker: one task, on one thread, within its limits; whatever happens, an outcome.

The time limit is a kernel timer whose signal ends the process, so that it also reaches code that hangs inside a library; the
executor sees the death and blames the one task it had given to that worker. The memory limit makes allocations fail.
"""

import hashlib
import inspect
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import torch
from threadpoolctl import threadpool_limits

from featureprism.records import Row
from featureprism.sweep.runner import versions

Measure = Callable[[Row, int], list[Row]]
DONE, RAISED, TIME, MEMORY, DIED = "done", "raised", "time limit", "memory limit", "worker died"
LOST = (TIME, MEMORY, DIED)  # what costs a worker, and is tried once more
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
MB = 2**20


@dataclass(frozen=True)
class Limits:
    """What one task may use: seconds of wall-clock time, and megabytes beyond what its worker holds before it."""

    seconds: float | None = None
    memory_mb: float | None = None


@dataclass(frozen=True)
class Task:
    """One call of `measure`, known by a hash of what is swept, its setting and its seed."""

    key: str
    setting: Row
    seed: int
    attempt: int = 1


@dataclass(frozen=True)
class Job:
    """A task with all that a worker needs for it; `measure` is pickled, by value where workers could not import it."""

    measure: bytes
    task: Task
    limits: Limits


@dataclass(frozen=True)
class Outcome:
    """How a task ended, with its rows as JSON, or with what went wrong."""

    ended: str
    rows: tuple[str, ...] = ()
    message: str = ""
    traceback: str = ""
    seconds: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)


def run_job(job: Job) -> Outcome:
    """Measure one setting; an exception becomes part of the outcome."""
    began = time.perf_counter()
    try:
        with within(job.limits):
            rows = _load(job.measure)(dict(job.task.setting), job.task.seed)
            lines = tuple(_encoded(rows))
        told: dict[str, Any] = {"ended": DONE, "rows": lines}
    except BaseException as error:  # SystemExit too: a task must not end its worker
        ended = MEMORY if job.limits.memory_mb and _is_out_of_memory(error) else RAISED
        message = f"{type(error).__name__}: {error}"
        told = {"ended": ended, "message": message, "traceback": traceback.format_exc()}
    return Outcome(**told, seconds=time.perf_counter() - began, environment=environment())


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
    """A function for `Job`; one's own is packed by value, as workers may not find its file."""
    module = _own_module(measure)
    if module is None:
        return cloudpickle.dumps(measure)
    cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(measure)
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def source_hash(measure: Measure) -> str:
    """Hash of the file of one's own function; the library's sources are hashed in `environment`."""
    module = _own_module(measure)
    try:
        source = inspect.getsource(module) if module else ""
    except (OSError, TypeError):  # typed in by hand
        source = ""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _own_module(measure: Any) -> ModuleType | None:
    """The module of a function that is not the library's."""
    while isinstance(measure, partial):
        measure = measure.func
    name = getattr(measure, "__module__", None) or ""
    return None if name.partition(".")[0] == "featureprism" else sys.modules.get(name)


@lru_cache(maxsize=4)
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
    """A NumPy or torch number as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"A row cannot hold a {type(value).__name__}.")


@lru_cache(maxsize=1)
def environment() -> dict[str, str]:
    """Versions of this process, with a hash of the library's own sources."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return {**versions(), "sources": digest.hexdigest()[:16]}


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for BLAS and torch, so that rows do not depend on how many there are."""
    before = torch.get_num_threads()
    with threadpool_limits(1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def enter_worker(parent: int) -> None:
    """Settle a worker process: one thread, deaf to Ctrl-C (the parent decides), gone when the parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    one_thread_for_good()
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


@lru_cache(maxsize=1)
def one_thread_for_good() -> None:
    """One thread for the rest of this process."""
    threadpool_limits(1)
    torch.set_num_threads(1)


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
