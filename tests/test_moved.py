"""What witnesses changed: features by name, common directions, pictures, and what to do now."""

import math

import numpy as np
import pytest

import featureprism as fp
from featureprism._moved import what_moved
from featureprism.brackets import NOT_CERTIFIED

RNG = np.random.default_rng(0)


def moved(delta, **options):
    radius = np.linalg.norm(delta, axis=1)
    words = ["a"] * len(delta)
    return what_moved(None, delta, radius, words, ["b"] * len(delta), **options)


def test_changes_are_ranked_in_standard_deviations_and_named():
    delta = np.array([[3.0, 0.5, 0.0]])
    first = moved(delta, spread=np.array([10.0, 0.1, 1.0]), names=["age", "error", "rest"]).points[0]
    assert [c.feature for c in first.changes] == ["error", "age"]
    assert first.changes[0].deviations == pytest.approx(5.0)
    assert "error by +0.5 (5 standard deviations)" in str(first)


def test_one_direction_is_told_from_many_whatever_the_signs():
    direction = RNG.normal(size=6)
    one = np.outer([1.0, -2.0, 0.5, 3.0], direction)
    assert moved(one).common == pytest.approx(1.0)
    assert abs(moved(one).direction @ direction) == pytest.approx(np.linalg.norm(direction))
    many = np.eye(8)
    assert moved(many).common == pytest.approx(1 / 8)
    assert "one common direction" in moved(one).sentence()
    assert "many different directions" in moved(many).sentence()


def test_points_without_a_flip_are_left_out_and_the_fragile_come_first():
    delta = np.diag([0.0, 3.0, 1.0, 2.0])
    radius = np.array([0.0, 3.0, 1.0, math.inf])
    found = what_moved(None, delta, radius, list("aaaa"), list("bbbb"))
    assert [p.index for p in found.points] == [2, 1]
    assert found.shares.sum() == pytest.approx(1.0)


def test_a_feature_that_never_varies_says_so():
    found = moved(np.array([[0.5, 0.1]]), spread=np.array([0.0, 1.0]), names=["constant", "b"])
    assert "constant by +0.5 (it never varies in the data)" in str(found)


def test_square_points_are_drawn_as_pictures_and_tables_are_not():
    x, delta = RNG.random((2, 16)), RNG.normal(size=(2, 16))
    radius = np.linalg.norm(delta, axis=1)
    drawn = what_moved(x, delta, radius, ["1", "1"], ["2", "2"])
    assert drawn._repr_html_().count("<svg") == 6
    named = what_moved(x, delta, radius, ["1", "1"], ["2", "2"], names=[f"f{j}" for j in range(16)])
    assert "<svg" not in named._repr_html_()
    assert "<table>" in named._repr_html_()


def bracket(**changes):
    parts = {
        "certified": np.array([0.1, 0.0]),
        "attacked": np.array([0.5, 0.0]),
        "method": ("cells", "misclassified"),
        "stopped_because": ("the seconds were used up", "misclassified"),
        "witness": np.array([[0.5, 0.0], [0.0, 0.0]]),
        "label": np.array([0, 1]),
        "target": np.array([1, 0]),
        "seconds": 5.0,
    }
    return fp.RadiusBracket(**(parts | changes))


def test_what_now_says_what_is_open_and_what_would_close_it():
    text = str(bracket())
    assert (
        "1 of 2 points is still open: the seconds were used up; 10 CPU seconds did not close them: try 40"
        in text
    )
    assert "1 point is misclassified" in text


def test_what_now_says_why_nothing_is_proven():
    reason = f"{NOT_CERTIFIED}: its step gelu is not known"
    text = str(bracket(certified=np.zeros(2), method=(reason, "misclassified"), stopped_because=()))
    assert "Nothing is proven because its step gelu is not known" in text
    assert "(proven)" not in text


def test_mixed_units_are_mentioned_once_there_are_names():
    parts = {"spread": np.array([100.0, 1.0]), "features": ("area", "error")}
    assert 'unit="std"' in str(bracket(**parts))
    assert 'unit="std"' not in str(bracket(**parts, unit="std"))


def test_a_closed_bracket_has_nothing_to_say():
    radii = np.array([0.5, 0.7])
    closed = bracket(certified=radii, attacked=radii, method=("cells",) * 2, stopped_because=("closed",) * 2)
    assert closed.next_steps() == []


def test_random_directions_in_the_plane_are_no_common_direction():
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    delta = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    moved = what_moved(None, delta, np.ones(40), ["a"] * 40, ["b"] * 40)
    assert abs(moved.agreement) < 0.01
    assert "many different directions" in moved.sentence()
