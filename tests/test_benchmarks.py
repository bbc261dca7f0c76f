"""The table of benchmark ratios: published runs from old to new, this run at the right, and how the newest compares."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def history(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import history

    yield history
    sys.modules.pop("benchmarks.history", None)


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
