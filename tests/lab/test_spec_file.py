import re
from pathlib import Path

import pytest

from featureprism.lab import Context, Limits, Rules, read_spec
from featureprism.lab.engine import Budget
from featureprism.papers.gmm_flow.theorem_1 import THEOREM_1

HERE = Path(__file__).parent
ITEM = 'item = "gmm-flow/theorem-1"\n'
OWN = f'function = "{HERE}/measures.py:short"\n'


def spec(folder, text):
    path = folder / "spec.toml"
    path.write_text(text)
    return read_spec(path)


def test_a_grid_over_an_item(tmp_path):
    asked = spec(
        tmp_path,
        ITEM
        + """
        seeds = 2
        rerun = ["failed"]
        [where]
        series = "few points"
        [fixed]
        dim = 50
        [grid]
        alpha = [0.1, 1]
        per_cluster = [10, 20, 30]
        [limits]
        seconds = 60
        memory_mb = 1000
        [budget]
        units = 5
        """,
    )
    units = list({unit.key: unit for unit in asked.units(Context())}.values())
    assert (
        len(units) == 2 * 3 * 2
    )  # the settings of "few points" differ in per_cluster alone, which the grid replaces
    assert {unit.seed for unit in units} == {0, 1}
    sizes = [(unit.setting.alpha, unit.setting.per_cluster) for unit in units]
    assert sizes[:4] == [(0.1, 10)] * 2 + [(0.1, 20)] * 2
    assert units[0].setting.dim == 50
    assert isinstance(units[-1].setting.alpha, float)  # 1 stands for 1.0
    assert asked.rules == Rules(Limits(60, 1000), Budget(units=5), retry=True)


def test_lists_draws_and_items_as_they_are(tmp_path):
    rows = spec(
        tmp_path, OWN + "seeds = [3]\n[[list]]\nsize = 1\nscale = 0.5\n[[list]]\nsize = 2\nscale = 1.5"
    )
    assert [point.setting["size"] for point in rows.points] == [1, 2]
    assert rows.source({"size": 1, "scale": 0.5}, 3)[1]["value"] == 1
    drawn = spec(tmp_path, OWN + "[random]\ndraws = 9\nsize = {low = 2, high = 5}\nscale = [0.5]")
    assert len(drawn.points) == 9
    assert len(spec(tmp_path, OWN + "[random]\ndraws = 1\nsize = [4]\nscale = [0.5]").points) == 1
    assert {point.setting["size"] for point in drawn.points} <= {2, 3, 4, 5}
    assert len(spec(tmp_path, ITEM).points) == len(THEOREM_1.settings("quick"))


def test_the_spec_of_the_manual_is_one(tmp_path):
    manual = (HERE.parents[1] / "docs/sweeps.md").read_text()
    first, *other = re.findall(r"```toml\n(.*?)```", manual, flags=re.DOTALL)
    assert len({unit.key for unit in spec(tmp_path, first).units(Context())}) == 9 * 3
    counts = [len(spec(tmp_path, first.partition("[grid]")[0] + ways).points) for ways in other]
    assert counts == [
        2 * 3,
        200 * 3,
    ]  # three settings of the item have this series; here they differ in no grid value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("item = ", "is not TOML"),
        ("seeds = 3", "Say what to sweep"),
        ('item = "gmm-flow/theorem-2"', "Did you mean 'gmm-flow/theorem-1'"),
        (ITEM + "[grid]\nalhpa = [0.1]", "no parameter 'alhpa'. Did you mean 'alpha'"),
        (ITEM + "[grid]\nalpha = []", "grid.alpha must be a list with at least one value"),
        (ITEM + "[grid]", "The grid is empty"),
        (ITEM + "[grid]\nalpha = 0.1", "must be a list"),
        (ITEM + "[grid]\nalpha = ['small']", "alpha of gmm-flow/theorem-1 must be a number, got 'small'"),
        (ITEM + "[grid]\ndim = [10.5]", "must be a whole number, got 10.5"),
        (ITEM + "[grid]\ndim = [true]", "must be a whole number, got True"),
        (ITEM + "[grid]\nalpha = [0.1]\n[[list]]\nalpha = 0.1", "one of"),
        (ITEM + 'seeds = "three"', "seeds must be a whole number, got 'three'"),
        (ITEM + "seeds = 0", "no seed"),
        (ITEM + "sedes = 3", "no field 'sedes'. Did you mean 'seeds'"),
        (ITEM + 'scale = "huge"', "has no scale 'huge'"),
        (ITEM + '[where]\nseries = "none"', "No setting of gmm-flow/theorem-1"),
        (ITEM + "[limits]\nseconds = -1", "limits.seconds must be more than 0"),
        (ITEM + "[limits]\nsecond = 1", "no field 'second'"),
        (ITEM + '[budget]\nunits = "few"', "must be a whole number"),
        (ITEM + 'rerun = ["all"]', "rerun is a list"),
        (OWN, "Give one of"),
        (OWN.replace("short", "shrt") + "[grid]\nsize = [1]", "has no function 'shrt'"),
        ('function = "none.py:f"\n[grid]\nsize = [1]', "There is no file"),
        ('function = "measure"\n[grid]\nsize = [1]', "FILE.py:NAME"),
        (OWN + "[random]\nsize = [1]", "needs draws"),
        (OWN + "[random]\ndraws = 2\nsize = {low = 1}", "needs low and high"),
        (OWN + "[random]\ndraws = 2\nsize = {low = 0.0, high = 1.0, log = true}", "Cannot draw"),
        (OWN + "scale = 'quick'\n[grid]\nsize = [1]", "a function has none"),
        (OWN + "[fixed]\nsize = {a = 1}", "must be a number, a word"),
    ],
)
def test_bad_specs_get_one_sentence(text, said, tmp_path):
    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        spec(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_imported_says_why(tmp_path):
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    with pytest.raises(ValueError, match="No module named 'nothing_of_that_name'"):
        spec(tmp_path, 'function = "broken.py:f"\n[grid]\na = [1]')
    with pytest.raises(ValueError, match="Cannot read"):
        read_spec(tmp_path / "none.toml")
