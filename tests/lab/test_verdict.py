import math

import numpy as np
import pytest
from scipy import stats

from featureprism.lab import (
    Claim,
    Outcome,
    Rows,
    above,
    at_least,
    at_most,
    below,
    between,
    judge,
    mean_interval,
    requires,
)
from featureprism.lab.verdict import seeds_to_decide


def rows_with(values):
    return Rows.gather({"seed": seed, "kind": "v", "value": value} for seed, value in enumerate(values))


def judged(values, bound, **more):
    claim = Claim("c", "source", "statement", lambda rows: rows.of("v").per_seed("value"), bound, **more)
    return judge(claim, rows_with(values), "item.c")


def test_the_interval_is_students():
    values = np.array([0.2, 0.9, 1.1, 0.4])
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert mean_interval(values) == pytest.approx((low, high))


def test_the_interval_covers_the_mean_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(size=(4000, 3))
    covered = np.mean([low <= 0 <= high for low, high in map(mean_interval, draws)])
    assert covered == pytest.approx(0.95, abs=0.012)  # 3.5 standard errors


@pytest.mark.parametrize(
    ("values", "bound", "outcome"),
    [
        ([0.1, 0.11, 0.12], below(0.5), Outcome.HOLDS),
        ([0.9, 0.91, 0.92], below(0.5), Outcome.FAILS),
        ([0.05, 0.58, 1.11], above(0.5), Outcome.UNDECIDED),  # a mean of 0.58 ± 0.53 decides nothing
        ([0.97, 1.0, 1.03], between(0.8, 1.2), Outcome.HOLDS),
        ([2.0, 2.01, 2.02], between(0.8, 1.2), Outcome.FAILS),
        ([0.0, 0.0, 0.0], at_most(0.0), Outcome.HOLDS),
        ([0.0, 0.0, 0.0], below(0.0), Outcome.FAILS),
        ([1.0, 1.0], at_least(1.0), Outcome.HOLDS),
        ([0.1, math.nan, 0.1], below(0.5), Outcome.NOT_MEASURED),
        ([0.1], below(0.5), Outcome.UNDECIDED),  # one seed says nothing about the spread
        ([math.inf, 2.0], at_least(1.0), Outcome.HOLDS),
        ([math.inf, 2.0], at_most(1.0), Outcome.FAILS),
    ],
)
def test_it_holds_or_fails_only_when_the_seeds_agree(values, bound, outcome):
    assert judged(values, bound).outcome == outcome


def test_one_seed_refutes_a_worst_case():
    values = [0.1, 0.1, 0.1, 0.1, 0.6]
    assert judged(values, below(0.5), aggregate="worst").outcome == Outcome.FAILS
    assert judged(values[:4], below(0.5), aggregate="worst").outcome == Outcome.HOLDS
    assert judged(values[:1], below(0.5), aggregate="worst").outcome == Outcome.HOLDS


def test_the_number_of_seeds_that_would_decide_is_the_least_that_does():
    values = np.array([0.05, 0.58, 1.11])
    num = seeds_to_decide(values, above(0.5))
    assert num is not None

    def half(count):
        return stats.t.ppf(0.975, count - 1) * values.std(ddof=1) / math.sqrt(count)

    assert half(num) < 0.08 <= half(num - 1)
    assert seeds_to_decide(np.array([0.0, 1.0]), above(0.5)) is None  # a mean on the bound is never decided


def test_slack_and_looseness():
    assert judged([0.04, 0.04], at_most(1.0)).slack == pytest.approx(0.04)
    assert judged([0.04, 0.04], at_most(1.0)).is_loose
    assert not judged([0.4, 0.4], at_most(1.0)).is_loose
    assert judged([50.0, 50.0], at_least(1.0)).is_loose
    assert not judged([4.0, 4.0], at_most(1.0)).is_loose  # it fails
    assert judged([1.0, 1.0], between(0.0, 2.0)).slack is None
    assert judged([1.0, 1.0], at_least(0.0)).slack is None


def premise(id, holds, seed=0, **more):
    return {"seed": seed, "kind": "premise", "id": id, "holds": holds, **more}


def test_the_regime_tells_which_premises_of_the_theorem_fail():
    table = Rows.gather(
        [
            premise("theorem-1.n", True),
            premise("theorem-1.n", False, seed=1),
            premise("theorem-1.d", True),
            premise("theorem-11.d", False),
            premise("lemma-2", None, name="far"),
        ]
    )
    regime = requires("theorem-1").regime(table)
    assert (regime.inside, regime.num_premises, regime.failing) == (False, 2, ("theorem-1.n",))
    assert requires("theorem-1.d").regime(table).inside is True
    assert requires("lemma-2", name="near").regime(table).inside is None
    assert requires("lemma-2", name="far").regime(table).inside is False  # not measured is not fulfilled
    assert requires().regime(table).inside is None


def test_a_claim_is_refused_when_it_makes_no_sense():
    with pytest.raises(ValueError, match="origin"):
        judged([1.0], below(0), origin="someone")
    with pytest.raises(ValueError, match="worst"):
        judged([1.0], below(0), aggregate="some seeds")
    with pytest.raises(ValueError, match="low ≤ high"):
        between(1, 0)
    short = Claim("c", "s", "t", lambda _rows: np.array([1.0]), below(0))
    with pytest.raises(ValueError, match="1 values for 2 seeds"):
        judge(short, rows_with([1.0, 2.0]))


def test_a_judged_claim_tells_everything():
    row = judged([0.05, 0.58, 1.11], above(0.5), reported=0.9, note=lambda rows: f"{len(rows)} rows").as_row()
    assert row["id"] == "item.c"
    assert (row["relation"], row["bound"], row["reported"], row["origin"]) == (">", 0.5, 0.9, "paper")
    assert (row["verdict"], row["note"]) == ("undecided", "3 rows")
    assert row["seeds_to_decide"] > 100
    assert row["regime"] == {"inside": None, "premises": 0, "holding": 0, "failing": []}
