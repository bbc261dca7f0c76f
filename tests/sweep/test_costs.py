"""What a run will cost: published costs times the pace of this machine, less what is measured already."""

import json
import sqlite3
from dataclasses import dataclass, replace

import numpy as np
import pytest

from featureprism.cli import main
from featureprism.commands import experiments
from featureprism.context import Context
from featureprism.lab import Claim, Experiment, at_least
from featureprism.sweep import Serial, Store, costs, reproduce
from featureprism.sweep.beginnings import Beginning
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
    assert found == costs.Estimate("toy/item", 4, 240.0, 500, "published")
    reproduce([TOY], "quick", [0], out, Serial())
    (found,) = costs.estimates([TOY], "quick", range(4), out, Context())
    assert (found.seeds, found.seconds) == (3, 180.0)


@pytest.mark.usefixtures("known")
def test_training_that_nobody_published_has_the_time_of_its_steps(tmp_path):
    image = replace(TOY, id="toy/image", foretell=lambda setting, _context: 7.0 * setting.a)
    (found,) = costs.estimates([image], "quick", range(4), tmp_path / "out", Context())
    assert found == costs.Estimate("toy/image", 4, 4 * 7.0 * (1 + 2), None, "training steps")


NEW = replace(TOY, id="toy/new")


def begun(units):
    """What a unit will cost: ten seconds for each a."""
    return {unit.key: Beginning(10.0 * unit.setting.a, 0.5, 300.0 + unit.setting.a) for unit in units}


@pytest.mark.usefixtures("known")
def test_what_nobody_has_timed_is_begun_once_a_setting(tmp_path):
    asked = []

    def begin(units):
        asked.extend((unit.what, unit.setting.a, unit.seed) for unit in units)
        return begun(units)

    found = costs.estimates([TOY, NEW], "quick", range(3, 7), tmp_path / "out", Context(), begin)
    assert found[1] == costs.Estimate("toy/new", 4, 4 * (10.0 + 20.0), 302.0, "its first 1 s")
    assert asked == [("toy/new", 1, 3), ("toy/new", 2, 3)]


@pytest.mark.usefixtures("known")
def test_settings_that_tell_nothing_are_counted(tmp_path):
    (found,) = costs.estimates([NEW], "quick", range(4), tmp_path / "out", Context())
    assert (found.seconds, found.memory_mb, found.unknown) == (None, None, 2)
    (part,) = costs.estimates(
        [NEW], "quick", range(4), tmp_path / "out", Context(), lambda units: begun(units[:1])
    )
    assert (part.seconds, part.unknown, part.source) == (40.0, 1, "its first 0.5 s, 1 of 2 settings unknown")


@pytest.mark.usefixtures("known")
def test_a_setting_costs_what_its_own_finished_units_did(tmp_path):
    out = tmp_path / "out"
    one = replace(NEW, scales={"quick": [Setting(1)]})
    reproduce([one], "quick", [0], out, Serial())
    with Store(out) as store:
        units = units_of(one, "quick", [0], Context())
        cost, memory = store.seconds_of(units), store.memory_of(units)
    (alone,) = costs.estimates([one], "quick", range(4), out, Context())
    assert (alone.seeds, alone.seconds, alone.memory_mb) == (3, pytest.approx(3 * cost), memory)
    (both,) = costs.estimates([NEW], "quick", range(4), out, Context(), begun)
    assert both.seconds == pytest.approx(3 * cost + 4 * 20.0)
    assert both.source == "finished units, its first 0.5 s"


@pytest.mark.usefixtures("known")
def test_seconds_of_the_processor_take_longer_on_a_busy_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "step_seconds", lambda clock=None: 0.2 if clock else 0.6)
    (found,) = costs.estimates([NEW], "quick", [0], tmp_path / "out", Context(), begun)
    assert found.seconds == pytest.approx(3 * 30.0)


def test_published_costs_are_seconds_a_seed_and_the_peak_of_a_unit(tmp_path, known):
    reproduce([TOY], "quick", [0, 1], tmp_path / "out", Serial())
    steps = costs.publish_costs(tmp_path / "out")
    told = json.loads(known.read_text())
    seconds, memory = told["scales"]["quick"]["toy/item"]
    with Store(tmp_path / "out") as store:
        units = units_of(TOY, "quick", [0, 1], Context())
        a_seed = store.seconds_of(units) / 2
        assert steps == {"quick toy/item": pytest.approx(a_seed / 0.2)}
        assert seconds == pytest.approx(a_seed / 2, abs=0.01)  # where a step takes half as long
        assert told["step"] == 0.1
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
        assert {memory for _, memory in store.costs("done").values()} == {0.0}
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
    monkeypatch.setattr(costs, "step_seconds", lambda _clock=None: 1.0)
    monkeypatch.setattr(experiments, "beginnings", lambda *_: {})
    assert main(["reproduce", "feature-purification", "--scale", "paper", "--estimate", "--json"]) == 0
    told, words = capsys.readouterr()
    items = {item["item"] for item in json.loads(told)["items"]}
    assert "feature-purification/scaling" in items
    assert "feature-purification/zoo" not in items
    assert "as they have no scale paper" in words
    assert main(["reproduce", "feature-purification/zoo", "--scale", "paper", "--estimate"]) == 2
