"""What phase items read off their cells, on curves that are known."""

import math

import pytest

from featureprism.lab import Rows
from featureprism.papers.beyond.curves import crossing, ends, extrapolated, largest_gap
from featureprism.papers.beyond.phase_initialisation import PHASE_INITIALISATION, fall
from featureprism.papers.beyond.phase_label_noise import PHASE_LABEL_NOISE, breakdown
from featureprism.papers.beyond.phase_learning_rate import PHASE_LEARNING_RATE
from featureprism.papers.beyond.phase_noise import LINE, PHASE_NOISE, points_for
from featureprism.papers.beyond.phase_purification import PHASE_PURIFICATION
from featureprism.papers.beyond.phase_scaling import PHASE_SCALING
from featureprism.papers.beyond.phase_supervision import PHASE_SUPERVISION


def cells(*rows, **common):
    return Rows.gather({"kind": "cell", "seed": 0, **common, **row} for row in rows)


def values(experiment, table):
    """What each claim measures on the rows of one seed."""
    return {claim.name: claim.value(table)[0] for claim in experiment.claims}


def test_a_fall_is_interpolated_on_the_log_scale():
    best = 0.9 * 2**-0.5
    line = [
        {"std": std, "half_radius": radius}
        for std, radius in ((1.0, 0.0), (1e-3, best + 0.1), (1e-1, best - 0.1))
    ]
    assert fall(cells(*line)) == pytest.approx(1e-2)
    assert math.isnan(fall(cells(line[0])))


def test_a_breakdown_is_interpolated():
    line = [{"noise_rate": r, "clean_error": e} for r, e in ((0.0, 0.0), (0.2, 0.02), (0.4, 0.08))]
    assert breakdown(cells(*line)) == pytest.approx(0.3)


def test_a_crossing_is_the_first_rise_past_the_level():
    assert crossing([3, 1, 2, 0], [9, 4, 2, 0], 3) == pytest.approx(0.75)
    assert math.isnan(crossing([0, 1], [4, 0], 3))


def test_a_power_law_is_extrapolated():
    dims = [100, 400, 900]
    assert extrapolated(dims, [3 * d**0.5 for d in dims], 1e6) == pytest.approx(3000)
    assert math.isnan(extrapolated(dims[:1], [1.0], 1e6))


def test_ends_and_gaps():
    table = cells({"k": 3, "m": 1.0, "p": 4.0}, {"k": 1, "m": 2.0, "p": 1.0}, {"k": 2, "m": 0.0, "p": 0.0})
    assert [part[0]["k"] for part in ends(table, "k")] == [1, 3]
    assert largest_gap(table, "m", "p").tolist() == [3.0]


def test_the_line_of_the_alpha_square_law():
    assert [points_for(a) for a in (0.2, 0.1, 0.05, 0.126)] == [25, 100, 400, 63]
    line = [s for s in PHASE_NOISE.settings("quick") if s.series == LINE]
    assert [s.per_cluster * s.alpha**2 for s in line] == pytest.approx([1.0] * 3)


def test_the_law_of_noise_gives_its_exponents():
    table = cells(
        *(
            {"alpha": s.alpha, "per_cluster": s.per_cluster, "series": s.series}
            | {"distance": 2 * s.alpha / s.per_cluster**0.5, "over_predicted": 1.0}
            for s in PHASE_NOISE.settings("quick")
        )
    )
    measured = values(PHASE_NOISE, table)
    wanted = {"exponent": 2.0, "exponent-fixed-n": 1.0, "exponent-points": -0.5, "law": 1.0}
    assert measured == pytest.approx(wanted)


def test_small_and_large_starts_are_told_apart():
    table = cells(
        {"p": 2.0, "std": 0.01, "half_radius": 0.3, "critical_std": 0.1},
        {"p": 2.0, "std": 1.0, "half_radius": 0.5, "critical_std": 0.1},
        {"p": 3.0, "std": 0.01, "half_radius": 0.7, "critical_std": 0.1},
        {"p": 3.0, "std": 1.0, "half_radius": 0.2, "critical_std": 0.1},
    )
    measured = values(PHASE_INITIALISATION, table)
    assert [measured[name] * 0.5**0.5 for name in ("small", "large", "power")] == pytest.approx(
        [0.7, 0.2, 0.3]
    )
    assert 0.1 < measured["place"] < 10


def test_partial_labels_have_their_slopes():
    table = cells(
        *(
            {"clusters": k, "labels": k // s, "per_label": s, "radius": s**-0.5, "predicted_radius": s**-0.5}
            for k in (4, 8, 16)
            for s in (1, 2, 4, 8)
            if s <= k // 2
        )
    )
    wanted = {"two-labels": -0.5, "all-labels": 0.0, "partial": -0.5, "law": 0.0}
    assert values(PHASE_SUPERVISION, table) == pytest.approx(wanted)


def test_cells_on_the_wrong_side_are_counted():
    table = cells(
        *(
            {"share": x, "predicted_share": y, "radius": x, "in_domain": True}
            for x, y in ((1, 0.95), (0.8, 1), (0.5, 0.6))
        )
    )
    assert values(PHASE_LEARNING_RATE, table) == pytest.approx({"boundary": 2 / 3, "law": 0.2, "radius": 1.0})


def test_more_points_move_the_breakdown():
    table = cells(
        *(
            {"points": n, "noise_rate": rate, "clean_error": rate * scale, "predicted_error": rate / 2}
            for n, scale in ((32, 0.5), (128, 0.25))
            for rate in (0.0, 0.4)
        )
    )
    other = {"kind": "other constant", "seed": 0, "clean_error": 0.2, "predicted_error": 0.25}
    found = values(PHASE_LABEL_NOISE, Rows.gather([*table, other]))
    assert found == pytest.approx({"place": 0.1, "law": 0.1, "constants": 0.05, "points": 0.1})


def test_gains_are_compared_across_sparsity_and_dimension():
    table = cells(
        *(
            {"dim": dim, "sparsity": k, "gain": gain, "clean_robust": 50 / dim, "over_ceiling": -gain}
            | {"floor": 0.1, "predicted_floor": 0.12}
            for dim, k, gain in ((100, 10, 0.4), (100, 30, 0.1), (200, 10, 0.6), (200, 30, 0.5))
        )
    )
    wanted = {"gain": 0.4, "dense": -0.1, "ceiling": -0.1, "floor": 0.02, "dimension": -0.25}
    assert values(PHASE_PURIFICATION, table) == pytest.approx(wanted)


def test_powers_of_the_dimension_are_found_and_extrapolated():
    powers = {"gmm-flow": 0.0, "feature-averaging": 0.5, "feature-amplification": 0.5}
    table = cells(
        *(
            {"paper": paper, "dim": dim, "effect": 2 * dim**power, "operations": 7 * dim}
            for paper, power in powers.items()
            for dim in (1600, 100, 400)
        )
    )
    measured = values(PHASE_SCALING, table)
    assert measured == pytest.approx({**powers, "cost": 1.0, "extrapolation": 0.0}, abs=1e-9)
    (cost,) = (claim for claim in PHASE_SCALING.claims if claim.name == "cost")
    assert not isinstance(cost.note, str)
    assert "gmm-flow 7e+06" in cost.note(table)
