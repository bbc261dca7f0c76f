"""Ratios of every published run, one line of JSON each, so that a slow-down shows."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.timing import Ratio
from featureprism.lab.reproduction import provenance

FILE = Path(__file__).with_name("history.jsonl")
SHOWN = 6  # the last runs


def publish(ratios: Sequence[Ratio], file: Path = FILE) -> None:
    """Add a run."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(_run(ratios), ensure_ascii=False) + "\n")


def _run(ratios: Sequence[Ratio]) -> dict[str, Any]:
    about = {"at": datetime.now(UTC).date().isoformat(), **provenance()}
    return {**about, "ratios": {r.name: round(r.value, 4) for r in ratios}}


def table(now: Sequence[Ratio] = (), file: Path = FILE) -> list[str]:
    """A line for each ratio: its value in the last published runs and, if there is one, in this run; then newest ÷ the one before."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    runs = [json.loads(line) for line in lines][-SHOWN:]
    heads = [run["featureprism"] for run in runs]
    if now:
        runs, heads = [*runs, _run(now)], [*heads, "now"]
    names = dict.fromkeys(name for run in reversed(runs) for name in run["ratios"])
    width = max(map(len, names), default=0)
    return [
        " ".join([" " * width, *(f"{head:>8}" for head in (*heads, "change"))]),
        *(
            " ".join([f"{name:{width}}", *_cells([run["ratios"].get(name) for run in runs])])
            for name in names
        ),
    ]


def _cells(values: Sequence[float | None]) -> list[str]:
    known = [value for value in values if value is not None]
    change = f"{known[-1] / known[-2]:8.2f}" if len(known) > 1 and known[-2] else f"{'':8}"
    return [*(f"{'':8}" if value is None else f"{value:8.3g}" for value in values), change]
