"""The table of benchmark ratios: published runs from old to new, this run at the right, and how the newest compares."""

import json
import sys
from pathlib import Path

import pytest

from featureprism.sweep import costs

ROOT = Path(__file__).parents[1]


@pytest.fixture
def history(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import history

    yield history
    for name in ("benchmarks.history", "benchmarks.costs"):
        sys.modules.pop(name, None)


def test_a_slow_down_shows_beside_published_runs(history, tmp_path):
    from benchmarks.timing import line

    file = tmp_path / "history.jsonl"
    history.publish([line("descent", 2.0, 3.0), line("flow", 0.5, 1.0)], file)
    history.publish([line("descent", 2.2, 3.0)], file)
    head, *rows = history.table([line("descent", 4.4, 3.0), line("new", 1.0, 1.0)], file)
    assert head.split()[-2:] == ["now", "change"]
    told = {row.split()[0]: row.split()[1:] for row in rows}
    assert told == {"descent": ["2", "2.2", "4.4", "2.00"], "new": ["1"], "flow": ["0.5"]}
    assert [set(json.loads(text)["ratios"]) for text in file.read_text().splitlines()] == [
        {"descent", "flow"},
        {"descent"},
    ]


def test_nothing_published_is_an_empty_table(history, tmp_path):
    assert len(history.table(file=tmp_path / "none.jsonl")) == 1


def test_a_published_run_is_one_line_of_costs_in_steps(history, tmp_path, monkeypatch):
    from benchmarks import costs as published

    monkeypatch.setattr(costs, "KNOWN", tmp_path / "costs.json")
    monkeypatch.setattr(costs, "step_seconds", lambda _clock: 0.25)
    about = {"id": "toy/item", "scale": "paper", "seeds": [1, 2], "seconds": 3.0, "memory_mb": 400.4}
    (tmp_path / "toy/item").mkdir(parents=True)
    (tmp_path / "toy/item/run.json").write_text(json.dumps(about))
    file = tmp_path / "history.jsonl"
    for _ in range(2):
        assert published.publish(tmp_path, file) == 1
    lines = file.read_text().splitlines()
    assert [json.loads(line)["ratios"] for line in lines] == [{"paper toy/item": 6.0}] * 2
    _, row = history.table(file=file)
    assert row.split() == ["paper", "toy/item", "6", "6", "1.00"]
    assert json.loads((tmp_path / "costs.json").read_text())["scales"] == {"paper": {"toy/item": [1.5, 400]}}


@pytest.mark.usefixtures("history")
def test_a_folder_without_results_adds_no_line(tmp_path, monkeypatch):
    from benchmarks import costs as published

    monkeypatch.setattr(costs, "KNOWN", tmp_path / "costs.json")
    monkeypatch.setattr(costs, "step_seconds", lambda _clock: 0.25)
    assert published.publish(tmp_path, tmp_path / "history.jsonl") == 0
    assert not (tmp_path / "history.jsonl").exists()
