"""A group-sequential plan: fixed looks, the error spent over them, and no more wrong decisions than it says."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from featureprism.lab import Claim, Experiment, Looks, Outcome, Rows, Serial, above, at_most, judge, reproduce


def rows_of(values):
    return Rows.gather({"seed": seed, "value": value} for seed, value in enumerate(values))


def claim(bound=None, **more):
    bound = bound or above(0.0)
    return Claim("c", "s", "t", lambda rows: rows.per_seed("value"), bound, **more)


def test_a_mean_on_its_bound_is_decided_at_most_as_often_as_the_error_says():
    """Both wrong decisions together: every sample is looked at up to three times."""
    draws, looks, decided = np.random.default_rng(0), Looks(), 0
    for _ in range(600):
        verdict = looks.judge(claim(), rows_of(draws.normal(size=20)))
        decided += verdict.outcome != Outcome.UNDECIDED
    assert decided / 600 < 0.05 + 0.025


def test_the_first_look_that_decides_is_final():
    values = [1.0, 1.1, 0.9, 1.0, 1.05, *[-9.0] * 5]
    verdict = Looks().judge(claim(), rows_of(values))
    assert (verdict.outcome, len(verdict.values), verdict.level) == (Outcome.HOLDS, 5, 0.97)
    later = Looks().judge(claim(), rows_of([1.0, -1.0, 1.0, -1.0, 1.0, *[0.6, 0.7] * 8]))
    assert len(later.values) == 20


def test_fewer_seeds_than_the_first_look_are_judged_as_ever():
    rows, same = rows_of([1.0, 1.1, 0.9]), claim()
    assert Looks().judge(same, rows) == judge(same, rows)


def test_a_claim_about_every_run_is_judged_by_all_of_them():
    rows = rows_of([0.0] * 9 + [2.0])
    assert Looks().judge(claim(at_most(1.0), aggregate="worst"), rows).outcome == Outcome.FAILS


@pytest.mark.parametrize(
    "plan",
    [
        {"seeds": (5, 10), "errors": (0.05,)},
        {"seeds": (5, 10), "errors": (0.04, 0.04)},
        {"seeds": (10, 5), "errors": (0.02, 0.02)},
        {"seeds": (5,), "errors": (0.0,)},
        {"seeds": (5, 10), "errors": (0.03, 0.0)},
    ],
)
def test_a_plan_that_spends_too_much_is_refused(plan):
    with pytest.raises(ValueError, match=r"[Ll]ooks"):
        Looks(**plan)


@dataclass(frozen=True)
class Setting:
    spread: float


CALLS = []


def measure(setting, seed, _context):
    CALLS.append(seed)
    return [{"value": 0.6 + setting.spread * (-1) ** seed}]


def experiment(spread, **more):
    return Experiment("toy/item", "s", "t", {"quick": [Setting(spread)]}, measure, (claim(),), **more)


@pytest.mark.parametrize(
    ("spread", "num", "outcome", "reason"),
    [
        (0.01, 5, Outcome.HOLDS, ""),
        (0.5, 10, Outcome.HOLDS, ""),
        (50.0, 5, Outcome.UNDECIDED, "the plan ends at 20 seeds"),  # more than a thousand would be needed
    ],
)
def test_more_seeds_are_run_while_they_can_decide(spread, num, outcome, reason, tmp_path):
    CALLS.clear()
    ((result,), _) = reproduce([experiment(spread)], "quick", [100], tmp_path, Serial(), looks=Looks())
    assert result.seeds == tuple(range(100, 100 + num))
    assert sorted(CALLS) == list(range(100, 100 + num))  # none is measured twice
    assert (result.verdicts[0].outcome, result.verdicts[0].reason) == (outcome, reason)
    (stored,) = json.loads((result.folder / "claims.json").read_text())
    assert stored["reason"] == reason


def test_an_undecided_claim_says_why_nobody_ran_more(tmp_path):
    dear = Looks(seconds=0.0)
    ((result,), _) = reproduce([experiment(0.5)], "quick", [0], tmp_path / "dear", Serial(), looks=dear)
    assert "5 more seeds would take" in result.verdicts[0].reason
    shared = experiment(0.5, shared_weights=lambda _rows: True)
    ((result,), _) = reproduce([shared], "quick", [0], tmp_path / "shared", Serial(), looks=Looks())
    assert result.verdicts[0].reason == "its seeds share the weights of one training"
    assert len(result.seeds) == 5
