"""What a sweep adds to its units, what a second worker gives, and how the store bears many rows."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import line
from featureprism.lab import Context, Local, Store, grid, of_function
from featureprism.lab.engine import Step
from featureprism.lab.phase import phase_of, save_phase
from featureprism.lab.rows import Row
from featureprism.lab.sweeps import SimpleMeasure, sweep_events
from featureprism.lab.work import DONE, Ending

TASK_MS = 20


def sleep(setting: Row, _seed: int) -> list[Row]:
    """A task that takes as long as it says."""
    time.sleep(setting["seconds"])
    return [{"value": setting["seconds"]}]


def burn(setting: Row, _seed: int) -> list[Row]:
    """A task that keeps one core busy for a second of its own time."""
    began, count = time.thread_time(), 0
    while time.thread_time() - began < setting["seconds"]:
        count += 1
    return [{"value": 1}]


def seconds_for(measure: SimpleMeasure, settings: list[Row], workers: int) -> float:
    """Wall-clock seconds for the settings; starting the workers, each with a task of no length, is not counted."""
    stamps: list[float] = []
    ready = [{"seconds": 0.0, "i": -1 - i} for i in range(workers)]

    with tempfile.TemporaryDirectory() as folder:
        for event in sweep_events(of_function(measure, [*ready, *settings]), Path(folder), Local(workers)):
            if isinstance(event, Step) and event.ended >= workers:
                stamps.append(time.perf_counter())
    return stamps[-1] - stamps[0]


def ratios() -> Iterator[str]:
    """Every line of this part."""
    settings = [{"seconds": TASK_MS / 1000, "i": i} for i in range(200)]
    extra = 1000 * seconds_for(sleep, settings, 1) / len(settings) - TASK_MS
    yield line("sweep: milliseconds added to each unit, one local worker", extra, 30)
    settings = [{"seconds": 1.0, "i": i} for i in range(10)]
    for name, measure in (("wait", sleep), ("compute", burn)):  # the second needs two cores to itself
        one, two = (seconds_for(measure, settings, n) for n in (1, 2))
        yield line(f"sweep: two workers ÷ one on 1-second units that {name}", one / two, 1.7, at_most=False)
    yield from store()


def store(num_rows: int = 100_000) -> Iterator[str]:
    """100 000 rows: a hundred a task."""
    settings = grid(a=[round(0.01 * i, 2) for i in range(1, 26)], n=[10 * i for i in range(1, 41)])
    with tempfile.TemporaryDirectory() as name:
        folder, per_task = Path(name), num_rows // len(settings)
        units = list(of_function(sleep, settings, name="store").units(Context()))
        costs = []
        with Store(folder, write=True) as kept:
            kept.plan(units)
            for unit in units:
                rows = tuple(f'{{"point": {i}, "value": {i * unit.setting["a"]}}}' for i in range(per_task))
                began = time.perf_counter()
                kept.record([(unit, Ending(DONE, rows), 1, True)])
                costs.append(time.perf_counter() - began)
        half = len(costs) // 2
        early, late = (sorted(part)[len(part) // 2] for part in (costs[:half], costs[half:]))
        yield line("store: cost of a row in the second half ÷ in the first", late / early, 1.5)
        began = time.perf_counter()
        with Store(folder) as kept:
            rows = [row for row in kept.rows("store") if row["point"] == 7]
        save_phase(phase_of(rows, "a", "n", "value"), folder)
        yield line(
            f"store: seconds to open {num_rows} rows and draw a phase diagram", time.perf_counter() - began, 5
        )
