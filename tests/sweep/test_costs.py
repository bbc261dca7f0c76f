"""What a run will cost: published costs times the pace of this machine, less what is measured already."""

import json
import sqlite3
from dataclasses import dataclass, replace

import numpy as np
import pytest

from featureprism.cli import main
from featureprism.context import Context
from featureprism.experiment import Claim, Experiment, at_least
from featureprism.sweep import Serial, Store, costs, reproduce
from featureprism.sweep.unit import units_of

HOARD = 200  # MB


@dataclass(frozen=True)
class Setting:
    a: int


def measure(setting, seed, _context):
    held = np.ones(HOARD * 2**17)
    return [{"kind": "x", "value": setting.a + seed + float(held[0])}]


CLAIM = Claim("sum", "s", "t", lambda rows: rows.of("x").mean("value"), at_least(0))
TOY = Experiment("toy/item", "source", "title", {"quick": [Setting(1), Setting(2)]}, measure, (CLAIM,))


@pytest.fixture
def known(tmp_path, monkeypatch):
    """Twice as slow here as where it took 30 s a seed."""
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"step": 0.1, "scales": {"quick": {"toy/item": [30.0, 500]}}}))
    monkeypatch.setattr(costs, "KNOWN", path)
    monkeypatch.setattr(costs, "step_seconds", lambda _clock=None: 0.2)
    return path


@pytest.mark.usefixtures("known")
def test_seconds_are_those_of_this_machine_and_of_what_is_left(tmp_path):
    out = tmp_path / "out"
    (found,) = costs.estimates([TOY], "quick", range(4), out, Context())
    assert found == costs.Estimate("toy/item", 4, 240.0, 500)
    reproduce([TOY], "quick", [0], out, Serial())
    (found,) = costs.estimates([TOY], "quick", range(4), out, Context())
    assert (found.seeds, found.seconds) == (3, 180.0)


@pytest.mark.usefixtures("known")
def test_training_that_nobody_published_has_the_time_of_its_steps(tmp_path):
    image = replace(TOY, id="toy/image", foretell=lambda setting, _context: 7.0 * setting.a)
    (found,) = costs.estimates([image], "quick", range(4), tmp_path / "out", Context())
    assert found == costs.Estimate("toy/image", 4, 4 * 7.0 * (1 + 2), None)
    new = replace(TOY, id="toy/new")
    (unknown,) = costs.estimates([new], "quick", range(4), tmp_path / "out", Context())
    assert (unknown.seconds, unknown.memory_mb) == (None, None)
    reproduce([new], "quick", [0], tmp_path / "out", Serial())
    with Store(tmp_path / "out") as store:
        units = units_of(new, "quick", [0], Context())
        cost, memory = store.seconds_of(units), store.memory_of(units)
    (begun,) = costs.estimates([new], "quick", range(4), tmp_path / "out", Context())
    assert (begun.seeds, begun.seconds, begun.memory_mb) == (3, pytest.approx(3 * cost), memory)


def test_published_costs_are_seconds_a_seed_and_the_peak_of_a_unit(tmp_path, known):
    reproduce([TOY], "quick", [0, 1], tmp_path / "out", Serial())
    assert costs.publish_costs(tmp_path / "out") == 1
    seconds, memory = json.loads(known.read_text())["scales"]["quick"]["toy/item"]
    with Store(tmp_path / "out") as store:
        units = units_of(TOY, "quick", [0, 1], Context())
        assert seconds == pytest.approx(store.seconds_of(units) / 2, abs=0.01)
        assert memory == pytest.approx(store.memory_of(units), abs=1)
    assert memory > HOARD


def test_a_store_without_memory_is_read_and_written_on(tmp_path):
    out = tmp_path / "out"
    reproduce([TOY], "quick", [0], out, Serial())
    with sqlite3.connect(out / "units.sqlite") as db:
        db.execute("ALTER TABLE units DROP COLUMN memory_mb")
        db.execute("PRAGMA user_version = 2")
    units = units_of(TOY, "quick", [0], Context())
    with Store(out) as store:
        assert len(list(store.rows_of(units))) == 2
    reproduce([TOY], "quick", [0, 1], out, Serial())
    with Store(out) as store:
        assert store.memory_of(units_of(TOY, "quick", [1], Context())) > HOARD
        assert store.memory_of(units) == 0  # measured before anybody looked


def test_a_step_takes_time_and_the_command_tells_the_sum(capsys):
    assert costs.step_seconds() > 0
    assert main(["reproduce", "gmm-flow/figure-4", "--estimate", "--workers", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seconds"] > 0
    assert [item["item"] for item in told["items"]] == ["gmm-flow/figure-4"]
    assert main(["reproduce", "gmm-flow/figure-4", "--estimate", "--workers", "2"]) == 0
    assert "with 2 workers" in capsys.readouterr().out


def test_a_paper_leaves_out_items_without_the_scale_and_an_item_says_so(capsys, monkeypatch):
    monkeypatch.setattr(costs, "step_seconds", lambda: 1.0)
    assert main(["reproduce", "feature-purification", "--scale", "paper", "--estimate", "--json"]) == 0
    told, words = capsys.readouterr()
    items = {item["item"] for item in json.loads(told)["items"]}
    assert "feature-purification/scaling" in items
    assert "feature-purification/zoo" not in items
    assert "as they have no scale paper" in words
    assert main(["reproduce", "feature-purification/zoo", "--scale", "paper", "--estimate"]) == 2
