"""How long a run will take here, before it starts: what items cost where they were published, times how this machine compares.

costs.json holds seconds a seed and peak memory of every published item and scale, and how long `step` took on that machine. A step
measured here, now, turns them into seconds of this machine with all that is running on it.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from featureprism.context import Context
from featureprism.experiment import Experiment
from featureprism.files import as_json, write_whole
from featureprism.sweep.store import FILE, Store
from featureprism.sweep.unit import Unit, units_of
from featureprism.sweep.work import DONE
from featureprism.threads import one_thread

KNOWN = Path(__file__).with_name("costs.json")
SIZE, REPEATS = 600, 9


@dataclass(frozen=True)
class Estimate:
    """One item: seeds that are not measured yet, and what they will cost; None where nobody knows.

    An item that was never published at this scale costs what its finished units in the folder did; one that trains image networks
    has the seconds of its training steps, timed now.
    """

    item: str
    seeds: int
    seconds: float | None
    memory_mb: float | None


@one_thread()
def step_seconds(clock: Callable[[], float] = time.perf_counter) -> float:
    """The time of a fixed piece of work like that of the items: products in both precisions, a factorisation, elementwise functions.

    By the wall clock it tells how fast this machine is with all that is running on it; costs are published beside processor time.
    """
    generator = torch.Generator().manual_seed(0)
    single = torch.randn(SIZE, SIZE, generator=generator)
    double = single.double()
    definite = double @ double.T + SIZE * torch.eye(SIZE).double()
    times = []
    for _ in range(REPEATS):
        began = clock()
        for _ in range(3):
            torch.relu(single @ single).exp_().sum()
        (double @ double).clamp_min(0).sum()
        torch.linalg.cholesky(definite)
        times.append(clock() - began)
    return median(times)


def estimates(
    experiments: Sequence[Experiment], scale: str, seeds: Sequence[int], out: Path, context: Context
) -> list[Estimate]:
    """What is left to measure of every item, and its cost on this machine."""
    known = _known()
    here = step_seconds() / known["step"]
    done = _finished(out)
    table = []
    for experiment in experiments:
        units = units_of(experiment, scale, seeds, context)
        finished = [unit for unit in units if unit.key in done]
        left = (1 - len(finished) / len(units)) * len(seeds)
        seconds, memory = known["scales"].get(scale, {}).get(experiment.id, (None, None))
        if seconds is not None:
            seconds *= here * left
        elif finished:
            seconds, memory = _as_before(out, finished, len(units) - len(finished))
        elif experiment.foretell is not None:
            seconds = left * sum(
                experiment.foretell(setting, context) for setting in experiment.settings(scale)
            )
        table.append(Estimate(experiment.id, round(left), seconds, memory))
    return table


def _finished(out: Path) -> set[str]:
    """The keys of units that are in the store of a folder, if there is one."""
    if not (out / FILE).exists():
        return set()
    with Store(out) as store:
        return set(store.keys(DONE))


def _as_before(out: Path, finished: Sequence[Unit], left: int) -> tuple[float, float]:
    """Seconds of so many more units like those that are finished, and their peak memory."""
    with Store(out) as store:
        return store.seconds_of(finished) / len(finished) * left, store.memory_of(finished)


def _known() -> dict[str, Any]:
    return json.loads(KNOWN.read_text(encoding="utf-8"))


def publish_costs(folder: Path) -> int:
    """Take the costs of all items in a folder of results into costs.json, with the time of a step here; returns how many."""
    known: dict[str, Any] = _known() if KNOWN.exists() else {"scales": {}}
    abouts = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/*/run.json"))]
    for about in abouts:
        a_seed = round(about["seconds"] / len(about["seeds"]), 2)
        known["scales"].setdefault(about["scale"], {})[about["id"]] = [a_seed, round(about["memory_mb"])]
    known["step"] = round(step_seconds(time.process_time), 5)
    write_whole(KNOWN, as_json(known, indent=1) + "\n")
    return len(abouts)
