"""Units on many machines with Dask distributed; without a scheduler's address, on processes of this machine.

Every Dask worker has one unit at a time, sent to it by its address: when a worker is gone, killed or restarted by its nanny, there is
no doubt which unit it had. Run workers with one thread (dask worker --nthreads 1).
"""

import logging
import time
from collections.abc import Callable, Hashable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING, Any, cast

from joblib.externals.loky import cpu_count

from featureprism.lab.executors import Finished, affordable, past_due
from featureprism.lab.work import DIED, RAISED, TIME, Ending, Job, run_job
from featureprism.threads import one_thread_for_good

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

REFRESH = 0.25  # seconds between two looks at which workers there are
PATIENCE = 10  # seconds for a scheduler to answer
IGNORE_INTERRUPT = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"  # run by local workers: Ctrl-C is for the parent
ALONE = 600.0  # seconds after which local workers that are all gone are not expected back


@dataclass(frozen=True)
class _Running:
    job: Job
    future: "Future"
    began: float

    @property
    def seconds(self) -> float:
        """Since it was sent."""
        return time.perf_counter() - self.began

    @property
    def is_overdue(self) -> bool:
        """Whether its worker should long be gone."""
        return past_due(self.job, self.seconds)


class Cluster:
    """The workers of a Dask scheduler, as they come and go; or `workers` local ones, if memory does for all."""

    def __init__(
        self, scheduler: str | None = None, workers: int | None = None, memory_mb: float | None = None
    ) -> None:
        if not find_spec("distributed"):
            raise ValueError("The dask executor needs Dask: pip install 'featureprism[cluster]'.")
        if workers is not None and (scheduler or workers < 1):
            raise ValueError("--workers is for local processes, at least 1; a scheduler brings its workers.")
        self.scheduler, self.size = scheduler, affordable(workers or cpu_count(), memory_mb)
        self._settled: dict[str, Future] = {}  # what readies each worker, by its address
        self._running: dict[str, _Running] = {}
        self._stuck: set[str] = set()  # workers that did not end with their unit's time limit
        self._looked, self._seen, self._change = 0.0, time.perf_counter(), Event()
        self._patient = ExitStack()
        self._client: Client
        self._cluster: LocalCluster | None = None

    def __enter__(self) -> "Cluster":
        import dask.config
        from distributed import Client, LocalCluster

        # a local cluster forgets a worker that is not back after 15 seconds, which a busy machine may need to start it
        self._patient.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": ALONE}))
        if self.scheduler is None:
            self._cluster = LocalCluster(
                n_workers=self.size,
                threads_per_worker=1,
                memory_limit=0,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
                preload=[IGNORE_INTERRUPT],
            )
        try:
            self._client = Client(self._cluster or self.scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(f"No Dask scheduler answers at {self.scheduler}; is it running?") from error
        return self

    def __exit__(self, *error: object) -> None:
        self._client.cancel([r.future for r in self._running.values()], force=True)
        self._settled.clear()
        self._running.clear()
        self._patient.close()
        with suppress(TimeoutError):
            self._client.close(timeout=PATIENCE)
            if self._cluster:
                self._cluster.close(timeout=PATIENCE)

    def free(self) -> list[Hashable]:
        self._look()
        return list(self._idle())

    def _idle(self) -> list[str]:
        return [a for a, ready in self._settled.items() if ready.done() and a not in self._running]

    def start(self, worker: Hashable, job: Job) -> None:
        address = str(worker)
        self._running[address] = _Running(job, self._send(address, run_job, job), time.perf_counter())

    def _send(self, address: str, call: Callable[..., Any], *args: Any) -> "Future":
        future = self._client.submit(call, *args, workers=[address], pure=False, retries=0)
        future.add_done_callback(lambda _future: self._change.set())
        return future

    def finished(self, timeout: float) -> Finished:
        self._change.wait(timeout)
        self._change.clear()
        self._look()
        self._stuck |= {a for a, r in self._running.items() if not r.future.done() and r.is_overdue}
        gone = self._stuck | (self._running.keys() - self._settled.keys())
        over = [a for a, r in self._running.items() if r.future.done() or a in gone]
        return [(r.job, self._ending(r)) for r in map(self._running.pop, over)]

    def _look(self) -> None:
        """Which workers there are now; a new one is prepared before its first unit, which does not count in the unit's time."""
        if time.perf_counter() - self._looked < REFRESH:
            return
        there = cast(dict[str, int], self._client.nthreads()).keys() - self._stuck
        self._looked = time.perf_counter()
        self._seen = self._looked if there else self._seen
        if self._cluster and self._looked - self._seen > ALONE:
            raise OSError("All local Dask workers are gone. The same command goes on from here.")
        known = {a: f for a, f in self._settled.items() if a in there}
        self._settled = known | {a: self._send(a, one_thread_for_good) for a in there if a not in known}
        for address, ready in self._settled.items():
            if ready.status == "error" and not isinstance(ready.exception(), _lost()):
                raise ValueError(f"The Dask worker {address} cannot run featureprism: {ready.exception()}")

    def _ending(self, run: _Running) -> Ending:
        seconds, limit = run.seconds, run.job.limits.seconds
        status, message = TIME if limit and seconds >= limit else DIED, "the Dask worker is gone"
        if not run.future.done():
            self._client.cancel([run.future], force=True)
            return Ending(status, message=message, seconds=seconds)
        try:
            return run.future.result(timeout=PATIENCE)
        except _lost() as error:
            return Ending(status, message=f"{message}: {error}", seconds=seconds)
        except Exception as error:  # it could not be sent, or not be read there
            return Ending(RAISED, message=f"{type(error).__name__}: {error}", seconds=seconds)


def _lost() -> tuple[type[Exception], ...]:
    """What Dask raises for a task whose worker is gone."""
    from distributed import CancelledError, KilledWorker

    return KilledWorker, CancelledError, TimeoutError
