"""How long a run will take: what finished units of the same settings took.

Units that are finished in the folder of the run come first, setting by setting. For the others costs.json has seconds of processor time
a seed, and peak memory, of every published item and scale; `python -m featureprism.lab.costs docs/results` takes them from what is
published.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from featureprism._files import as_json, write_whole
from featureprism.lab.context import Context
from featureprism.lab.experiment import SCALES, Experiment
from featureprism.lab.store import FILE, Store
from featureprism.lab.unit import Unit, units_of
from featureprism.lab.work import DONE

KNOWN = Path(__file__).with_name("costs.json")


@dataclass(frozen=True)
class Estimate:
    """Cost of what is left of one item.

    Parameters
    ----------
    item : str
        PAPER/ITEM.
    seeds : int
        Seeds that are not measured yet.
    seconds, memory_mb : float, optional
        Processor time of all that is left, and peak memory of a process; None where no unit has ever finished.
    source : str
        Where the numbers come from: "finished units" here, or "published".
    """

    item: str
    seeds: int
    seconds: float | None
    memory_mb: float | None
    source: str = ""


def estimate_seconds(
    experiments: Sequence[Experiment], scale: str, seeds: Sequence[int], out: Path, context: Context
) -> list[Estimate]:
    """What is left to measure of every item, and its cost."""
    known, done = published_costs(scale), _finished(out)
    return [
        _estimate(e, units_of(e, scale, seeds, context), len(seeds), done, known.get(e.id))
        for e in experiments
    ]


def _estimate(
    experiment: Experiment,
    units: Sequence[Unit],
    num_seeds: int,
    done: Mapping[str, tuple[float, float]],
    published: tuple[float, float] | None,
) -> Estimate:
    """Finished units of every setting, where there are some; else what was published."""
    settings = [units[i : i + num_seeds] for i in range(0, len(units), num_seeds)]
    finished = [[done[unit.key] for unit in part if unit.key in done] for part in settings]
    left = sum(unit.key not in done for unit in units) / len(settings)
    if all(finished):
        pairs = zip(settings, finished, strict=True)
        seconds = sum((len(part) - len(costs)) * mean(cost for cost, _ in costs) for part, costs in pairs)
        memory = max(memory for costs in finished for _, memory in costs)
        return Estimate(experiment.id, round(left), seconds, memory, "finished units")
    if published is None:
        return Estimate(experiment.id, round(left), None, None)
    return Estimate(experiment.id, round(left), published[0] * left, published[1], "published")


def _finished(out: Path) -> dict[str, tuple[float, float]]:
    """Seconds and memory of the units that are finished in the store of a folder, by key."""
    if not (out / FILE).exists():
        return {}
    with Store(out) as store:
        return store.costs(DONE)


def published_costs(scale: str) -> dict[str, tuple[float, float]]:
    """Seconds of processor time a seed and megabytes of every item that was published at a scale."""
    known = json.loads(KNOWN.read_text(encoding="utf-8"))
    return {id: (seconds, memory) for id, (seconds, memory) in known.get(scale, {}).items()}


def record_costs(folder: Path) -> int:
    """Write costs.json anew from a folder of published results; returns how many items of all scales it has."""
    costs: dict[str, dict[str, list[float]]] = {}
    for scale in SCALES:
        for item in json.loads((folder / f"{scale}.json").read_text(encoding="utf-8")):
            cost = [round(item["seconds"] / len(item["seeds"]), 2), round(item["memory_mb"])]
            costs.setdefault(scale, {})[item["id"]] = cost
    lines = [
        f" {as_json(scale)}: {{\n"
        + ",\n".join(f"  {as_json(id)}: {cost}" for id, cost in items.items())
        + "\n }"
        for scale, items in costs.items()
    ]
    write_whole(KNOWN, "{\n" + ",\n".join(lines) + "\n}\n")
    return sum(map(len, costs.values()))


if __name__ == "__main__":
    print(f"{record_costs(Path(sys.argv[1]))} items are in {KNOWN.name}")
