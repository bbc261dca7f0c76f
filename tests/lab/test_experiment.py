import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from featureprism.lab import Claim, Experiment, Paper, Rows, at_least, below
from featureprism.lab.experiment import changed, fields_of


@dataclass(frozen=True, kw_only=True)
class Setting:
    dim: int = 3
    noise: float = 0.5
    starts: tuple[str, ...] = ("random",)
    fast: bool = True


def experiment(id="toy/item", **more):
    claim = Claim("x", "s", "t", lambda rows: np.zeros(len(rows.seeds)), below(1))
    return Experiment(id, "source", "title", {"quick": [Setting()]}, lambda *_: [], (claim,), **more)


def test_names_of_experiments_and_claims():
    assert (experiment().paper, experiment().item) == ("toy", "item")
    assert experiment().claim_id(experiment().claims[0]) == "item.x"
    with pytest.raises(ValueError, match="PAPER/ITEM"):
        experiment("item")
    with pytest.raises(ValueError, match="does not belong"):
        Paper("other", "someone", (experiment(),))
    with pytest.raises(ValueError, match="Two claims"):
        Experiment("toy/item", "s", "t", {}, lambda *_: [], experiment().claims * 2)
    with pytest.raises(ValueError, match="unknown scales huge"):
        Experiment("toy/item", "s", "t", {"huge": []}, lambda *_: [], ())
    with pytest.raises(ValueError, match="has no scale 'paper'"):
        experiment().settings("paper")


def test_a_setting_is_changed_in_its_own_types():
    setting = changed(Setting(), {"dim": 7, "noise": 1, "starts": ["a", "b"], "unknown": 3})
    assert setting == Setting(dim=7, noise=1.0, starts=("a", "b"))
    assert isinstance(setting.noise, float)
    assert fields_of(setting) == {"dim": 7, "noise": 1.0, "starts": ("a", "b"), "fast": True}
    for field, value in (("dim", 7.5), ("dim", "x"), ("noise", True), ("fast", 1)):
        with pytest.raises(ValueError, match=f"{field} of the setting must be"):
            changed(Setting(), {field: value})


def test_seeds_that_share_one_draw_decide_nothing():
    value = Claim("value", "here", "it is large", lambda rows: rows.per_seed("value"), at_least(0.5))
    lost = Claim("lost", "here", "it is there", lambda rows: rows.per_seed("nothing"), at_least(0.5))
    item = Experiment("toy/item", "here", "One training", {}, lambda *_: [], (value, lost))
    rows = Rows.gather({"seed": seed, "value": 1.0, "shipped": True} for seed in range(3))
    assert [v.outcome for v in item.judge(rows)] == ["holds", "not measured"]
    shared = replace(item, shared_weights=lambda rows: all(row["shipped"] for row in rows))
    verdicts = shared.judge(rows)
    assert [v.outcome for v in verdicts] == ["undecided", "not measured"]
    assert verdicts[0].measured == 1.0
    assert verdicts[0].interval == (-math.inf, math.inf)


def test_a_paper_has_few_headlines():
    claims = tuple(
        Claim(f"c{i}", "s", "t", lambda rows: rows.per_seed("a"), below(1), headline=True) for i in range(8)
    )
    Paper("toy", "someone", (replace(experiment(), claims=claims[:7]),))
    with pytest.raises(ValueError, match="8 headline claims"):
        Paper("toy", "someone", (replace(experiment(), claims=claims),))
