import math

import numpy as np
import pytest

from featureprism.lab import Rows
from featureprism.lab.rows import log_slope

TABLE = Rows.gather(
    {"seed": seed, "kind": "point", "x": x, "y": 3 * x ** (2 + seed), "name": "a" if x < 3 else "b"}
    for seed in (0, 1)
    for x in (1.0, 2.0, 4.0)
)


def test_a_part_keeps_the_seeds_of_the_whole_so_that_values_stay_side_by_side():
    late = TABLE.where(lambda row: row["seed"] == 1)
    assert len(late) == 3
    assert late.seeds == (0, 1)
    np.testing.assert_array_equal(late.largest("x"), [math.nan, 4.0])
    np.testing.assert_array_equal(TABLE.of("none").mean("x"), [math.nan, math.nan])


def test_one_number_per_seed_by_hand():
    np.testing.assert_allclose(TABLE.mean("x"), [7 / 3, 7 / 3])
    np.testing.assert_allclose(TABLE.least("y"), [3, 3])
    np.testing.assert_allclose(TABLE.of("point", name="b").per_seed("y"), [48, 192])
    np.testing.assert_allclose(TABLE.farthest("x", 2.4), [4, 4])
    np.testing.assert_allclose(TABLE.farthest("x", 3.0), [1, 1])
    np.testing.assert_allclose(TABLE.per_seed(lambda rows: rows.column("x").sum()), [7, 7])


def test_the_slope_of_a_power_law_is_its_exponent():
    np.testing.assert_allclose(TABLE.slope("x", "y"), [2, 3])
    assert math.isnan(log_slope([1.0], [1.0]))
    assert math.isnan(log_slope([2.0, 2.0], [1.0, 3.0]))
    assert math.isnan(log_slope([1.0, 2.0], [0.0, 1.0]))


def test_several_rows_of_a_seed_ask_for_a_choice():
    with pytest.raises(ValueError, match="3 rows of seed 0"):
        TABLE.per_seed("x")


def test_what_is_missing_is_nan_and_stays_visible():
    rows = Rows.gather([{"seed": 0, "kind": "k", "v": 1.0}, {"seed": 0, "kind": "k", "v": None}])
    assert math.isnan(rows.largest("v")[0])
    assert math.isnan(rows.least("v")[0])
    assert math.isnan(rows.farthest("v", 0.0)[0])
    assert math.isnan(rows.mean("other")[0])


def test_groups_come_in_order_of_appearance():
    assert list(TABLE.groups("name")) == ["a", "b"]
    assert list(TABLE.groups("seed", "name"))[:2] == [(0, "a"), (0, "b")]
    assert TABLE.distinct("x") == [1.0, 2.0, 4.0]
    assert sum(len(part) for part in TABLE.groups("name").values()) == len(TABLE)
