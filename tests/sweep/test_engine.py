import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from featureprism.sweep import (
    Between,
    Budget,
    Cluster,
    Limits,
    Local,
    Serial,
    Store,
    draws,
    grid,
    of_function,
    of_item,
    sweep,
)
from featureprism.sweep.executors import affordable
from featureprism.sweep.spec_file import load_function
from featureprism.sweep.work import DIED, DONE, MEMORY, RAISED, TIME

HERE = Path(__file__).parent
SHORT = grid(size=list(range(10)), scale=[0.1, 1.0])


def own(name, settings, **options):
    return of_function(load_function(f"measures.py:{name}", HERE), settings, name=name, **options)


def table(folder):
    with Store(folder) as store:
        return list(store.rows())


def test_a_grid_and_draws_are_what_they_say():
    assert grid(a=[1, 2], b=["x"]) == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]
    some = draws(400, 3, a=Between(1e-3, 10.0, log=True), n=Between(1, 4), word=["u", "v"])
    assert some == draws(400, 3, a=Between(1e-3, 10.0, log=True), n=Between(1, 4), word=["u", "v"])
    assert [s["a"] for s in some] == [s["a"] for s in draws(400, 3, a=Between(1e-3, 10.0, log=True))]
    assert {s["n"] for s in some} == {1, 2, 3, 4}
    assert sum(s["a"] < 0.1 for s in some) == pytest.approx(200, abs=60)  # the middle of the log scale
    assert {s["word"] for s in some} == {"u", "v"}


def test_every_executor_gives_the_same_table(tmp_path):
    asked = own("short", SHORT, seeds=(0, 5))
    summary = sweep(asked, tmp_path / "serial", Serial())
    assert (summary.total, summary.done, summary.failed, summary.waiting) == (40, 40, 0, 0)
    sweep(asked, tmp_path / "local", Local(2))
    rows = table(tmp_path / "serial")
    assert table(tmp_path / "local") == rows
    assert [r["seed"] for r in rows[:4]] == [0, 0, 5, 5]
    assert rows[0] == {"seed": 0, "size": 0, "scale": 0.1, "kind": "sum", "value": rows[0]["value"]}
    assert len({r["value"] for r in rows if r["kind"] == "sum"}) == 40


def test_a_finished_task_is_never_run_twice(tmp_path):
    log = tmp_path / "calls"

    def measure(setting, seed):
        with log.open("a") as file:
            file.write(f"{setting['a']}/{seed} ")
        if setting["a"] == 3:
            raise ValueError("no")
        return [{"value": setting["a"]}]

    def ask(values, **options):
        log.write_text("")
        return sweep(of_function(measure, grid(a=values), name="m", **options), tmp_path, Serial())

    assert ask([1, 1, 3]).failed == 1
    assert log.read_text() == "1/0 3/0 "  # the same setting twice is one setting
    assert ask([1, 2, 3]).done == 2
    assert log.read_text() == "2/0 "
    ask([1, 2, 3], rerun=frozenset({"failed"}))
    assert log.read_text() == "3/0 "
    with Store(tmp_path) as store:
        assert [f["message"] for f in store.failures()] == ["ValueError: no"] * 2
        assert "raise ValueError" in next(store.failures())["traceback"]


def test_other_code_is_recorded_and_can_invalidate(tmp_path):
    source = "def measure(setting, seed):\n    return [{'value': setting['a'] * FACTOR}]\nFACTOR = 2\n"
    (tmp_path / "mine.py").write_text(source)

    def ask(**options):
        measure = load_function("mine.py:measure", tmp_path)
        return sweep(of_function(measure, grid(a=[1, 2]), name="m", **options), tmp_path / "out", Serial())

    assert ask().old_code == 0
    (tmp_path / "mine.py").write_text(source.replace("= 2", "= 3 "))
    assert ask().old_code == 2
    assert [r["value"] for r in table(tmp_path / "out")] == [2, 4]
    assert ask(rerun=frozenset({"old code"})).old_code == 0
    assert [r["value"] for r in table(tmp_path / "out")] == [3, 6]
    assert ask(rerun=frozenset({"old code"})).seconds < 2  # nothing left to run
    codes = sqlite3.connect(tmp_path / "out/sweep.sqlite").execute("SELECT code FROM versions").fetchall()
    assert len(codes) == 2


def test_a_budget_stops_and_the_next_call_goes_on(tmp_path):
    asked = [own("short", SHORT, budget=Budget(tasks=n)) for n in (7, 100)]
    assert sweep(asked[0], tmp_path / "a", Serial()).waiting == 13
    assert sweep(asked[1], tmp_path / "a", Serial()).waiting == 0
    assert sweep(own("short", SHORT, budget=Budget(seconds=1e-9)), tmp_path / "b", Serial()).done == 0


def hostile(executor, folder, acts):
    """Tasks that do the given things among ten good ones: how each ended, and every failure as (act, ending, attempt)."""
    settings = [{"act": act, "mark": str(folder / "mark")} for act in acts]
    good = [{"act": "work", "i": i} for i in range(10)]
    asked = own("hostile", [*settings, *good], seeds=(1,), limits=Limits(seconds=2.0, memory_mb=300))
    sweep(asked, folder / "out", executor)
    with Store(folder / "out") as store:
        ends = {setting["act"]: ended for setting, _, ended in store.tasks()}
        failures = [(json.loads(f["setting"])["act"], f["ended"], f["attempt"]) for f in store.failures()]
        assert [r["value"] for r in store.rows()] == [10] * (10 + acts.count("die once"))
    assert ends.pop("work") == DONE
    return ends, sorted(failures)


def test_bad_tasks_are_recorded_and_harm_nobody(tmp_path):
    ends, failures = hostile(Local(2), tmp_path, ["raise", "leave", "hang", "hog", "die once"])
    assert ends == {"raise": RAISED, "leave": RAISED, "hang": TIME, "hog": MEMORY, "die once": DONE}
    assert failures == [
        ("die once", DIED, 1),
        ("hang", TIME, 1),
        ("hang", TIME, 2),
        ("hog", MEMORY, 1),
        ("hog", MEMORY, 2),
        ("leave", RAISED, 1),
        ("raise", RAISED, 1),
    ]


def test_dask_gives_the_same_and_replaces_a_dead_worker(tmp_path):
    ends, failures = hostile(Cluster(workers=1), tmp_path, ["raise", "die once"])
    assert ends == {"raise": RAISED, "die once": DONE}
    assert failures == [("die once", DIED, 1), ("raise", RAISED, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("executor", [Local, lambda n: Cluster(workers=n)], ids=["local", "dask"])
def test_all_bad_tasks_on_both_executors(executor, tmp_path):
    acts = ["raise", "hang", "hog", "leave", "die", "die once"]
    ends, failures = hostile(executor(2), tmp_path, acts)
    wanted = {"raise": RAISED, "leave": RAISED, "hang": TIME, "hog": MEMORY, "die": DIED}
    assert ends == {**wanted, "die once": DONE}
    twice = [(act, wanted[act], attempt) for act in ("hang", "hog", "die") for attempt in (1, 2)]
    assert failures == sorted([*twice, ("raise", RAISED, 1), ("leave", RAISED, 1), ("die once", DIED, 1)])


def test_rows_must_be_flat_rows(tmp_path):
    sweep(own("wrong", [{"a": 1}]), tmp_path, Serial())
    with Store(tmp_path) as store:
        assert "list of rows" in next(store.failures())["message"]
    bad = of_function(lambda _setting, _seed: [{"a": [1, 2]}], [{"a": 1}], name="nested")
    sweep(bad, tmp_path / "nested", Serial())
    with Store(tmp_path / "nested") as store:
        assert "Rows are flat: a" in next(store.failures())["message"]


def test_nan_and_numpy_numbers_survive(tmp_path):
    import numpy as np

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


def test_two_sweeps_do_not_share_a_folder(tmp_path):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True);"
            "sys.stdin.read()",
            str(tmp_path / "sweep.lock"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(ValueError, match="Another sweep is running"):
        sweep(own("short", SHORT), tmp_path, Serial())
    holder.communicate()
    sweep(own("short", SHORT[:1]), tmp_path, Serial())  # the lock falls with its process
    with pytest.raises(ValueError, match="holds a sweep of short, not of other"):
        sweep(of_function(lambda *_: [], [{"a": 1}], name="other"), tmp_path, Serial())


def test_readers_see_whole_tasks_while_a_sweep_writes(tmp_path):
    seen = []

    def look(_done, _total, _note):
        with Store(tmp_path) as store:
            seen.append(len(list(store.rows())))

    sweep(own("short", SHORT), tmp_path, Serial(), track=look)
    assert seen == list(range(2, 42, 2))


def test_an_item_is_swept_from_its_own_settings(tmp_path):
    points = grid(dim=[20, 30])
    asked = of_item("gmm-flow/propositions", points, seeds=(0,))
    assert {s["dim"] for s in asked.settings} == {20, 30}
    whole = of_item("gmm-flow/figure-2", where={"model": "bayes"})
    assert [s["model"] for s in whole.settings] == ["bayes"]
    small = {"dim": 60, "test_points": 4}
    sweep(of_item("gmm-flow/figure-2", [small], where={"model": "bayes"}), tmp_path, Serial())
    assert next(r for r in table(tmp_path) if r["kind"] == "summary")["dim"] == 60


def test_memory_bounds_the_number_of_workers():
    assert affordable(1, 10**9) == 1
    assert affordable(64, 10**9) == 1
    assert affordable(2, None) in (1, 2)
