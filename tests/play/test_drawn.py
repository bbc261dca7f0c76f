"""Training on points that a person drew."""

import pytest

from featureprism.play.drawn import Drawing, training

XOR = "0.5,0.5,+;-0.5,-0.5,+;0.5,-0.5,-;-0.5,0.5,-"


def test_a_network_learns_the_points_and_their_balls_stay_on_their_side():
    rows = list(training(Drawing.of({"points": XOR})))
    frames, balls = ([row for row in rows if row["kind"] == kind] for kind in ("frame", "ball"))
    assert frames[-1]["accuracy"] == 1.0
    assert len(balls) == 4
    assert all(0 < ball["certified"] <= ball["attacked"] < 1.0 for ball in balls)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"points": "0,0,+"},
        {"points": "0,0,+;5,0,-"},
        {"points": "nan,0,+;0,0,-"},
        {"points": XOR, "p": "9"},
        {"points": "a"},
    ],
)
def test_bad_points_are_one_sentence(words):
    with pytest.raises(ValueError, match=r"\.$"):
        Drawing.of(words)
