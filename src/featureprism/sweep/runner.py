"""Run an experiment unit by unit (setting × seed), keeping each as soon as it is done.

Every row of rows.jsonl names its unit, its place in it and how many rows the unit has, so that a run killed at any moment is
picked up where it stopped, and finished units of other scales or versions stay. run.json, claims.json and the figure speak of
the last run that was finished; timings.json of every unit.
"""

import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from featureprism.data.images import find_source
from featureprism.records import Claim, Experiment, Progress, Row


def content_hash(content: Any) -> str:
    """SHA-256 of something JSON can hold, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Unit:
    """One call of `measure`, known by a hash of everything its rows depend on."""

    experiment: str
    setting: Row
    seed: int

    @property
    def key(self) -> str:
        """Hash of the experiment, setting, seed and library version."""
        return content_hash([self.experiment, self.setting, self.seed, version("featureprism")])[:12]


@dataclass(frozen=True)
class Result:
    """What a run left in its folder."""

    experiment: Experiment
    scale: str
    seeds: Sequence[int]
    rows: list[Row]
    claims: list[Claim]
    seconds: float
    folder: Path


def units(experiment: Experiment, scale: str, seeds: Sequence[int]) -> list[Unit]:
    """All units of an experiment at one scale, in the order they run."""
    if scale not in experiment.scales:
        raise ValueError(f"Unknown scale {scale!r}; choose one of {', '.join(experiment.scales)}.")
    settings = [with_source(setting) for setting in experiment.scales[scale]]
    return [Unit(experiment.id, setting, seed) for setting in settings for seed in seeds]


def with_source(setting: Row) -> Row:
    """A setting that names real data also says which files stand for it here: its rows depend on them."""
    return {**setting, "source": find_source(setting["data"])[0]} if "data" in setting else setting


def finished_rows(path: Path) -> dict[str, list[Row]]:
    """Rows of complete units, by key; what a kill left half-written is dropped."""
    found: dict[str, dict[int, Row]] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(row, dict) and {"unit", "unit_row", "unit_rows"} <= row.keys():
                found.setdefault(row["unit"], {})[row["unit_row"]] = row
    whole = {key: rows for key, rows in found.items() if len(rows) == next(iter(rows.values()))["unit_rows"]}
    return {key: [rows[i] for i in sorted(rows)] for key, rows in whole.items()}


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one motion, so that a kill leaves the old or the new one."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(text)
    os.replace(partial, path)


def _lines(rows: list[Row]) -> str:
    return "".join(json.dumps(row, allow_nan=True) + "\n" for row in rows)


def prepare_folder(folder: Path) -> None:
    """Make the folder, or say in one sentence why it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"Cannot write to {folder}: {error.strerror}. Choose another --out.") from error


def run(
    experiment: Experiment,
    scale: str,
    seeds: Sequence[int],
    out: Path,
    *,
    track: Callable[[int, int], Progress] | None = None,
) -> Result:
    """Run what is missing, judge the claims, and leave rows.jsonl, claims.json and run.json in out/ID.

    `track(index, total)` gives the progress callback of one unit.
    """
    folder = out / experiment.id
    prepare_folder(folder)
    path = folder / "rows.jsonl"
    plan = units(experiment, scale, seeds)
    done = finished_rows(path)
    write_whole(path, "".join(_lines(rows) for rows in done.values()))
    seconds = _known_seconds(folder)
    for index, unit in enumerate(plan):
        progress = track(index, len(plan)) if track else lambda _done: None
        if unit.key not in done:
            began = time.perf_counter()
            rows = list(_labelled(unit, experiment.measure(unit.setting, unit.seed, progress)))
            with path.open("a") as file:
                file.write(_lines(rows))
            done[unit.key] = rows
            seconds[unit.key] = time.perf_counter() - began
            write_whole(folder / "timings.json", json.dumps(seconds, indent=1))
        progress(1.0)
    rows = [row for unit in plan for row in done[unit.key]]
    claims = experiment.claims(rows)
    spent = sum(seconds.get(unit.key, 0.0) for unit in plan)
    told = strict([c.as_row() for c in claims])
    write_whole(folder / "run.json", json.dumps(_about(experiment, scale, seeds, spent), indent=1))
    write_whole(folder / "claims.json", json.dumps(told, indent=1, ensure_ascii=False))
    return Result(experiment, scale, seeds, rows, claims, spent, folder)


def strict(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {k: strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [strict(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _labelled(unit: Unit, rows: list[Row]) -> Iterator[Row]:
    """Rows with their setting, seed and unit in front."""
    for index, row in enumerate(rows):
        yield {
            "unit": unit.key,
            "unit_row": index,
            "unit_rows": len(rows),
            "seed": unit.seed,
            **unit.setting,
            **row,
        }


def _known_seconds(folder: Path) -> dict[str, float]:
    path = folder / "timings.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _about(experiment: Experiment, scale: str, seeds: Sequence[int], seconds: float) -> Row:
    """Provenance: what ran, with which versions, for how long."""
    return {
        "id": experiment.id,
        "source": experiment.source,
        "title": experiment.title,
        "about": experiment.about,
        "scale": scale,
        "seeds": list(seeds),
        "settings": list(experiment.scales[scale]),
        "units": [unit.key for unit in units(experiment, scale, seeds)],
        "versions": versions(),
        "seconds": seconds,
    }


def versions() -> dict[str, str]:
    """The versions that results may depend on."""
    packages = ("featureprism", "torch", "numpy", "scipy")
    return {"python": platform.python_version(), **{p: version(p) for p in packages}}
