"""How long a run will take here, before it starts.

costs.json holds seconds a seed and peak memory of every published item and scale, and how long a step (`step_seconds`) takes on the
machine whose seconds those are. A step measured here, now, turns them into seconds of this machine with all that is running on it.
An item that was never published at a scale costs what its finished units did, setting by setting; settings without any are begun
(beginnings.py).
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from featureprism.context import Context
from featureprism.files import as_json, write_whole
from featureprism.lab import Experiment
from featureprism.sweep.beginnings import Beginning
from featureprism.sweep.store import FILE, Store
from featureprism.sweep.unit import Unit, units_of
from featureprism.sweep.work import DONE
from featureprism.threads import one_thread

KNOWN = Path(__file__).with_name("costs.json")
SIZE, REPEATS = 600, 9


Begin = Callable[[Sequence[Unit]], Mapping[str, Beginning]]


@dataclass(frozen=True)
class Estimate:
    """One item: seeds that are not measured yet, what they will cost, and how that is known; None where nobody knows.

    `unknown`: settings whose cost could not be told; seconds are then those of the others.
    """

    item: str
    seeds: int
    seconds: float | None
    memory_mb: float | None
    source: str = ""
    unknown: int = 0


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
    experiments: Sequence[Experiment],
    scale: str,
    seeds: Sequence[int],
    out: Path,
    context: Context,
    begin: Begin = lambda _: {},
) -> list[Estimate]:
    """What is left to measure of every item, and its cost on this machine; `begin` tells about units that nobody has timed."""
    known = _known()
    published = known["scales"].get(scale, {})
    step = step_seconds()
    waits = max(1.0, step / step_seconds(time.process_time))  # seconds that pass during one of the processor
    done = _finished(out)
    plans = {e.id: _Plan(e, scale, seeds, context, done) for e in experiments}
    untimed = [unit for id, plan in plans.items() if id not in published for unit in plan.untimed()]
    begun = begin(untimed)
    table = []
    for id, plan in plans.items():
        if id in published:
            seconds, memory = published[id]
            seconds *= step / known["step"] * plan.left
            table.append(Estimate(id, round(plan.left), seconds, memory, "published"))
        else:
            table.append(plan.estimate(begun, waits))
    return table


class _Plan:
    """The units of one item, setting by setting, and what is known of those that are finished."""

    def __init__(
        self,
        experiment: Experiment,
        scale: str,
        seeds: Sequence[int],
        context: Context,
        done: Mapping[str, tuple[float, float]],
    ) -> None:
        self.experiment, self.context, self.done = experiment, context, done
        units = units_of(experiment, scale, seeds, context)
        self.settings = [units[i : i + len(seeds)] for i in range(0, len(units), len(seeds))]
        self.left = sum(unit.key not in done for unit in units) / len(self.settings)

    def untimed(self) -> list[Unit]:
        """One unit of each setting of which none is finished; none where a training step tells."""
        foretold = self.experiment.foretell is not None
        return [] if foretold else [own[0] for own in self.settings if not self._finished(own)]

    def _finished(self, units: Sequence[Unit]) -> list[tuple[float, float]]:
        return [self.done[unit.key] for unit in units if unit.key in self.done]

    def estimate(self, begun: Mapping[str, Beginning], waits: float) -> Estimate:
        """The sum over settings, with the largest memory; `waits` seconds pass for each of the processor."""
        seconds, memories, seen, sources, unknown = 0.0, [0.0], 0.0, {}, 0
        for own in self.settings:
            finished, first = self._finished(own), own[0]
            left = len(own) - len(finished)
            if finished:
                seconds += waits * left * mean(cost for cost, _ in finished)
                memories += [memory for _, memory in finished]
                sources["finished units"] = True
            elif self.experiment.foretell is not None:
                seconds += left * self.experiment.foretell(first.setting, self.context)
                sources["training steps"] = True
            elif first.key in begun:
                seconds += waits * left * begun[first.key].seconds
                memories.append(begun[first.key].memory_mb)
                seen += begun[first.key].seen
            else:
                unknown += 1
        told = [*sources, *([f"its first {seen:.2g} s"] if seen else [])]
        if unknown:
            told.append(f"{unknown} of {len(self.settings)} settings unknown")
        known = unknown < len(self.settings)
        return Estimate(
            self.experiment.id,
            round(self.left),
            seconds if known else None,
            max(memories) or None,
            ", ".join(told),
            unknown,
        )


def _finished(out: Path) -> dict[str, tuple[float, float]]:
    """Seconds and memory of the units that are finished in the store of a folder, by key."""
    if not (out / FILE).exists():
        return {}
    with Store(out) as store:
        return store.costs(DONE)


def _known() -> dict[str, Any]:
    return json.loads(KNOWN.read_text(encoding="utf-8"))


def publish_costs(folder: Path) -> dict[str, float]:
    """Take the costs of all items in a folder of results into costs.json; returns them in steps, as "SCALE PAPER/ITEM".

    They stand there in seconds of the machine of which costs.json has the step.
    """
    here = step_seconds(time.process_time)
    known: dict[str, Any] = _known() if KNOWN.exists() else {"step": round(here, 5), "scales": {}}
    steps: dict[str, float] = {}
    for path in sorted(folder.glob("*/*/run.json")):
        about = json.loads(path.read_text(encoding="utf-8"))
        id, scale, a_seed = about["id"], about["scale"], about["seconds"] / len(about["seeds"])
        steps[f"{scale} {id}"] = a_seed / here
        cost = [round(a_seed / here * known["step"], 2), round(about["memory_mb"])]
        known["scales"].setdefault(scale, {})[id] = cost
    write_whole(KNOWN, as_json(known, indent=1) + "\n")
    return steps
