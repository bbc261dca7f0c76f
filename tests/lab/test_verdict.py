import math

import numpy as np
import pytest
from scipy import stats

from featureprism.lab import (
    Bound,
    Claim,
    Outcome,
    Premise,
    Rows,
    above,
    at_least,
    at_most,
    below,
    between,
    judge,
    requires,
)
from featureprism.lab.intervals import mean_interval, share_interval
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


@pytest.mark.parametrize(("successes", "num"), [(0, 5), (5, 5), (3, 7), (19, 20)])
def test_the_interval_of_a_share_is_exact(successes, num):
    low, high = share_interval(successes, num)
    assert (low, high) == pytest.approx(stats.binomtest(successes, num).proportion_ci(0.95, "exact"))


@pytest.mark.parametrize(
    ("values", "bound", "outcome"),
    [
        ([1.0] * 5, at_least(0.4), Outcome.HOLDS),  # 5 of 5: at least 0.478
        ([1.0] * 5, at_least(0.5), Outcome.UNDECIDED),
        ([0.0] * 5, at_least(0.6), Outcome.FAILS),
        ([1.0, 0.0, 1.0, 0.0, 1.0], at_most(0.5), Outcome.UNDECIDED),
        ([1.0, math.nan], at_least(0.5), Outcome.NOT_MEASURED),
    ],
)
def test_a_share_is_judged_by_its_binomial_interval(values, bound, outcome):
    assert judged(values, bound, aggregate="share").outcome == outcome


def test_the_seeds_that_would_decide_a_share():
    num = judged([1.0] * 5, at_least(0.5), aggregate="share").seeds_to_decide
    assert num == 6  # 6 of 6: at least 0.541


def test_the_values_of_a_share_are_zero_or_one():
    with pytest.raises(ValueError, match="0 or 1"):
        judged([0.3, 1.0], at_least(0.5), aggregate="share")


@pytest.mark.parametrize(
    ("bound", "more"),
    [
        (at_least(1.0), {"range": (0, 1)}),
        (at_most(0.0), {"range": (0, 1)}),
        (between(1.0, 2.0), {"range": (0, 1)}),
        (at_least(1.0), {"quantity": "share of the seeds that succeed"}),
        (at_least(1.0), {"aggregate": "share"}),
        (above(1.0), {"range": (0, 1)}),
        (above(1.0), {"range": (0, 1), "aggregate": "worst"}),
    ],
)
def test_a_mean_that_only_the_edge_of_its_range_satisfies_is_refused(bound, more):
    with pytest.raises(ValueError, match="no value between 0 and 1"):
        judged([1.0, 1.0], bound, **more)


@pytest.mark.parametrize(
    ("bound", "more"),
    [
        (at_least(1.0), {}),
        (at_least(1.0), {"range": (0, 1), "aggregate": "worst"}),
        (at_least(0.99), {"range": (0, 1)}),
        (below(1.0), {"range": (0, 1)}),
        (at_most(1.0), {"quantity": "ratio of two lengths"}),
    ],
)
def test_other_bounds_are_taken(bound, more):
    assert judged([0.995, 1.0], bound, **more)


def reaching(values, ceilings, bound, **more):
    claim = Claim(
        "c",
        "source",
        "statement",
        lambda rows: rows.of("v").per_seed("value"),
        bound,
        ceiling=lambda rows: rows.of("v").per_seed("best"),
        **more,
    )
    rows = (
        {"seed": s, "kind": "v", "value": v, "best": c}
        for s, (v, c) in enumerate(zip(values, ceilings, strict=True))
    )
    return judge(claim, Rows.gather(rows))


@pytest.mark.parametrize(
    ("values", "ceilings", "more", "outcome"),
    [
        ([0.5, 0.51], [0.6, 0.6], {}, Outcome.OUT_OF_REACH),
        ([0.5, 0.51], [0.8, 0.8], {}, Outcome.FAILS),
        ([0.75, 0.751], [0.6, 0.6], {}, Outcome.HOLDS),  # measured beyond it: the ceiling is not one
        ([0.5, 0.51], [0.6, math.nan], {}, Outcome.FAILS),
        ([0.5, 0.51], [0.5, 0.9], {}, Outcome.FAILS),  # the ceilings are not clear of the bound
        ([0.1, 0.9], [0.6, 0.6], {}, Outcome.OUT_OF_REACH),
        ([0.5, 0.8], [0.6, 0.9], {"aggregate": "worst"}, Outcome.OUT_OF_REACH),
        ([0.5, 0.5], [0.6, 0.9], {"aggregate": "worst"}, Outcome.FAILS),  # the second run could have
    ],
)
def test_what_no_network_of_the_size_could_reach_is_out_of_reach(values, ceilings, more, outcome):
    verdict = reaching(values, ceilings, at_least(0.7), **more)
    assert verdict.outcome == outcome
    if outcome == Outcome.OUT_OF_REACH:
        assert verdict.as_row()["ceiling"] == pytest.approx(np.mean(ceilings))
        assert verdict.as_row()["measured"] == pytest.approx(np.mean(values))


def test_values_that_are_not_finite():
    assert judged([math.inf, 0.5], at_most(1.0)).outcome == Outcome.FAILS
    assert judged([math.inf, 0.5], at_least(1.0)).outcome == Outcome.UNDECIDED
    mixed = judged([math.inf, -math.inf], at_least(1.0))
    assert math.isnan(mixed.measured)


@pytest.mark.parametrize("bound", [below(1.0), at_most(1.0), above(1.0), at_least(1.0), between(0.5, 1.5)])
def test_a_bound_is_its_relation_and_value(bound):
    assert Bound.of(bound.relation, bound.value) == bound


def test_a_premise_and_a_claim_share_one_bound():
    premise = Premise("t.n", "n", measured=3.0, relation="<", required=3.0)
    assert premise.bound == below(3.0)
    assert premise.holds is False
    assert Premise("t.n", "n", measured=math.nan, relation="<", required=3.0).holds is None
    with pytest.raises(ValueError, match="Unknown relation"):
        _ = Premise("t.n", "n", measured=math.nan, relation="=", required=3.0).holds
