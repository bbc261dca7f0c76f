import json
import os
import signal
import subprocess
import sys
import time

import pytest

from featureprism.records import Experiment, judge
from featureprism.sweep import finished_rows, run, units

SETTINGS = [{"a": 1}, {"a": 2}]


def experiment(measure):
    return Experiment(
        "toy/item",
        "source",
        "title",
        {"quick": SETTINGS, "paper": [{"a": 9}]},
        measure,
        lambda rows: [judge("item.sum", "s", "t", [r["value"] for r in rows], ">", 0.0)],
    )


def measure(setting, seed, progress):
    progress(0.5)
    return [{"kind": "x", "value": setting["a"] * 10 + seed}, {"kind": "y", "value": 1}]


def interrupted_after(count):
    calls = []

    def stopping(setting, seed, progress):
        if len(calls) == count:
            raise KeyboardInterrupt
        calls.append(seed)
        return measure(setting, seed, progress)

    return stopping


def test_a_stopped_run_goes_on_and_ends_with_the_same_rows(tmp_path):
    whole = run(experiment(measure), "quick", [0, 1], tmp_path / "whole")
    for count in range(4):
        out = tmp_path / f"stopped after {count}"
        with pytest.raises(KeyboardInterrupt):
            run(experiment(interrupted_after(count)), "quick", [0, 1], out)
        resumed_units = []
        counted = experiment(lambda *a, seen=resumed_units: seen.append(1) or measure(*a))
        resumed = run(counted, "quick", [0, 1], out)
        assert len(resumed_units) == 4 - count  # finished work is not repeated
        assert resumed.rows == whole.rows
        assert (out / "toy/item/rows.jsonl").read_bytes() == (whole.folder / "rows.jsonl").read_bytes()


@pytest.mark.parametrize("cut", [1, 30, 100, 150, 260, 330])
def test_a_file_cut_anywhere_is_mended(cut, tmp_path):
    whole = run(experiment(measure), "quick", [0, 1], tmp_path)
    path = whole.folder / "rows.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-cut])
    assert run(experiment(measure), "quick", [0, 1], tmp_path).rows == whole.rows
    assert path.read_bytes() == content


def test_other_scales_and_seeds_live_side_by_side(tmp_path):
    run(experiment(measure), "quick", [0, 1], tmp_path)
    other = run(experiment(measure), "paper", [5], tmp_path)
    assert [r["value"] for r in other.rows] == [95, 1]
    counted = []
    run(experiment(lambda *a: counted.append(1) or measure(*a)), "quick", [0, 1], tmp_path)
    assert counted == []
    assert len(finished_rows(other.folder / "rows.jsonl")) == 5


def test_the_folder_tells_what_ran(tmp_path):
    result = run(experiment(measure), "quick", [0], tmp_path)
    about = json.loads((result.folder / "run.json").read_text())
    assert about["settings"] == SETTINGS
    assert about["seeds"] == [0]
    assert {"python", "featureprism", "torch"} <= set(about["versions"])
    assert json.loads((result.folder / "claims.json").read_text())[0]["holds"] is True


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Unknown scale"):
        units(experiment(measure), "huge", [0])
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="Cannot write"):
        run(experiment(measure), "quick", [0], tmp_path / "file")


def test_a_kill_loses_nothing_that_was_finished(tmp_path):
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from test_runner import experiment, measure\n"
        "from featureprism.sweep import run\n"
        "def slow(setting, seed, progress):\n"
        "    if setting['a'] == 2: time.sleep(60)\n"
        "    return measure(setting, seed, progress)\n"
        "run(experiment(slow), 'quick', [0, 1], Path(sys.argv[1]))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path), os.path.dirname(__file__)])
    path = tmp_path / "toy/item/rows.jsonl"
    deadline = time.time() + 60
    while time.time() < deadline and not (path.exists() and len(path.read_text().splitlines()) == 4):
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(finished_rows(path)) == 2
    assert (
        run(experiment(measure), "quick", [0, 1], tmp_path).rows
        == run(experiment(measure), "quick", [0, 1], tmp_path / "x").rows
    )
