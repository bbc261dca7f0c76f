import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from featureprism import cli
from featureprism.lab import Serial, Store, read_spec, sweep

HERE = Path(__file__).parent


def write_spec(folder, function="short", sizes=5, **more):
    fixed = "".join(f"{name} = {value}\n" for name, value in more.items())
    path = folder / f"{function}.toml"
    path.write_text(
        f'function = "{HERE}/measures.py:{function}"\nseeds = 2\n[fixed]\n{fixed}\n'
        f"[grid]\nsize = {list(range(sizes))}\nscale = [0.5, 1.0]\n"
    )
    return path


@contextmanager
def closed(gate):
    """Whatever is behind the gate does not end before this block does."""
    gate.unlink(missing_ok=True)
    try:
        yield
    finally:
        gate.touch()  # also for workers that outlive a command that was killed


def write_gated_spec(folder, sizes, free, seconds=0.0):
    """A spec whose tasks of sizes from `free` on wait for a gate, and the gate: no command ends too soon to be stopped."""
    gate = folder / "gate"
    return write_spec(folder, "gated", sizes, seconds=seconds, free=free, gate=f'"{gate}"'), gate


def command(*arguments, **options):
    line = [sys.executable, "-m", "featureprism.cli", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def hear_interrupts():
    """In the child: a shell that started the tests in the background may have told everybody to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finished(folder):
    if not (folder / "units.sqlite").exists():
        return 0
    try:
        with Store(folder) as store:
            return sum(ended is not None for name in store.names() for _, _, ended in store.planned(name))
    except ValueError:  # just being made
        return 0


def wait_for(condition, process):
    """However long it takes, as long as the process lives."""
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def rows(folder):
    with Store(folder) as store:
        return [row for name in store.names() for row in store.rows(name)]


def test_sweep_rows_csv_and_parquet(tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["sweep", str(write_spec(tmp_path)), "--out", str(out), "--workers", "1"]) == 0
    assert "20 of 20 units are finished, 0 failed" in capsys.readouterr().out
    cli.main(["rows", str(out)])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert found == rows(out)
    assert len(found) == 40
    cli.main(["rows", str(out), "--csv"])
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(r["value"]) for r in table] == [r["value"] for r in found]
    parquet = pytest.importorskip("pyarrow.parquet")
    cli.main(["rows", str(out), "--parquet"])
    assert parquet.read_table(capsys.readouterr().out.strip()).to_pylist() == found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rows", "no-such-folder"], "Nothing has been measured in no-such-folder"),
        (["sweep", "none.toml", "--out", "x"], "Cannot read none.toml"),
        (["sweep", "SPEC", "--out", "/proc/none"], "Cannot write"),
        (["sweep", "SPEC", "--out", "OUT", "--workers", "0"], "at least 1"),
        (["sweep", "SPEC", "--out", "OUT", "--scheduler", "tcp://127.0.0.1:9"], "needs --executor dask"),
    ],
)
def test_mistakes_get_one_sentence(arguments, said, tmp_path, capsys):
    places = {"SPEC": str(write_spec(tmp_path)), "OUT": str(tmp_path / "out")}
    assert cli.main([places.get(a, a) for a in arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_scheduler_that_is_not_there_gets_one_sentence(tmp_path, capsys, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("featureprism.lab.cluster.PATIENCE", 1)
    arguments = ["--out", str(tmp_path / "out"), "--executor", "dask", "--scheduler", "tcp://127.0.0.1:9"]
    assert cli.main(["sweep", str(write_spec(tmp_path)), *arguments]) == 2
    assert "No Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_a_file_that_is_no_store_is_refused(tmp_path, capsys):
    (tmp_path / "units.sqlite").write_text("something else entirely, long enough to be looked at" * 20)
    assert cli.main(["rows", str(tmp_path)]) == 2
    assert "Cannot read" in capsys.readouterr().err


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(tmp_path):
    out = tmp_path / "out"
    spec, gate = write_gated_spec(tmp_path, sizes=5, free=1)
    with closed(gate):
        process = command(
            "sweep", spec, "--out", out, "--workers", 1, start_new_session=True, preexec_fn=hear_interrupts
        )
        wait_for(lambda: finished(out) == 4, process)
        while process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)  # as the terminal does, to the whole group
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)  # Python may lose one that comes inside a callback: people press again
        told, _ = process.communicate()
    assert process.returncode == 130, told
    assert "the same command goes on" in told
    assert "Traceback" not in told
    assert finished(out) == 4  # those that need no gate
    with Store(out) as store:
        assert list(store.failures()) == []
    assert sweep(read_spec(spec), out, Serial()).done == 20


def killed_and_resumed(folder, spec, gate, kills, workers, total):
    """Rows of a sweep that was killed at random moments, and resumed each time."""
    chance, out = random.Random(0), folder / "killed"
    with closed(gate):
        for kill in range(kills):
            process = command("sweep", spec, "--out", out, "--workers", workers)
            enough = (kill + 1) * total // (kills + 2)
            wait_for(lambda enough=enough: finished(out) >= enough, process)
            time.sleep(chance.random() * 0.3)
            process.kill()
            process.communicate()
            assert enough <= finished(out) < total
    assert cli.main(["sweep", str(spec), "--out", str(out), "--workers", str(workers)]) == 0
    return rows(out)


def test_a_killed_sweep_resumes_to_the_same_table(tmp_path):
    spec, gate = write_gated_spec(tmp_path, sizes=10, free=9, seconds=0.02)
    gate.touch()
    sweep(read_spec(spec), tmp_path / "whole", Serial())
    assert killed_and_resumed(tmp_path, spec, gate, kills=1, workers=1, total=40) == rows(tmp_path / "whole")


@pytest.mark.slow
def test_200_settings_give_one_table_however_they_are_run(tmp_path):
    """Serially, on two local workers, on a Dask cluster of two, and killed five times at random moments."""
    spec, gate = write_gated_spec(tmp_path, sizes=50, free=49, seconds=0.05)
    gate.touch()
    sweep(read_spec(spec), tmp_path / "serial", Serial())
    whole = rows(tmp_path / "serial")
    assert len(whole) == 400
    assert killed_and_resumed(tmp_path, spec, gate, kills=5, workers=2, total=200) == whole
    for executor in ("local", "dask"):
        out = tmp_path / executor
        assert (
            cli.main(["sweep", str(spec), "--out", str(out), "--executor", executor, "--workers", "2"]) == 0
        )
        assert rows(out) == whole
