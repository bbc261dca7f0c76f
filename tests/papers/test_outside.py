"""A paper from outside: installed it is everywhere, otherwise nowhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(EXAMPLE / "src")])}


def command(*arguments, env=None):
    line = [sys.executable, "-m", "featureprism.cli", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, env=env)


def test_the_entry_point_is_that_of_the_example():
    import tomllib

    table = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    assert table["project"]["entry-points"]["featureprism.papers"] == {"xor-grokking": "xor_grokking:PAPER"}


def test_nothing_mentions_it_when_it_is_not_installed():
    assert "xor-grokking" not in command("list").stdout
    assert command("claims", "xor-grokking").returncode == 2


def test_installed_it_is_listed_claimed_reproduced_reported_and_swept(installed, tmp_path):
    listed = command("list", env=installed)
    assert "xor-grokking/one-step" in listed.stdout
    assert "The paper 'broken' is left out: ModuleNotFoundError" in listed.stderr
    claims = json.loads(command("claims", "xor-grokking", "--json", env=installed).stdout)
    assert claims[0]["id"] == "one-step.overfits-at-once"
    out = tmp_path / "runs"
    run = command(
        "reproduce", "xor-grokking", "--seeds", 2, "--workers", 2, "--out", out, "--json", env=installed
    )
    assert run.returncode == 0, run.stderr
    verdicts = {claim["id"]: claim for claim in json.loads(run.stdout)["claims"]}
    assert verdicts["one-step.overfits-at-once"]["measured"] > 0.95
    assert verdicts["one-step.one-step-is-chance"]["measured"] < 0.6
    assert verdicts["one-step.benign"]["measured"] > 0.9
    assert verdicts["one-step.benign"]["regime"]["failing"] == ["assumptions.signal", "assumptions.dim"]
    page = Path(command("report", out, env=installed).stdout.strip())
    assert "xor-grokking/one-step" in page.read_text()
    spec = tmp_path / "spec.toml"
    spec.write_text('item = "xor-grokking/one-step"\n[fixed]\ntest_points = 50\n[grid]\ndim = [50, 100]\n')
    swept = command("sweep", spec, "--out", tmp_path / "sweep", "--workers", 1, env=installed)
    assert "2 of 2 units are finished" in swept.stdout, swept.stderr
