"""A paper from outside: installed it is everywhere, otherwise nowhere."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from featureprism.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "outside_paper"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What pip would write for the example, in a folder of its own, and a broken paper beside it."""
    folder = tmp_path_factory.mktemp("site")
    for name, target in (("xor_grokking", "xor_grokking:PAPER"), ("broken", "no_such_module:PAPER")):
        about = folder / f"{name}-0.1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        (about / "entry_points.txt").write_text(
            f"[featureprism.papers]\n{name.replace('_', '-')} = {target}\n"
        )
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(EXAMPLE / "src"), os.environ.get("PYTHONPATH", "")]),
    }


SEVERAL = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from featureprism.cli import main
for line in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(line)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def commands(*lines, env):
    """Exit code, stdout and stderr of several commands, one after the other in one new process."""
    texts = json.dumps([[str(word) for word in line] for line in lines])
    run = subprocess.run(
        [sys.executable, "-c", SEVERAL, texts], capture_output=True, text=True, env=env, check=True
    )
    return [tuple(json.loads(line)) for line in run.stdout.splitlines()]


def test_the_entry_point_is_that_of_the_example():
    table = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    assert table["project"]["entry-points"]["featureprism.papers"] == {"xor-grokking": "xor_grokking:PAPER"}


def test_nothing_mentions_it_when_it_is_not_installed(capsys):
    assert main(["list"]) == 0
    said = capsys.readouterr()
    assert "xor-grokking" not in said.out + said.err
    assert main(["claims", "xor-grokking"]) == 2


def test_installed_it_is_listed_claimed_reproduced_reported_and_swept(installed, tmp_path):
    out, spec = tmp_path / "runs", tmp_path / "spec.toml"
    spec.write_text('item = "xor-grokking/one-step"\n[fixed]\ntest_points = 50\n[grid]\ndim = [50, 100]\n')
    listed, claims, run, report, swept = commands(
        ["list", "all"],
        ["claims", "xor-grokking", "--json"],
        ["reproduce", "xor-grokking", "--seeds", 1, "--workers", 2, "--out", out, "--json"],
        ["report", out],
        ["sweep", spec, "--out", tmp_path / "sweep", "--workers", 1],
        env=installed,
    )
    assert "xor-grokking/one-step" in listed[1]
    assert "The paper 'broken' is left out: ModuleNotFoundError" in listed[2]
    assert json.loads(claims[1])[0]["id"] == "one-step.overfits-at-once"
    assert run[0] == 0, run[2]
    verdicts = {claim["id"]: claim for claim in json.loads(run[1])["claims"]}
    assert verdicts["one-step.overfits-at-once"]["measured"] > 0.95
    assert verdicts["one-step.one-step-is-chance"]["measured"] < 0.6
    assert verdicts["one-step.benign"]["measured"] > 0.9
    assert verdicts["one-step.benign"]["regime"]["failing"] == ["assumptions.signal", "assumptions.dim"]
    assert "xor-grokking/one-step" in Path(report[1].strip().splitlines()[-1]).read_text()
    assert "2 of 2 units are finished" in swept[1], swept[2]


SINGLE = """
from featureprism.lab import Claim, Experiment, Paper, at_least


def measure(setting, seed, context):
    return [{"kind": "end", "value": setting["a"] + seed}]


CLAIM = Claim("large", "Theorem 1", "It is large.", lambda rows: rows.of("end").per_seed("value"), at_least(0.5))
ITEM = Experiment("single/item", "Me 2026", "One module", {"quick": [{"a": 1.0}]}, measure, (CLAIM,))
PAPER = Paper("single", "Me 2026", (ITEM,))
"""


def test_a_paper_may_be_a_single_module_among_installed_packages(tmp_path):
    """What lies beside it in the folder of installed packages has nothing to do with it."""
    (tmp_path / "single_paper.py").write_text(SINGLE)
    (tmp_path / "neighbour.py").write_text("this is not Python, and nobody imports it")
    about = tmp_path / "single_paper-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: single-paper\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[featureprism.papers]\nsingle = single_paper:PAPER\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    out = tmp_path / "runs"
    arguments = ["reproduce", "single", "--seeds", 2, "--out", out, "--json"]
    shown, alone, many = commands(
        ["show", "single/item"],
        [*arguments, "--workers", 1],
        [*arguments, "--workers", 2, "--seed", 2],
        env=env,
    )
    assert "It is large." in shown[1]
    assert [run[0] for run in (alone, many)] == [0, 0], many[2]
    assert json.loads(many[1])["claims"][0]["values"] == [3.0, 4.0]
