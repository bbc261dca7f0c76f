"""Experiments, unit by unit: whatever is measured is kept at once, and an experiment is judged as soon as its last unit is there."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from featureprism import __version__
from featureprism.context import Context
from featureprism.files import as_json, prepare_folder, write_whole
from featureprism.lab import Experiment, Rows, Verdict, fields_of
from featureprism.records import Row
from featureprism.sweep.engine import Track, run_units
from featureprism.sweep.executors import Executor
from featureprism.sweep.store import Store
from featureprism.sweep.unit import Unit, units_of, versions
from featureprism.sweep.work import DONE, Outcome


@dataclass(frozen=True)
class Result:
    """What a finished experiment left in its folder."""

    experiment: Experiment
    scale: str
    seeds: tuple[int, ...]
    rows: Rows
    verdicts: list[Verdict]
    seconds: float
    folder: Path


@dataclass(frozen=True)
class Failure:
    """A unit that could not be measured, and why."""

    unit: Unit
    message: str


def reproduce(
    experiments: Sequence[Experiment],
    scale: str,
    seeds: Sequence[int],
    out: Path,
    executor: Executor,
    *,
    context: Context = Context(),
    track: Track | None = None,
    finish: Callable[[Result], None] | None = None,
) -> tuple[list[Result], list[Failure]]:
    """Measure what is missing and judge; `finish` is told of every experiment as soon as it is complete.

    Leaves out/ID/{rows.jsonl, claims.json, run.json}. An experiment of which a unit failed is not judged; the same call tries it again.
    """
    prepare_folder(out)
    plans = {e.id: units_of(e, scale, seeds, context) for e in experiments}
    waiting = {id: {unit.key for unit in units} for id, units in plans.items()}
    results: dict[str, Result] = {}
    failures: list[Failure] = []
    with Store(out, write=True) as store:

        def complete(experiment: Experiment) -> None:
            result = _result(experiment, scale, tuple(seeds), store, plans[experiment.id], out)
            results[experiment.id] = result
            if finish is not None:
                finish(result)

        def hear(unit: Unit, outcome: Outcome) -> None:
            if outcome.ended != DONE:
                failures.append(Failure(unit, outcome.message or outcome.ended))
                return
            waiting[unit.what].discard(unit.key)
            if not waiting[unit.what]:
                complete(named[unit.what])

        named = {e.id: e for e in experiments}
        for experiment in experiments:
            endings = store.endings(waiting[experiment.id])
            waiting[experiment.id] -= {key for key, ended in endings.items() if ended == DONE}
            if not waiting[experiment.id]:
                complete(experiment)
        units = [unit for units in plans.values() for unit in units]
        run_units(store, units, executor, context=context, track=track, hear=hear)
    return [results[e.id] for e in experiments if e.id in results], failures


def _result(
    experiment: Experiment, scale: str, seeds: tuple[int, ...], store: Store, units: list[Unit], out: Path
) -> Result:
    """Judge an experiment and write its folder."""
    folder = out / experiment.id
    prepare_folder(folder)
    rows = Rows.gather(store.rows_of(units))
    verdicts, seconds = experiment.judge(rows), store.seconds_of(units)
    about = {
        "id": experiment.id,
        "source": experiment.source,
        "title": experiment.title,
        "about": experiment.about,
        "scale": scale,
        "seeds": list(seeds),
        "settings": [fields_of(setting) for setting in experiment.settings(scale)],
        "seconds": seconds,
        "memory_mb": store.memory_of(units),
        "code": units[0].code,
        "premises": premises(rows),
        "attack": attack_facts(rows),
        **provenance(),
    }
    write_whole(folder / "rows.jsonl", "".join(as_json(row) + "\n" for row in rows))
    write_whole(folder / "run.json", as_json(about, indent=1))
    write_whole(folder / "claims.json", as_json([v.as_row() for v in verdicts], indent=1))
    return Result(experiment, scale, seeds, rows, verdicts, seconds, folder)


def premises(rows: Rows) -> list[Row]:
    """Each premise once: in how many runs it holds, and the run that has the least slack."""
    table = []
    for id, part in rows.of("premise").groups("id").items():
        tightest = min(part, key=lambda row: row["slack"] if row["slack"] is not None else float("inf"))
        fields = ("name", "measured", "relation", "required", "slack", "source")
        holding = sum(row["holds"] is True for row in part)
        table.append(
            {"id": id, **{key: tightest[key] for key in fields}, "holding": holding, "runs": len(part)}
        )
    return table


def attack_facts(rows: Rows) -> Row | None:
    """What stands beside attacked radii: whether every self-test passed, and the largest shares; None where nothing was attacked."""
    attacked = rows.where(lambda row: row.get("self_test_passed") is not None)
    if not len(attacked):
        return None
    shares = {
        name: max((v for v in attacked.column(name).tolist() if v == v), default=0.0)
        for name in ("zero_gradient_share", "blind_share")
    }
    return {"passed": all(row["self_test_passed"] for row in attacked), **shares}


def provenance() -> Row:
    """The code and the versions that results come from."""
    return {"featureprism": __version__, "commit": _commit(), "versions": versions()}


@lru_cache(maxsize=1)
def _commit() -> str | None:
    """The commit of the source tree this runs from, marked when files differ from it; None for an installed package."""
    folder = Path(__file__).parent
    try:
        told = [
            subprocess.run(
                ["git", "-C", str(folder), *command], capture_output=True, text=True, check=True, timeout=20
            )
            for command in (
                ["rev-parse", "--short=12", "HEAD"],
                ["status", "--porcelain", "--", str(folder.parent)],
            )
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return told[0].stdout.strip() + (" with changes" if told[1].stdout.strip() else "")
