"""A thousand clients on this machine: Dask workers that share a few processes, and processes that share one store.

    python -m benchmarks.thousand workers [NUM]     NUM Dask workers in eight processes, units that sleep
    python -m benchmarks.thousand processes [NUM]   NUM processes on one store, units that sleep
    python -m benchmarks.thousand share             80 units of a second: one process, then four on one store
    python -m benchmarks.thousand plan [NUM]        plan NUM units, plan them again, list them

Units only wait, so that two cores do for all of them: what is measured is the load on the scheduler, on the sweep and on the store.
"""

import asyncio
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from featureprism.lab import Context, Store, of_function
from featureprism.lab.cluster import Cluster
from featureprism.lab.engine import BATCH, batches
from featureprism.lab.executors import Serial
from featureprism.lab.rows import Row
from featureprism.lab.sweeps import sweep

QUIET = {  # what every worker does beside its units, which a thousand on two cores cannot
    "DASK_LOGGING__DISTRIBUTED": "critical",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "60s",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "5s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "120s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "300s",
}
SECONDS = 5.0  # of a unit
UNITS_EACH = 4  # for every client


def wait(setting: Row, _seed: int) -> list[Row]:
    """A unit that sleeps."""
    time.sleep(setting["seconds"])
    return [{"value": setting["i"]}]


def settings(num: int, seconds: float = SECONDS) -> list[Row]:
    """Units of so many seconds."""
    return [{"i": i, "seconds": seconds} for i in range(num)]


def cpu_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def forked(run: Callable[..., object], *arguments: object) -> int:
    """A process that runs a function and ends."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        run(*arguments)
        code = 0
    finally:
        os._exit(code)


async def _scheduler(port: int) -> None:
    from distributed import Scheduler

    async with Scheduler(host="127.0.0.1", port=port, dashboard=False) as scheduler:
        await scheduler.finished()


async def _workers(address: str, num: int, folder: str) -> None:
    from distributed import Worker

    some = [Worker(address, nthreads=1, memory_limit=0, local_directory=folder) for _ in range(num)]
    await asyncio.gather(*some)
    await asyncio.gather(*(worker.finished() for worker in some))


def workers(num: int) -> None:
    """Seconds of the scheduler and of the sweep for every unit."""
    import distributed  # noqa: F401  # once, before the forks

    port, per_process = 18786, -(-num // 8)
    address = f"tcp://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        scheduler = forked(lambda: asyncio.run(_scheduler(port)))
        time.sleep(10)
        hosts = [forked(lambda: asyncio.run(_workers(address, per_process, folder))) for _ in range(8)]
        try:
            _await_workers(address, num)
            before, own = cpu_seconds(scheduler), time.process_time()
            began, total = time.perf_counter(), UNITS_EACH * num
            summary = sweep(
                of_function(wait, settings(total), name="wait"), Path(folder) / "out", Cluster(address)
            )
            took = time.perf_counter() - began
            in_scheduler, in_sweep = cpu_seconds(scheduler) - before, time.process_time() - own
            print(
                f"{num} workers, {summary.done} of {total} units of {SECONDS:g} s in {took:.0f} s by the clock"
            )
            print(
                f"{1000 * in_scheduler / total:.2f} ms a unit in the scheduler, {1000 * in_sweep / total:.2f} in the sweep"
            )
        finally:
            for child in (*hosts, scheduler):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _await_workers(address: str, num: int) -> None:
    from distributed import Client

    with Client(address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(num, timeout=600)


def processes(num: int, total: int | None = None, seconds: float = SECONDS) -> None:
    """Calls, CPU seconds and rows when so many processes share one store."""
    total = total or 2 * num
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = of_function(partial(noted, folder), settings(total, seconds), name="wait")
        began = time.perf_counter()
        children = [forked(sweep, plan, folder / "out", Serial()) for _ in range(num)]
        failed = sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children)
        took, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        calls = len((folder / "calls").read_text().split())
        with Store(folder / "out") as store:
            rows = sorted(row["value"] for row in store.rows("wait"))
        print(
            f"{num} processes, {failed} of them failed, {total} units of {seconds:g} s: {calls} calls, {took:.1f} s by the clock"
        )
        print(
            f"{1000 * (used.ru_utime + used.ru_stime) / total:.1f} ms of CPU a unit; every row there: {rows == list(range(total))}"
        )


def share(_num: int) -> None:
    """What three more processes give."""
    for num in (1, 4):
        processes(num, 80, 1.0)


def plan(num: int) -> None:
    """CPU seconds of a plan, of the same plan again as after a stop, and of a list of what is planned."""
    with tempfile.TemporaryDirectory() as name:
        for what in ("plan", "plan again"):
            began = time.process_time()
            with Store(Path(name), write=True) as store:
                units = of_function(wait, settings(num), name="wait").units(Context())
                planned = sum(len(store.plan(some)[0]) for some in batches(units, BATCH))
            print(f"{what} {planned} units: {time.process_time() - began:.1f} s of CPU")
        began = time.process_time()
        with Store(Path(name)) as store:
            listed = sum(ended is None for _, _, ended in store.planned("wait"))
        print(f"list {listed} units: {time.process_time() - began:.1f} s of CPU")
    print(f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")


def noted(folder: Path, setting: Row, seed: int) -> list[Row]:
    """The same unit, and a line for each call."""
    with (folder / "calls").open("a") as file:
        file.write(f"{setting['i']}\n")
    return wait(setting, seed)


if __name__ == "__main__":
    os.environ |= QUIET  # read when distributed is imported
    kind, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    {"workers": workers, "processes": processes, "share": share, "plan": plan}[kind](count)
    print(f"most memory of a child {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000:.0f} MB")
