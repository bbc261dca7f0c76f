"""Ratios of every published run, one line of JSON each, so that a slow-down shows."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.timing import Ratio
from featureprism.sweep.reproduction import provenance

FILE = Path(__file__).with_name("history.jsonl")
SHOWN = 6  # the last runs


def publish(ratios: Sequence[Ratio], file: Path = FILE) -> None:
    """Add a run."""
    about = {"at": datetime.now(UTC).date().isoformat(), **provenance()}
    run = {**about, "ratios": {r.name: round(r.value, 4) for r in ratios}}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(run, ensure_ascii=False) + "\n")


def table(file: Path = FILE) -> list[str]:
    """A line for each ratio with its value in the last runs, the newest at the right."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    runs = [json.loads(line) for line in lines][-SHOWN:]
    names = dict.fromkeys(name for run in runs for name in run["ratios"])
    width = max(map(len, names), default=0)
    head = " ".join(f"{run['featureprism']:>8}" for run in runs)
    rows = [" ".join(f"{run['ratios'].get(name, float('nan')):8.2f}" for run in runs) for name in names]
    return [f"{'':{width}} {head}", *(f"{name:{width}} {row}" for name, row in zip(names, rows, strict=True))]
