"""list and show: what there is, what it costs, and where its code is."""

import json
import re
import subprocess
import sys

import pytest

from featureprism import cli
from featureprism.lab import all_papers


def test_a_paper_is_listed_with_costs(capsys):
    assert cli.main(["list", "gmm-flow", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["id"].partition("/")[0] for row in rows} == {"gmm-flow"}
    (figure,) = (row for row in rows if row["id"] == "gmm-flow/figure-2")
    assert figure["seconds"]["quick"] > 0
    assert cli.main(["list", "gmm-flow"]) == 0
    assert "quick  standard  paper" in capsys.readouterr().out
    assert cli.main(["list", "gmm-flwo"]) == 2


@pytest.mark.parametrize("experiment", [paper.experiments[0] for paper in all_papers().values()])
def test_an_item_shows_settings_claims_and_where_its_code_is(experiment, capsys):
    assert cli.main(["show", experiment.id]) == 0
    text = capsys.readouterr().out
    assert experiment.title in " ".join(text.split())
    assert "Settings at quick:" in text
    for claim in experiment.claims:
        assert f"{experiment.claim_id(claim)}  {claim.bound}" in text
    path, line = re.search(r"Measured by\s+(\S+):(\d+)", text).groups()
    with open(path) as file:
        assert re.match(r"@|def ", file.readlines()[int(line) - 1])
    assert max(map(len, text.splitlines())) < 200


def test_a_paper_shows_its_items(capsys):
    assert cli.main(["show", "gmm-flow"]) == 0
    text = capsys.readouterr().out
    assert all(e.item in text for e in all_papers()["gmm-flow"].experiments)
    assert cli.main(["show", "gmm-flow/figure-55"]) == 2
    assert "Did you mean 'gmm-flow/figure-5'" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", [["list"], ["list", "all"], ["show", "gmm-flow"], ["claims"]])
def test_no_line_is_wider_than_the_terminal(command, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [
        line for line in lines if len(line) > columns and "/" not in line
    ] == []  # a path cannot be broken


def test_a_pipe_that_is_closed_ends_quietly():
    line = f"{sys.executable} -m featureprism claims | head -1"
    run = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True)
    assert run.stderr == ""
    assert run.returncode == 0
