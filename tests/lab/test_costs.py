"""What a run will cost: what finished units of the same settings took."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from featureprism.cli import main
from featureprism.lab import Claim, Context, Experiment, Serial, Store, at_least, costs, reproduce
from featureprism.lab.unit import units_of

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
    """30 s a seed were published."""
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"quick": {"toy/item": [30.0, 500]}}))
    monkeypatch.setattr(costs, "KNOWN", path)
    return path


def estimate(experiment, out, num=4):
    (result,) = costs.estimate_seconds([experiment], "quick", range(num), out, Context())
    return result


@pytest.mark.usefixtures("known")
def test_what_was_published_is_the_cost_of_a_seed(tmp_path):
    assert estimate(TOY, tmp_path / "out") == costs.Estimate("toy/item", 4, 120.0, 500, "published")


@pytest.mark.usefixtures("known")
def test_units_that_are_finished_here_come_first(tmp_path):
    out = tmp_path / "out"
    reproduce([TOY], "quick", [0], out, Serial())
    with Store(out) as store:
        units = units_of(TOY, "quick", [0], Context())
        cost, memory = store.cost_of(units)
    result = estimate(TOY, out)
    assert (result.seeds, result.source, result.memory_mb) == (3, "finished units", memory)
    assert result.seconds == pytest.approx(3 * cost)


@pytest.mark.usefixtures("known")
def test_a_setting_without_a_finished_unit_leaves_what_was_published(tmp_path):
    out = tmp_path / "out"
    reproduce([replace(TOY, scales={"quick": [Setting(1)]})], "quick", [0], out, Serial())
    assert estimate(TOY, out).source == "published"
    assert estimate(TOY, out).seconds == pytest.approx(30 * 3.5)  # half of a seed is there


@pytest.mark.usefixtures("known")
def test_what_never_ran_has_no_cost(tmp_path):
    result = estimate(replace(TOY, id="toy/new"), tmp_path / "out")
    assert (result.seconds, result.memory_mb, result.seeds) == (None, None, 4)


def test_recorded_costs_are_seconds_a_seed_and_the_peak_of_a_unit(tmp_path, known):
    item = {"id": "toy/item", "seeds": [2000, 2001], "seconds": 7.0, "memory_mb": 300.4}
    for scale in ("quick", "standard", "paper"):
        (tmp_path / f"{scale}.json").write_text(json.dumps([item] if scale == "quick" else []))
    assert costs.record_costs(tmp_path) == 1
    assert json.loads(known.read_text()) == {"quick": {"toy/item": [3.5, 300]}}


def test_every_published_item_has_a_cost():
    folder = Path(__file__).parents[2] / "docs" / "results"
    for scale in ("quick", "standard", "paper"):
        published = {item["id"] for item in json.loads((folder / f"{scale}.json").read_text())}
        assert published <= set(costs.published_costs(scale)), (
            "run python -m featureprism.lab.costs docs/results"
        )


def test_the_command_prints_the_sum(capsys):
    assert main(["reproduce", "gmm-flow/figure-4", "--estimate", "--workers", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["seconds"] > 0
    assert [item["item"] for item in printed["items"]] == ["gmm-flow/figure-4"]
    assert main(["reproduce", "gmm-flow/figure-4", "--estimate", "--workers", "2"]) == 0
    assert "with 2 workers" in capsys.readouterr().out


def test_a_paper_leaves_out_items_without_the_scale_and_an_item_says_so(capsys):
    assert main(["reproduce", "feature-purification", "--scale", "paper", "--estimate", "--json"]) == 0
    printed, words = capsys.readouterr()
    items = {item["item"] for item in json.loads(printed)["items"]}
    assert "feature-purification/scaling" in items
    assert "feature-purification/demonstration" not in items
    assert "as they have no scale paper" in words
    assert main(["reproduce", "feature-purification/demonstration", "--scale", "paper", "--estimate"]) == 2
