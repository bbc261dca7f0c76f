import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from featureprism.lab import Claim, Experiment, Local, Serial, Store, at_least, reproduce
from featureprism.lab.engine import Step, UnitEnded
from featureprism.lab.reproduction import Reproduction, hashes, reproduction_events
from featureprism.papers.gmm_flow.figure_4 import FIGURE_4, AlignmentAndGrowth

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Setting:
    a: int


def measure(setting, seed, context):
    context.progress(0.5)
    premise = {
        "kind": "premise",
        "id": "toy.a",
        "name": "a",
        "measured": 1.0 * setting.a,
        "relation": "<=",
        "required": 1.0,
    }
    return [
        {"kind": "x", "value": setting.a * 10 + seed},
        {**premise, "holds": setting.a <= 1, "slack": 1.0 - setting.a, "source": "s"},
    ]


def experiment(measure=measure, id="toy/item"):
    claim = Claim("sum", "s", "t", lambda rows: rows.of("x").mean("value"), at_least(14))
    return Experiment(
        id, "source", "title", {"quick": [Setting(1), Setting(2)], "paper": [Setting(9)]}, measure, (claim,)
    )


def run(out, scale="quick", seeds=(0, 1), measure=measure, executor=None):
    results, failures = reproduce([experiment(measure)], scale, seeds, out, executor or Serial())
    assert not failures
    return results[0]


def test_a_stopped_run_goes_on_and_ends_with_the_same_rows(tmp_path):
    whole = run(tmp_path / "whole")
    for count in range(4):
        calls = []

        def stopping(setting, seed, context, calls=calls, count=count):
            if len(calls) == count:
                calls.append("stop")
                raise KeyboardInterrupt
            calls.append(seed)
            return measure(setting, seed, context)

        out = tmp_path / f"stopped after {count}"
        with pytest.raises(KeyboardInterrupt):
            run(out, measure=stopping)
        resumed = run(out, measure=stopping)
        assert len(calls) == 4 + 1  # finished work is not repeated
        assert resumed.rows == whole.rows
        assert (out / "toy/item/rows.jsonl").read_bytes() == (whole.folder / "rows.jsonl").read_bytes()


def test_workers_give_the_same_files(tmp_path):
    """Of an experiment that other processes can import."""
    tiny = [AlignmentAndGrowth(dim=40, positive=2, negative=2, per_cluster=5, width=8, num_times=3)]
    for name, executor in (("alone", Serial()), ("many", Local(1))):
        reproduce([replace(FIGURE_4, scales={"quick": tiny})], "quick", [0, 1], tmp_path / name, executor)
    for file in ("rows.jsonl", "claims.json"):
        alone, many = (tmp_path / name / FIGURE_4.id / file for name in ("alone", "many"))
        assert alone.read_bytes() == many.read_bytes()


def test_other_scales_and_seeds_live_side_by_side(tmp_path):
    calls = []

    def counted(*args):
        calls.append(1)
        return measure(*args)

    run(tmp_path, measure=counted)
    other = run(tmp_path, "paper", [5], counted)
    assert [row["value"] for row in other.rows.of("x")] == [95]
    assert len(calls) == 5
    run(tmp_path, measure=counted)
    assert len(calls) == 5


def test_the_folder_tells_what_ran(tmp_path):
    result = run(tmp_path)
    about = json.loads((result.folder / "run.json").read_text())
    assert about["settings"] == [{"a": 1}, {"a": 2}]
    assert about["seeds"] == [0, 1]
    assert {"python", "torch"} <= set(about["versions"])
    assert about["premises"] == [
        {
            "id": "toy.a",
            "name": "a",
            "measured": 2.0,
            "relation": "<=",
            "required": 1.0,
            "slack": -1.0,
            "source": "s",
        }
        | {"holding": 2, "runs": 4}
    ]
    (claim,) = json.loads((result.folder / "claims.json").read_text())
    assert (claim["id"], claim["measured"], claim["values"]) == ("item.sum", 15.5, [15.0, 16.0])


def test_a_unit_that_fails_is_told_and_tried_again_and_the_rest_is_kept(tmp_path):
    broken = [True]

    def moody(setting, seed, context):
        if setting.a == 2 and seed == 1 and broken:
            raise ValueError("not today")
        return measure(setting, seed, context)

    pair = [experiment(moody), experiment(measure, "toy/other")]
    results, failures = reproduce(pair, "quick", [0, 1], tmp_path, Serial())
    assert [r.experiment.id for r in results] == ["toy/other"]
    assert [(f.unit.seed, f.message) for f in failures] == [(1, "ValueError: not today")]
    broken.clear()
    results, failures = reproduce(pair, "quick", [0, 1], tmp_path, Serial())
    assert (len(results), failures) == (2, [])


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no scale 'huge'"):
        run(tmp_path, "huge")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="Cannot write"):
        run(tmp_path / "file")


def test_settings_can_be_set(tmp_path):
    (result,), _ = reproduce([experiment()], "quick", [0], tmp_path, Serial(), set={"a": 7})
    assert [row["value"] for row in result.rows.of("x")] == [70]  # both settings are the same now
    about = json.loads((result.folder / "run.json").read_text())
    assert (about["settings"], about["set"]) == ([{"a": 7}], {"a": 7})
    with pytest.raises(ValueError, match="has no setting 'b'"):
        reproduce([experiment()], "quick", [0], tmp_path, Serial(), set={"b": 7})
    with pytest.raises(ValueError, match="a of toy/item must be a whole number"):
        reproduce([experiment()], "quick", [0], tmp_path, Serial(), set={"a": "x"})


def test_experiments_may_have_seeds_of_their_own(tmp_path):
    pair = [experiment(), experiment(id="toy/other")]
    seeds = {"toy/item": (5, 6), "toy/other": (9,)}
    results, _ = reproduce(pair, "quick", seeds, tmp_path, Serial())
    assert [result.seeds for result in results] == [(5, 6), (9,)]


def test_everything_that_happens_is_one_stream(tmp_path):
    request = Reproduction([experiment(), experiment(id="toy/other")], "quick", [0], {})
    events = list(reproduction_events(request, tmp_path, Serial()))
    steps = [event for event in events if isinstance(event, Step)]
    assert [step.ended for step in steps if not step.is_plan] == [0, 1, 2, 3, 4]
    order = [event for event in events if not isinstance(event, Step)]
    names = [e.unit.name if isinstance(e, UnitEnded) else f"judged {e.result.experiment.id}" for e in order]
    first, second = ["toy/item"] * 2, ["toy/other"] * 2
    assert names == [*first, "judged toy/item", *second, "judged toy/other"]


def test_hashes_follow_what_verdicts_depend_on():
    plain = hashes(experiment(), "quick")
    assert hashes(experiment(), "quick") == plain
    assert hashes(experiment(), "paper")["measure"] != plain["measure"]
    assert hashes(experiment(lambda *_: []), "quick")["measure"] != plain["measure"]


SLOW = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_reproduction as toy
from featureprism.papers.gmm_flow.figure_4 import FIGURE_4, AlignmentAndGrowth

def slow(setting, seed, context):
    while setting.a == 2 and Path(sys.argv[1], "wait").exists():
        time.sleep(0.05)
    return toy.measure(setting, seed, context)

toy.run(Path(sys.argv[1]), measure=slow)
"""


def test_a_kill_loses_nothing_that_was_finished(tmp_path):
    (tmp_path / "wait").touch()
    line = [sys.executable, "-c", SLOW, str(tmp_path), str(HERE)]
    process = subprocess.Popen(line)
    while _finished(tmp_path) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert _finished(tmp_path) == 2
    (tmp_path / "wait").unlink()
    run(tmp_path)
    expected = run(tmp_path / "whole").folder / "claims.json"
    assert (tmp_path / "toy/item/claims.json").read_bytes() == expected.read_bytes()


def _finished(folder):
    try:
        with Store(folder) as store:
            return sum(ended is not None for _, _, ended in store.planned("toy/item"))
    except ValueError:  # not yet, or just being made
        return 0
