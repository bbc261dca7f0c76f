"""The store: its plan, who works on what, and what damage does to it."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from featureprism import cli
from featureprism.lab import Context, Rules, Serial, Store, grid, of_function, sweep
from featureprism.lab.engine import Remark, batches
from featureprism.lab.holders import FOLDER, Holder, is_alive
from featureprism.lab.store import MINE, TAKEN, is_on_network
from featureprism.lab.sweeps import sweep_events
from featureprism.lab.unit import Unit
from featureprism.lab.work import DONE, RAISED, Ending

HERE = Path(__file__).parent


def measure(setting, _seed):
    return [{"square": setting["a"] ** 2, "word": "sea\u2028son"}, {"square": -1.0, "word": "x" * 40}]


def plan_of(num=40):
    return of_function(measure, grid(a=list(range(num))), name="squares", rules=Rules(retry=False))


def units_of(num=5, **options):
    return [Unit("m", measure, {"a": a}, 0, {"a": a}, **options) for a in range(num)]


def table(folder):
    with Store(folder) as store:
        return list(store.rows("squares"))


# --- planning


def test_a_plan_says_what_has_ended_and_what_became_stale(tmp_path):
    units = units_of(4)
    with Store(tmp_path, write=True) as store:
        assert store.plan(units) == ([None] * 4, 0)
        store.record([(units[0], Ending(DONE), 1, True), (units[1], Ending(RAISED), 1, True)])
        assert store.plan(units) == ([DONE, RAISED, None, None], 0)
        assert store.plan(units, retry=True) == ([DONE, None, None, None], 0)
        edited = [Unit("m", len, {"a": a}, 0, {"a": a}) for a in range(4)]
        assert store.plan(edited) == ([None] * 4, 1)  # one of the four had been measured
        assert [ended for _, _, ended in store.planned("m")] == [None] * 4
        assert store.plan(units)[0] == [DONE, None, None, None]  # the old code is back, and what it measured
        assert [ended for _, _, ended in store.planned("m")] == [DONE, None, None, None]


def test_planning_takes_as_many_steps_for_each_unit_however_many_there_are(tmp_path):
    """Counted in steps of SQLite's machine, which do not depend on how busy ours is."""

    def steps(store, units):
        count = [0]
        store._db.set_progress_handler(lambda: count.__setitem__(0, count[0] + 1), 100)
        store.plan(units)
        store._db.set_progress_handler(None, 0)
        return count[0]

    with Store(tmp_path, write=True) as store:
        first, *_, last = [steps(store, some) for some in batches(units_of(6000), 1000)]
        again = steps(store, units_of(1000))
    assert last <= 1.5 * first
    assert again <= 1.5 * first


def test_an_earlier_format_is_one_sentence(tmp_path, capsys):
    with sqlite3.connect(tmp_path / "units.sqlite") as db:
        db.execute("CREATE TABLE units (unit)")
        db.execute("PRAGMA user_version = 3")
    db.close()
    assert cli.main(["rows", str(tmp_path)]) == 2
    assert "has format 3, this version of featureprism reads 4: move it away" in capsys.readouterr().err


def test_network_file_systems_are_known_by_their_mounts(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n/dev/sdb /home/local ext4 rw 0 0\n"
    )
    places = {"/home/me": True, "/home/local/me": False, "/srv": False}
    assert {place: is_on_network(Path(place), mounts) for place in places} == places
    assert not is_on_network(Path("/home"), tmp_path / "none")


# --- sharing


def test_a_unit_has_one_living_holder(tmp_path):
    units = units_of(3)
    with Store(tmp_path, write=True) as one, Store(tmp_path, write=True) as other:
        one.plan(units)
        assert one.claim(units[:2]) == [MINE, MINE]
        assert other.claim(units) == [TAKEN, TAKEN, MINE]
        assert one.claim(units) == [MINE, MINE, TAKEN]
        one.record([(units[0], Ending(DONE), 1, True)])
        assert other.claim(units) == [DONE, TAKEN, MINE]
    with Store(tmp_path, write=True) as later:  # those who held something have gone
        assert later.claim(units) == [DONE, MINE, MINE]
    assert not (tmp_path / FOLDER).exists()


def test_the_system_notices_the_death_of_a_holder(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from featureprism.lab.holders import Holder\n"
        "holder = Holder(Path(sys.argv[1])); print(holder.name, flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    name = holder.stdout.readline().strip()
    assert is_alive(tmp_path, name)
    holder.kill()
    holder.communicate()
    assert not is_alive(tmp_path, name)
    assert not (tmp_path / FOLDER / name).exists()
    mine = Holder(tmp_path)
    assert is_alive(tmp_path, mine.name)
    mine.close()


SHARE = """
import sys, time
from pathlib import Path
from featureprism.lab import Rules, Serial, grid, of_function, sweep
folder = Path(sys.argv[1])
def measure(setting, seed):
    with (folder / "calls").open("a") as file:
        file.write(f"{setting['a']} ")
    time.sleep(0.1)
    return [{"b": setting["a"]}]
plan = of_function(measure, grid(a=list(range(int(sys.argv[2])))), name="shared", rules=Rules(retry=False))
(folder / f"ready{sys.argv[3]}").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
print(sweep(plan, folder / "out", Serial()).done)
"""


def shared(folder, num, processes):
    """Processes that begin together; they print how many units are done in the end."""
    lines = [[sys.executable, "-c", SHARE, str(folder), str(num), str(i)] for i in range(processes)]
    running = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for line in lines]
    while len(list(folder.glob("ready*"))) < processes:
        assert all(process.poll() is None for process in running)
        time.sleep(0.02)
    (folder / "go").touch()
    return running


def test_processes_share_the_work(tmp_path):
    running = shared(tmp_path, 12, 2)
    assert [process.communicate()[0].strip() for process in running] == ["12"] * 2
    assert sorted(map(int, (tmp_path / "calls").read_text().split())) == list(range(12))  # each once


@pytest.mark.slow
def test_what_a_dead_process_held_is_done_by_the_others(tmp_path):
    running = shared(tmp_path, 60, 3)
    while not (tmp_path / "calls").exists() or len((tmp_path / "calls").read_text().split()) < 10:
        time.sleep(0.02)
    running[0].send_signal(signal.SIGKILL)
    running[0].communicate()
    assert [process.communicate()[0].strip() for process in running[1:]] == ["60"] * 2
    calls = (tmp_path / "calls").read_text().split()
    assert set(map(int, calls)) == set(range(60))
    assert len(calls) <= 61  # but for the one that was lost


# --- damage


def flipped(content, rng, bits):
    damaged = bytearray(content)
    for _ in range(bits):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def mended(folder, content, whole, capsys):
    """'refused', 'told' or 'unharmed': nothing else may follow from damage, and a second run restores the table."""
    (folder / "units.sqlite").write_bytes(content)
    code = rows_code = cli.main(["rows", str(folder), "--item", "squares"])
    printed, said = capsys.readouterr()
    if rows_code == 0 and "units of squares are finished" in said:
        rows_code = 3  # it says that something is missing
    try:
        damaged = [event for event in sweep_events(plan_of(), folder, Serial()) if isinstance(event, Remark)]
    except (ValueError, OSError) as error:
        return "refused" if "units.sqlite" in str(error) else str(error)
    assert table(folder) == whole[0]
    if code == 0 and not damaged:
        assert printed == whole[1] or rows_code == 3
    if damaged:
        assert code != 0 or printed == whole[1]
    return "told" if rows_code or damaged else "unharmed"


@pytest.fixture
def whole(tmp_path, capsys):
    sweep(plan_of(), tmp_path, Serial())
    assert cli.main(["rows", str(tmp_path), "--item", "squares"]) == 0
    return (tmp_path / "units.sqlite").read_bytes(), (table(tmp_path), capsys.readouterr().out)


@pytest.mark.parametrize("num", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_no_flip_goes_unnoticed(tmp_path, capsys, whole, num):
    content, rows = whole
    rng = random.Random(num)
    seen = [mended(tmp_path, flipped(content, rng, rng.randint(1, 16)), rows, capsys) for _ in range(num)]
    assert seen.count("told") >= num / 4
    assert {*seen} <= {"told", "refused", "unharmed"}


@pytest.mark.parametrize("missing", [1, 1000, 5000])
def test_a_file_that_was_cut_is_told(tmp_path, capsys, whole, missing):
    content, rows = whole
    assert mended(tmp_path, content[:-missing], rows, capsys) in ("told", "refused")


def test_one_damaged_row_costs_one_unit(tmp_path, whole):
    content, (rows, _) = whole
    place = content.index(b"sea")
    (tmp_path / "units.sqlite").write_bytes(content[:place] + b"SEA" + content[place + 3 :])
    with Store(tmp_path) as store:
        left = list(store.rows("squares"))
        assert (store.damaged, len(left)) == (1, len(rows) - 2)
    calls = []
    plan = plan_of()
    for event in sweep_events(plan, tmp_path, Serial()):
        calls += [event.unit.setting["a"]] if hasattr(event, "unit") else []
    assert len(calls) == 1
    assert table(tmp_path) == rows


# --- environments


def test_a_store_says_that_it_mixes_kinds_of_processors(tmp_path):
    units = units_of(3, tolerant=True)
    kinds = ["python 3, kernels AVX2", "python 3, kernels DEFAULT", "python 3, kernels AVX2"]
    with Store(tmp_path, write=True) as store:
        store.plan(units)
        for unit, kind in zip(units, kinds, strict=True):
            store.record([(unit, Ending(DONE, environment=kind), 1, True)])
            assert bool(store.mixture()) == (unit is not units[0])
        told = store.mixture()
    assert "2 units with kernels AVX2; 1 units with kernels DEFAULT" in told
    assert "python" not in told


def test_other_kernels_are_another_unit_unless_tolerant(monkeypatch):
    def keys():
        return [Unit("m", measure, {}, 0, {}, tolerant=tolerant).key for tolerant in (False, True)]

    here = keys()
    monkeypatch.setattr("featureprism.lab.unit.environment", lambda: "kernels DEFAULT")
    there = keys()
    assert here[0] != there[0]
    assert here[1] == there[1] not in (here[0], there[0])
    assert Context().tolerant is False
    assert os.environ.get("ATEN_CPU_CAPABILITY") is None
