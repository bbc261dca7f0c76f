"""The installed command, killed at random moments and started again: it ends with the same files as if nothing had happened.

All limits are numbers of branches, so that results do not depend on the clock. Half of the kills hit the whole process group, half the
command alone.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

COMMAND = Path(sys.executable).with_name("featureprism")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not COMMAND.exists(), reason="the command is not installed"),
]


def sweep(folder, workers):
    spec = folder / "spec.toml"
    measures = Path(__file__).with_name("measures.py")
    spec.write_text(
        f'function = "{measures}:gated"\nseeds = 2\n[fixed]\nseconds = 0.05\nfree = 99\ngate = ""\n'
        f"[grid]\nsize = {list(range(15))}\nscale = [0.5, 1.0]\n"
    )
    return ["sweep", str(spec), "--workers", str(workers)]


def reproduce(_folder):
    smaller = [
        "dim=40",
        "positive=2",
        "negative=2",
        "width=20",
        "per_cluster=10",
        "epochs=100",
        "test_points=4",
    ]
    fields = [word for field in smaller for word in ("--set", field)]
    return ["reproduce", "gmm-flow/figure-2", "--seeds", "2", *fields, "--workers", "2"]


def radius(folder):
    rng = np.random.default_rng(0)
    W, b, V, c = (rng.normal(size=s) for s in ((8, 4), 8, (8, 3), 3))
    x = rng.normal(size=(160, 4))
    np.savez(folder / "model.npz", W=W, b=b, V=V, c=c, activation="relu")
    np.savez(folder / "data.npz", x=x, y=(np.maximum(x @ W.T + b, 0) @ V + c).argmax(axis=1))
    return ["radius", str(folder / "model.npz"), str(folder / "data.npz"), "--branches", "20"]


def verify(folder):
    rng = np.random.default_rng(0)
    W, b, V, c = (rng.normal(size=s) for s in ((32, 5), 32, (32, 2), 2))
    np.savez(folder / "model.npz", W=W, b=b, V=V, c=c, activation="relu")
    text = [f"(declare-const {name} Real)" for name in ("X_0", "X_1", "X_2", "X_3", "X_4", "Y_0", "Y_1")]
    text += [f"(assert (<= X_{i} 0.5))\n(assert (>= X_{i} -0.5))" for i in range(5)]
    (folder / "property.vnnlib").write_text("\n".join([*text, "(assert (>= Y_0 0.0))"]))  # 0.1 above the most
    return ["verify", str(folder / "model.npz"), str(folder / "property.vnnlib"), "--branches", "5000"]


def audit(folder):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=160)
    x = rng.normal(size=(160, 6)) + 2.0 * np.where(
        y[:, None] == 1, np.eye(6)[0], -np.eye(6)[rng.integers(0, 2, size=160)]
    )
    np.savez(folder / "e.npz", x_train=x[:120], y_train=y[:120], x_test=x[120:], y_test=y[120:])
    return ["audit", str(folder / "e.npz"), "--normalise", "none", "--points", "8", "--workers", "2"]


def result(out):
    """What a run leaves, without the seconds it took."""
    found = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.name in ("claims.json", "rows.jsonl", "brackets.csv"):
            found[name] = path.read_bytes()
        elif path.name == "audit.json":
            rows = json.loads(path.read_text())
            found[name] = [{key: v for key, v in row.items() if key != "train_seconds"} for row in rows]
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                found[name] = {key: a.tobytes() for key, a in arrays.items() if key != "seconds"}
    if not found:
        return subprocess.run([COMMAND, "rows", str(out)], capture_output=True, check=True).stdout
    return found


def run(words, out, seconds=None, *, group=True):
    """Whether the command ended by itself within so many seconds; otherwise it is killed."""
    process = subprocess.Popen(
        [COMMAND, *words, "--out", str(out)],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, said = process.communicate(timeout=seconds)
        assert process.returncode == 0, said
        return True
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL) if group else process.kill()
        process.communicate()
        return False


CASES = {
    "sweep": (lambda folder: sweep(folder, 1), 34),
    "sweep on two workers": (lambda folder: sweep(folder, 2), 34),
    "reproduce": (reproduce, 16),
    "radius": (radius, 16),
    "verify": (verify, 8),
    "audit": (audit, 8),
}


@pytest.mark.parametrize("name", CASES)
def test_a_command_that_is_killed_ends_with_the_same_files(name, tmp_path):
    words_of, kills = CASES[name]
    words, rng, out = words_of(tmp_path), random.Random(name), tmp_path / "killed"
    began = time.monotonic()
    assert run(words, tmp_path / "whole")
    took = time.monotonic() - began
    expected, killed, ended = result(tmp_path / "whole"), 0, 0
    while killed < kills:
        if run(words, out, rng.uniform(0.2, 1.1) * took, group=bool(killed % 2)):
            ended += 1
            assert result(out) == expected
            shutil.rmtree(out)
        else:
            killed += 1
    assert run(words, out)
    assert result(out) == expected
    print(f"{name}: {killed} kills, {ended + 1} completed runs")
