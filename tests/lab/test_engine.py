import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from featureprism.lab import (
    Claim,
    Cluster,
    Experiment,
    Limits,
    Local,
    Rules,
    Serial,
    Store,
    above,
    grid,
    of_function,
    of_item,
    sources,
    sweep,
)
from featureprism.lab.engine import Budget, run_units
from featureprism.lab.executors import affordable
from featureprism.lab.spec_file import load_function
from featureprism.lab.sweeps import Between, draws, sweep_events
from featureprism.lab.unit import Unit
from featureprism.lab.work import DIED, DONE, MEMORY, RAISED, TIME

HERE = Path(__file__).parent
SHORT = grid(size=list(range(10)), scale=[0.1, 1.0])


def swept(name, settings, seeds=(0,), **rules):
    measure = load_function(f"measures.py:{name}", HERE)
    return of_function(measure, settings, name=name, seeds=seeds, rules=Rules(retry=False, **rules))


def table(folder):
    with Store(folder) as store:
        return [row for name in store.names() for row in store.rows(name)]


def test_a_grid_and_draws_are_what_they_say():
    assert grid(a=[1, 2], b=["x"]) == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]
    some = draws(400, 3, a=Between(1e-3, 10.0, log=True), n=Between(1, 4), word=["u", "v"])
    assert some == draws(400, 3, a=Between(1e-3, 10.0, log=True), n=Between(1, 4), word=["u", "v"])
    assert [s["a"] for s in some] == [s["a"] for s in draws(400, 3, a=Between(1e-3, 10.0, log=True))]
    assert {s["n"] for s in some} == {1, 2, 3, 4}
    assert sum(s["a"] < 0.1 for s in some) == pytest.approx(200, abs=60)  # the middle of the log scale
    assert {s["word"] for s in some} == {"u", "v"}


def test_every_executor_gives_the_same_table(tmp_path):
    asked = swept("short", SHORT, seeds=(0, 5))
    summary = sweep(asked, tmp_path / "serial", Serial())
    assert (summary.total, summary.done, summary.failed, summary.waiting) == (40, 40, 0, 0)
    sweep(asked, tmp_path / "local", Local(2))
    rows = table(tmp_path / "serial")
    assert table(tmp_path / "local") == rows
    assert [r["seed"] for r in rows[:4]] == [0, 0, 5, 5]
    assert rows[0] == {"seed": 0, "size": 0, "scale": 0.1, "kind": "sum", "value": rows[0]["value"]}
    assert len({r["value"] for r in rows if r["kind"] == "sum"}) == 40


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system for the memory of a process")
def test_workers_keep_no_holes_of_freed_tensors(tmp_path):
    sweep(swept("growing", [{"any": 0}]), tmp_path, Local(1))
    assert table(tmp_path)[0]["gained"] < 50  # in a process that keeps them 270


def test_a_finished_unit_is_never_run_twice(tmp_path):
    log = tmp_path / "calls"

    def measure(setting, seed):
        with log.open("a") as file:
            file.write(f"{setting['a']}/{seed} ")
        if setting["a"] == 3:
            raise ValueError("no")
        return [{"value": setting["a"]}]

    def ask(values, retry=False):
        log.write_text("")
        asked = of_function(measure, grid(a=values), name="m", rules=Rules(retry=retry))
        return sweep(asked, tmp_path, Serial())

    assert ask([1, 1, 3]).failed == 1
    assert log.read_text() == "1/0 3/0 "  # the same setting twice is one setting
    assert ask([1, 2, 3]).done == 2
    assert log.read_text() == "2/0 "
    ask([1, 2, 3], retry=True)
    assert log.read_text() == "3/0 "
    with Store(tmp_path) as store:
        assert [f["message"] for f in store.failures()] == ["ValueError: no"] * 2
        assert "raise ValueError" in next(store.failures())["traceback"]


def test_edited_code_is_measured_again_and_edited_comments_are_not(tmp_path, monkeypatch):
    """Each time as a new process sees it: nothing is remembered of the files as they were."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    source = (
        '"""Mine."""\nfrom beside import FACTOR\n\n\ndef measure(setting, seed):\n    """Rows."""\n'
        "    return [{'value': setting['a'] * FACTOR}]  # so it is\n\n\ndef other():\n    return 1\n"
    )

    def stale(mine, beside):
        (tmp_path / "mine.py").write_text(mine)
        (tmp_path / "beside.py").write_text(beside)
        sys.modules.pop("beside", None)
        for remembered in vars(sources).values():
            if hasattr(remembered, "cache_clear"):
                remembered.cache_clear()
        measure = load_function("mine.py:measure", tmp_path)
        summary = sweep(of_function(measure, grid(a=[1, 2]), name="m"), tmp_path / "out", Serial())
        return summary.stale, [row["value"] for row in table(tmp_path / "out")]

    assert stale(source, "FACTOR = 2\n") == (0, [2, 4])
    talk = source.replace("Rows", "My rows").replace("so it", "thus it").replace("return 1", "return 2")
    assert stale(talk, "FACTOR = 2\n") == (0, [2, 4])  # comments, docstrings, and what nobody calls
    assert stale(source, "FACTOR = 3\n") == (2, [3, 6])
    assert stale(source.replace("* FACTOR", "+ FACTOR"), "FACTOR = 3\n") == (2, [4, 5])


def test_a_budget_stops_and_the_next_call_goes_on(tmp_path):
    asked = [swept("short", SHORT, budget=Budget(units=n)) for n in (7, 100)]
    assert sweep(asked[0], tmp_path / "a", Serial()).waiting == 13
    assert sweep(asked[1], tmp_path / "a", Serial()).waiting == 0
    assert sweep(swept("short", SHORT, budget=Budget(seconds=1e-9)), tmp_path / "b", Serial()).done == 0


def hostile(executor, folder, acts, limits):
    """Units that do the given things among ten good ones: how each ended, and every failure as (act, ending, attempt)."""
    settings = [{"act": act, "mark": str(folder / "mark")} for act in acts]
    good = [{"act": "work", "i": i} for i in range(10)]
    sweep(swept("hostile", [*settings, *good], (1,), limits=limits), folder / "out", executor)
    with Store(folder / "out") as store:
        ends = {setting["act"]: ended for setting, _, ended in store.planned("hostile")}
        failures = [(json.loads(f["setting"])["act"], f["ended"], f["attempt"]) for f in store.failures()]
    assert [row["value"] for row in table(folder / "out")] == [10] * (10 + acts.count("die once"))
    assert ends.pop("work") == DONE
    return ends, sorted(failures)


def test_bad_units_are_recorded_and_harm_nobody(tmp_path):
    ends, failures = hostile(Local(2), tmp_path, ["raise", "leave", "hog", "die once"], Limits(memory_mb=300))
    assert ends == {"raise": RAISED, "leave": RAISED, "hog": MEMORY, "die once": DONE}
    assert failures == [
        ("die once", DIED, 1),
        ("hog", MEMORY, 1),
        ("hog", MEMORY, 2),
        ("leave", RAISED, 1),
        ("raise", RAISED, 1),
    ]


def test_what_hangs_is_ended(tmp_path):
    """Only the unit that hangs has a time limit, so that a slow machine changes nothing."""
    sweep(swept("hostile", [{"act": "hang"}], limits=Limits(seconds=0.2)), tmp_path, Local(1))
    sweep(swept("hostile", [{"act": "work"}], (1,)), tmp_path, Serial())
    with Store(tmp_path) as store:
        assert [ended for _, _, ended in store.planned("hostile")] == [TIME, DONE]
        assert [(f["ended"], f["attempt"]) for f in store.failures()] == [(TIME, 1), (TIME, 2)]


def test_dask_gives_the_same_and_replaces_a_dead_worker(tmp_path):
    pytest.importorskip("distributed")
    ends, failures = hostile(Cluster(workers=1), tmp_path, ["raise", "die once"], Limits())
    assert ends == {"raise": RAISED, "die once": DONE}
    # what was sent to the dying worker, or among others, is tried again; nothing is given up for it
    assert ("raise", RAISED, 1) in failures
    assert {(ending, attempt) for act, ending, attempt in failures if act != "raise"} <= {(DIED, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("executor", [Local, lambda n: Cluster(workers=n)], ids=["local", "dask"])
def test_all_bad_units_on_both_executors(executor, tmp_path):
    acts = ["raise", "hog", "leave", "die", "die once"]
    ends, failures = hostile(executor(2), tmp_path, acts, Limits(memory_mb=300))
    wanted = {"raise": RAISED, "leave": RAISED, "hog": MEMORY, "die": DIED}
    assert ends == {**wanted, "die once": DONE}
    twice = [(act, wanted[act], attempt) for act in ("hog", "die") for attempt in (1, 2)]
    assert failures == sorted([*twice, ("raise", RAISED, 1), ("leave", RAISED, 1), ("die once", DIED, 1)])


def test_units_of_one_family_stay_on_one_worker_while_others_have_work(tmp_path):
    def measure(_setting, _seed, _context):
        return [{"process": os.getpid()}]

    units = [
        Unit("m", measure, {"i": i, "family": family}, 0, {"i": i, "family": family}, family)
        for i in range(6)
        for family in "ab"
    ]
    with Store(tmp_path, write=True) as store:
        run_units(store, units, Local(2))
        rows = list(store.rows("m"))
    homes = [{row["process"] for row in rows if row["family"] == family} for family in "ab"]
    assert min(map(len, homes)) == 1  # the other may have helped out when it had nothing left


def test_rows_must_be_flat_rows(tmp_path):
    sweep(swept("wrong", [{"a": 1}]), tmp_path, Serial())
    with Store(tmp_path) as store:
        assert "list of rows" in next(store.failures())["message"]
    bad = of_function(lambda _setting, _seed: [{"a": [1, 2]}], [{"a": 1}], name="nested")
    sweep(bad, tmp_path / "nested", Serial())
    with Store(tmp_path / "nested") as store:
        assert "Rows are flat: a" in next(store.failures())["message"]


def test_nan_and_numpy_numbers_survive(tmp_path):
    values = {
        "nan": float("nan"),
        "inf": float("inf"),
        "third": np.float64(1 / 3),
        "one": np.int64(1),
        "yes": True,
    }
    sweep(of_function(lambda _setting, _seed: [values], [{"a": 1}], name="v"), tmp_path, Serial())
    (row,) = table(tmp_path)
    assert row["nan"] != row["nan"]
    assert (row["inf"], row["third"], row["one"], row["yes"]) == (float("inf"), 1 / 3, 1, True)


def test_readers_see_whole_tasks_while_a_sweep_writes(tmp_path):
    events = sweep_events(swept("short", SHORT), tmp_path, Serial())
    next(events)  # comes before there is a store
    seen = [len(table(tmp_path)) for _ in events]
    assert sorted(set(seen)) == list(range(0, 42, 2))


def test_an_item_is_swept_from_its_own_settings(tmp_path):
    points = grid(dim=[20, 30])
    asked = of_item("gmm-flow/propositions", points, seeds=(0,))
    assert {point.setting.dim for point in asked.points} == {20, 30}
    small = grid(dim=[60, 80], test_points=[4])
    sweep(of_item("gmm-flow/figure-2", small, where={"model": "bayes"}, seeds=(0, 1)), tmp_path, Serial())
    assert {r["dim"] for r in table(tmp_path) if r["kind"] == "summary"} == {60, 80}
    points = json.loads((tmp_path / "claims.json").read_text())
    assert [point["point"]["dim"] for point in points] == [60, 80]
    verdicts = {claim["id"]: claim for claim in points[0]["claims"]}
    assert len(verdicts["figure-2.relu"]["values"]) == 2
    assert verdicts["figure-2.relu"]["verdict"] == "not measured"  # it was not swept


def test_memory_bounds_the_number_of_workers():
    assert affordable(1, 10**9) == 1
    assert affordable(64, 10**9) == 1
    assert affordable(2, None) in (1, 2)


def test_a_grid_that_leaves_out_what_a_claim_compares_is_not_judged_there(tmp_path, monkeypatch):
    def measure(setting, _seed, _context):
        return [{"kind": setting["side"], "value": 1.0}]

    def ratio(rows):
        return np.array([rows.of("left")[0]["value"] / rows.of("right")[0]["value"]] * len(rows.seeds))

    claims = (
        Claim("ratio", "s", "t", ratio, above(0.5)),
        Claim("left", "s", "t", lambda rows: rows.of("left").per_seed("value"), above(0.5)),
    )
    settings = [{"side": side, "n": 1} for side in ("left", "right")]
    item = Experiment("toy/pair", "s", "t", {"quick": settings}, measure, claims)
    monkeypatch.setattr("featureprism.lab.sweeps.item_called", lambda _name: item)
    both = sweep(of_item("toy/pair", grid(n=[1, 2]), seeds=(0, 1)), tmp_path / "both", Serial())
    half = sweep(of_item("toy/pair", grid(side=["left"]), seeds=(0, 1)), tmp_path / "half", Serial())
    assert (both.done, half.done) == (8, 2)
    points = json.loads((tmp_path / "both" / "claims.json").read_text())
    assert [claim["verdict"] for point in points for claim in point["claims"]] == ["holds"] * 4
    (point,) = json.loads((tmp_path / "half" / "claims.json").read_text())
    assert [claim["id"] for claim in point["claims"]] == ["pair.left"]
    assert point["not judged"].startswith("The claim pair.ratio of toy/pair cannot be judged: IndexError")
