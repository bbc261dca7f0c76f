"""Parts of the lab, each asked directly."""

import json
import sqlite3
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from featureprism.lab import Context, costs
from featureprism.lab.engine import _Run
from featureprism.lab.executors import OVERDUE, past_due
from featureprism.lab.registry import item_called
from featureprism.lab.store import Store, _Entry
from featureprism.lab.sweeps import Between
from featureprism.lab.table import ClaimTable
from featureprism.lab.unit import Unit
from featureprism.lab.work import DONE, Ending, Job, Limits, _module_to_pack


def test_whole_numbers_are_drawn_equally_often_at_both_ends():
    values = Between(1, 4).draw(4000, torch.Generator().manual_seed(0))
    counts = [values.count(v) for v in (1, 2, 3, 4)]
    assert sum(counts) == 4000
    assert min(counts) > 870  # 1000 ± 27
    assert max(counts) < 1130


def test_a_single_file_travels_with_its_function_and_a_package_does_not():
    assert _module_to_pack(json.dumps) is json
    assert _module_to_pack(partial(json.dumps, indent=1)) is json
    assert _module_to_pack(json.JSONDecoder.decode) is None  # json.decoder, which a worker imports


def unit(i):
    return Unit("m", measure, {"i": i}, 0, {"i": i}, "")


def measure(_setting, _seed, _context):
    return []


def row(number):
    return (number, *[None] * (len(_Entry._fields) - 1))


class Damaged:
    """A table of five units: a page with the third cannot be read, and neither order gets past its neighbours."""

    def execute(self, query, values):
        if "unit = ?" in query:
            if values[-1] == 3:
                raise sqlite3.DatabaseError
            return iter([row(values[-1])])
        return self.until_broken(5 if "DESC" in query else 1)

    def until_broken(self, unit):
        yield row(unit)
        raise sqlite3.DatabaseError


def test_around_a_broken_page_every_unit_is_read_in_order():
    store: Any = SimpleNamespace(_db=Damaged(), _damaged=set())
    assert [entry.unit for entry in Store._entries(store)] == [1, 2, 4, 5]
    assert store._damaged == {0}


def test_seconds_of_a_unit_are_those_of_its_task_shared_out(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 104.0)
    due = [SimpleNamespace(unit=unit(i), attempt=1) for i in range(2)]
    run: Any = SimpleNamespace(
        running={0: (due, 100.0)},
        again=[],
        ends={DONE: 0},
        rules=SimpleNamespace(attempts=2),
        store=SimpleNamespace(record=lambda _records: None),
    )
    assert len(list(_Run._take(run, 0, [Ending(DONE)] * 2))) == 2
    assert run.seconds_each == 2.0
    assert run.ends[DONE] == 2


def test_the_memory_of_an_estimate_is_that_of_the_largest_unit():
    units = [unit(i) for i in range(4)]
    spent = {0: (1.0, 100.0), 2: (3.0, 900.0), 3: (3.0, 300.0)}
    done = {units[i].key: cost for i, cost in spent.items()}
    found = costs._estimate(item_called("gmm-flow/figure-2"), units, 2, done, None)
    assert (found.seconds, found.memory_mb, found.source) == (1.0, 900.0, "finished units")


@pytest.mark.parametrize(("published", "scales"), [({}, ("quick",)), ({"standard": {}}, ("standard",))])
def test_a_table_shows_the_scales_that_were_published(published, scales):
    experiment = item_called("gmm-flow/figure-2")
    assert ClaimTable.of_published(experiment, published).scales == scales


def test_a_unit_is_overdue_a_minute_after_its_limit():
    jobs = [Job(measure, {}, 0, Context(), Limits(seconds=limit)) for limit in (5.0, 7.0, None)]
    assert not past_due(jobs, 12.0 + OVERDUE)
    assert past_due(jobs, 12.1 + OVERDUE)
    assert not past_due(jobs[2:], 1e9)
