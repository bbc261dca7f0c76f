"""Units on many machines with Dask distributed; without a scheduler's address, on processes of this machine.

Every Dask worker has one task at a time, sent to it by its address: a long unit, or several short ones. When a worker is gone, killed
or restarted by its nanny, there is no doubt which units it had. Run workers with one thread (dask worker --nthreads 1). When the
scheduler is gone, what ran is lost, and its return is awaited.
"""

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING, Any, cast

from joblib.externals.loky import cpu_count

from featureprism._environment import environment
from featureprism._threads import one_thread_for_good
from featureprism.lab.executors import Finished, affordable, ended_alike, past_due
from featureprism.lab.work import DIED, LOST, RAISED, TIME, Ending, Job, run_jobs

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

REFRESH = 0.25  # seconds between two looks at which workers there are
PATIENCE = 10  # seconds for a scheduler to answer
IGNORE_INTERRUPT = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"  # run by local workers: Ctrl-C is for the parent
WAIT = 600.0  # seconds after which workers of this machine, or a scheduler, are not expected back


@dataclass(frozen=True)
class _Running:
    jobs: Sequence[Job]
    future: "Future"
    began: float

    @property
    def seconds(self) -> float:
        """Since it was sent."""
        return time.perf_counter() - self.began

    @property
    def is_overdue(self) -> bool:
        """Whether its worker should long be gone."""
        return past_due(self.jobs, self.seconds)


class Cluster:
    """Run units on the workers of a Dask cluster.

    Parameters
    ----------
    scheduler : str, optional
        Address of a Dask scheduler, whose workers may come and go; by default a local cluster is started.
    workers : int, optional
        Workers of the local cluster, fewer if memory does not suffice.
    memory_mb : float, optional
        Memory that each worker needs.
    wait : float
        Seconds for which a scheduler that is gone is awaited.
    tolerant : bool
        Accept workers with other versions or processors, whose rows differ in the last digits; otherwise they are
        refused.

    Raises
    ------
    ValueError
        If Dask is not installed.
    """

    def __init__(
        self,
        scheduler: str | None = None,
        workers: int | None = None,
        memory_mb: float | None = None,
        *,
        wait: float = WAIT,
        tolerant: bool = False,
    ) -> None:
        if not find_spec("distributed"):
            raise ValueError("The dask executor needs Dask: pip install 'featureprism[cluster]'.")
        if workers is not None and (scheduler or workers < 1):
            raise ValueError("--workers is for local processes, at least 1; a scheduler brings its workers.")
        self.scheduler, self.size = scheduler, affordable(workers or cpu_count(), memory_mb)
        self.wait, self.tolerant = wait, tolerant
        self._ready: dict[str, Future] = {}  # what readies each worker, by its address
        self._checked: set[str] = set()  # workers known to be of our kind
        self._running: dict[str, _Running] = {}
        self._stuck: set[str] = set()  # workers that did not end with their unit's time limit
        self._looked, self._seen, self._change = 0.0, time.perf_counter(), Event()
        self._patient = ExitStack()
        self._client: Client | None = None
        self._cluster: LocalCluster | None = None

    def __enter__(self) -> "Cluster":
        import dask.config
        from distributed import LocalCluster

        # a local cluster forgets a worker that is not back after 15 seconds, which a busy machine may need to start it
        self._patient.enter_context(dask.config.set({"distributed.deploy.lost-worker-timeout": WAIT}))
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what happens is said in our words
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
            self._client = self._connected(PATIENCE)
        except (OSError, ValueError) as error:
            raise ValueError(f"No Dask scheduler answers at {self.scheduler}; is it running?") from error
        return self

    def _connected(self, timeout: float) -> "Client":
        from distributed import Client

        return Client(self._cluster or self.scheduler, timeout=timeout, set_as_default=False)

    def __exit__(self, *error: object) -> None:
        self._leave()
        self._patient.close()
        with suppress(TimeoutError):
            if self._cluster:
                self._cluster.close(timeout=PATIENCE)

    def _leave(self) -> None:
        """Forget the scheduler, its workers and what runs there."""
        client, self._client = self._client, None
        futures = [run.future for run in self._running.values()]
        self._ready.clear()
        self._checked.clear()
        self._running.clear()
        if client:
            with suppress(TimeoutError, OSError, RuntimeError):
                if client.status == "running":
                    client.cancel(futures, force=True)
                client.close(timeout=PATIENCE)

    def free(self) -> list[Hashable]:
        self._look()
        return [a for a in self._ready if a in self._checked and a not in self._running]

    def start(self, worker: Hashable, jobs: Sequence[Job]) -> None:
        address = str(worker)
        self._running[address] = _Running(jobs, self._send(address, run_jobs, jobs), time.perf_counter())

    def _send(self, address: str, call: Callable[..., Any], *args: Any) -> "Future":
        assert self._client is not None
        future = self._client.submit(call, *args, workers=[address], pure=False, retries=0)
        future.add_done_callback(lambda _future: self._change.set())
        return future

    def finished(self, timeout: float) -> Finished:
        self._change.wait(timeout)
        self._change.clear()
        before = dict(self._running)
        self._look()
        if self._client is None:  # with the scheduler everything that ran is lost
            return [(address, [Ending(LOST)] * len(run.jobs)) for address, run in before.items()]
        self._stuck |= {a for a, r in self._running.items() if not r.future.done() and r.is_overdue}
        gone = self._stuck | (self._running.keys() - self._ready.keys())
        over = [a for a, r in self._running.items() if r.future.done() or a in gone]
        return [(address, self._endings(self._running.pop(address))) for address in over]

    def _look(self) -> None:
        """Which workers there are now; a new one is prepared before its first unit, which does not count in the unit's time."""
        if time.perf_counter() - self._looked < REFRESH:
            return
        there = self._workers()
        self._looked = time.perf_counter()
        self._seen = self._looked if there else self._seen
        if self._cluster and self._looked - self._seen > WAIT:
            raise OSError("All local Dask workers are gone. The same command goes on from here.")
        if self._client is None:
            return
        known = {a: f for a, f in self._ready.items() if a in there}
        self._ready = known | {a: self._send(a, ready) for a in there if a not in known}
        for address in self._ready.keys() - self._checked:
            self._check(address, self._ready[address])

    def _workers(self) -> set[str]:
        """The addresses of the workers; none while the scheduler is away."""
        try:
            if self._client is None:
                self._client = self._connected(PATIENCE / 2)
            if self._client.status == "running":
                return set(cast(dict[str, int], self._client.nthreads())) - self._stuck
        except (OSError, TimeoutError, RuntimeError, ValueError):
            pass
        self._leave()
        if time.perf_counter() - self._seen > self.wait:
            raise OSError(
                f"The Dask scheduler at {self.scheduler} is gone and has not come back for {self.wait:.0f} s. "
                "What is finished is kept; the same command goes on from there (--wait SECONDS waits longer)."
            )
        return set()

    def _check(self, address: str, future: "Future") -> None:
        """Take a worker that is ready; one that cannot run units, or would give other bits, ends the run."""
        if future.status == "error" and not isinstance(future.exception(), _lost()):
            raise ValueError(f"The Dask worker {address} cannot run featureprism: {future.exception()}")
        if future.status != "finished":
            return
        ours, theirs = environment().split(", "), future.result().split(", ")
        if not self.tolerant and ours != theirs:
            differing = "; ".join(
                f"{t} there, {o} here" for o, t in zip(ours, theirs, strict=False) if o != t
            )
            raise ValueError(
                f"The Dask worker {address} would give other last digits ({differing}). Start it alike, or use --tolerant."
            )
        self._checked.add(address)

    def _endings(self, run: _Running) -> list[Ending]:
        seconds, limit = run.seconds, run.jobs[0].limits.seconds
        status, message = TIME if limit and seconds >= limit else DIED, "the Dask worker is gone"
        if not run.future.done():
            assert self._client is not None
            self._client.cancel([run.future], force=True)
            return ended_alike(run.jobs, Ending(status, message=message, seconds=seconds))
        try:
            return run.future.result(timeout=PATIENCE)
        except _lost() as error:
            return ended_alike(run.jobs, Ending(status, message=f"{message}: {error}", seconds=seconds))
        except Exception as error:  # it could not be sent, or not be read there
            ending = Ending(RAISED, message=f"{type(error).__name__}: {error}", seconds=seconds)
            return ended_alike(run.jobs, ending)


def ready() -> str:
    """Prepare a worker, and say of which kind it is."""
    one_thread_for_good()
    return environment()


def _lost() -> tuple[type[Exception], ...]:
    """What Dask raises for a task whose worker is gone."""
    from distributed import CancelledError, KilledWorker

    return KilledWorker, CancelledError, TimeoutError
