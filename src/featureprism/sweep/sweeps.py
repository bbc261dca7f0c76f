"""Sweeps: the units of many settings, and, where an item of a paper is swept, its claims at every point."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from featureprism.context import Context
from featureprism.files import as_json, prepare_folder, write_whole
from featureprism.lab import Experiment, Rows, Verdict
from featureprism.records import Row
from featureprism.sweep.engine import Summary, Track, run_units
from featureprism.sweep.executors import Executor
from featureprism.sweep.spec import Sweep
from featureprism.sweep.store import Store
from featureprism.sweep.work import DONE


@dataclass(frozen=True)
class Judged:
    """The verdicts of an item at one point of a sweep."""

    changes: Row
    verdicts: list[Verdict]


def sweep(
    asked: Sweep, out: Path, executor: Executor, *, context: Context = Context(), track: Track | None = None
) -> Summary:
    """Run what is missing and keep it in `out`; claims.json there judges an item of a paper at every finished point."""
    prepare_folder(out)
    with Store(out, write=True) as store:
        summary = run_units(
            store, asked.units(context), executor, context=context, rules=asked.rules, track=track
        )
        if isinstance(asked.source, Experiment):
            points = [
                {"point": judged.changes, "claims": [v.as_row() for v in judged.verdicts]}
                for judged in judge_points(asked, asked.source, store, context)
            ]
            write_whole(out / "claims.json", as_json(points, indent=1))
    return summary


def judge_points(
    asked: Sweep, experiment: Experiment, store: Store, context: Context = Context()
) -> Iterator[Judged]:
    """The claims at every point whose units are all there."""
    groups: dict[str, list] = {}
    for point in asked.points:
        groups.setdefault(json.dumps(point.changes, sort_keys=True), []).append(point)
    for points in groups.values():
        units = [asked.unit(point.setting, seed, context) for point in points for seed in asked.seeds]
        endings = store.endings(unit.key for unit in units)
        if all(endings.get(unit.key) == DONE for unit in units):
            yield Judged(points[0].changes, experiment.judge(Rows.gather(store.rows_of(units))))
