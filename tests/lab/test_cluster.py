"""Eight Dask workers that are killed, and a scheduler that is away for longer than it takes to notice."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from featureprism.lab import Serial, Store, grid, of_function, sweep
from featureprism.lab.cluster import PATIENCE

pytest.importorskip("distributed")
DASK = [sys.executable, "-m", "dask"]
RUN = """
import sys, time
from pathlib import Path
from featureprism.lab import grid, of_function, sweep
from featureprism.lab.cluster import Cluster
def measure(setting, seed):
    time.sleep(0.2)
    return [{"b": setting["a"] ** 2 + seed}]
plan = of_function(measure, grid(a=list(range(300))), name="squares", seeds=(0, 1))
print(sweep(plan, Path(sys.argv[1]), Cluster(sys.argv[2])).done)
"""


def measure(setting, seed):
    return [{"b": setting["a"] ** 2 + seed}]


def started(words, stdout=subprocess.DEVNULL):
    return subprocess.Popen(words, start_new_session=True, stdout=stdout, stderr=subprocess.DEVNULL)


def ended(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def finished(folder):
    with suppress(ValueError), Store(folder) as store:  # which is about to be made
        return sum(ending is not None for _, _, ending in store.planned("squares"))
    return 0


def table(folder):
    with Store(folder) as store:
        return sorted((row["a"], row["seed"], row["b"]) for row in store.rows("squares"))


@pytest.mark.slow
def test_workers_and_the_scheduler_may_restart_in_the_middle(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, out = f"tcp://127.0.0.1:{port}", tmp_path / "out"
    scheduler = [*DASK, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    workers = [*DASK, "worker", address, "--nthreads", "1", "--nworkers", "8", "--memory-limit", "0"]
    workers += ["--death-timeout", "300", "--no-dashboard", "--local-directory", str(tmp_path)]
    running = [started(scheduler), started(workers)]
    try:
        run = started([sys.executable, "-c", RUN, str(out), address], subprocess.PIPE)
        running.append(run)

        def until(num):
            while finished(out) < num:
                assert run.poll() is None
                time.sleep(0.2)

        until(40)
        for victim in children(running[1].pid)[:3]:
            os.kill(victim, signal.SIGKILL)
        until(150)
        ended(running[0])
        time.sleep(PATIENCE + 5)
        ended(running[1])  # if they have not left with their scheduler
        running[:2] = started(scheduler), started(workers)
        until(300)
        for victim in children(running[1].pid)[-2:]:
            os.kill(victim, signal.SIGKILL)
        said, _ = run.communicate(timeout=400)
        assert said.strip() == b"600"
    finally:
        for process in running:
            if process.poll() is None:
                ended(process)
    plan = of_function(measure, grid(a=list(range(300))), name="squares", seeds=(0, 1))
    sweep(plan, tmp_path / "serial", Serial())
    assert table(out) == table(tmp_path / "serial")
