"""Two folders of results: equal bit for bit, nearly so, or not."""

import json
from dataclasses import dataclass

import pytest

from featureprism import cli
from featureprism.lab import Claim, Experiment, Serial, at_least, reproduce
from featureprism.lab.comparison import compare


@dataclass(frozen=True)
class Setting:
    a: float


def folder_of(path, value, bound=0.5):
    def measure(_setting, seed, _context):
        return [{"kind": "x", "value": value + seed}]

    claim = Claim("large", "s", "t", lambda rows: rows.of("x").per_seed("value"), at_least(bound))
    item = Experiment("toy/item", "source", "title", {"quick": [Setting(1.0)]}, measure, (claim,))
    reproduce([item], "quick", [0, 1, 2], path, Serial())
    return path


def test_equal_nearly_equal_and_different(tmp_path, capsys):
    here, same, near, far, fails = (
        folder_of(tmp_path / str(i), value, bound)
        for i, (value, bound) in enumerate(
            [(2.0, 0.5), (2.0, 0.5), (2.0 + 1e-6, 0.5), (2.1, 0.5), (2.0, 99.0)]
        )
    )
    assert compare(here, same).differing == ()
    assert len(compare(here, near).differing) == 1
    assert compare(here, near, tolerant=True).differing == ()
    assert compare(here, near, tolerant=True).largest == pytest.approx(5e-7, rel=1e-3)
    assert len(compare(here, far, tolerant=True).differing) == 1
    assert "holds here, fails there" in compare(here, fails, tolerant=True).differing[0]
    assert cli.main(["report", str(here), "--against", str(near)]) == 3
    assert cli.main(["report", str(here), "--against", str(near), "--tolerant"]) == 0
    assert "1 claims are judged in both, 0 differ." in capsys.readouterr().out


def test_damaged_files_are_not_compared_and_the_page_has_the_rest(tmp_path, capsys):
    here = folder_of(tmp_path, 2.0)
    (here / "toy/other").mkdir()
    for name in ("run.json", "claims.json"):
        text = (here / "toy/item" / name).read_text()
        (here / "toy/other" / name).write_text(text.replace("2.0", "2.5") if name == "claims.json" else text)
    assert json.loads((here / "toy/item/run.json").read_text())["checksum"]
    with pytest.raises(ValueError, match="not what was written"):
        compare(here, here)
    assert cli.main(["report", str(here)]) == 2
    said = capsys.readouterr().err
    assert "toy/other is damaged" in said
    assert "index.html has the rest" in said
    assert "toy/item" in (here / "index.html").read_text()
