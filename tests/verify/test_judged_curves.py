"""Published curves beside brackets: what is too high, too low or rises is impossible."""

import numpy as np
import pytest

from featureprism.brackets import RadiusBracket
from featureprism.cli import main
from featureprism.verify.referee import judge_curve, read_curve

RADII = np.array([1.0, 2.0, 3.0, 4.0])


def bracket() -> RadiusBracket:
    return RadiusBracket(0.9 * RADII, RADII)


def test_a_curve_between_the_sides_is_possible():
    rulings = judge_curve(bracket(), np.array([0.5, 1.5, 2.5, 5.0]), np.array([1.0, 0.75, 0.5, 0.0]), 0.005)
    assert all(r.possible for r in rulings)


@pytest.mark.parametrize(
    ("radius", "claimed", "fault"), [(2.5, 0.6, "too high"), (0.5, 0.9, "too low"), (2.5, 0.5, "")]
)
def test_impossible_claims_are_named(radius, claimed, fault):
    (ruling,) = judge_curve(bracket(), np.array([radius]), np.array([claimed]), 0.005)
    assert fault in ruling.fault
    assert ruling.possible == (not fault)


def test_a_curve_must_not_rise():
    wide = RadiusBracket(np.zeros(4), np.full(4, 9.0))
    rulings = judge_curve(wide, np.array([1.0, 2.0]), np.array([0.3, 0.4]), 0.005)
    assert [r.possible for r in rulings] == [True, False]
    assert "rises" in rulings[1].fault


def test_a_random_part_of_the_points_allows_for_chance():
    """0 of 10 points robust: of 1000, a share p is left by chance (1 - p)^10, which is 0.001 at p = 0.5."""
    all_flipped = RadiusBracket(np.zeros(10), np.ones(10))
    (ruling,) = judge_curve(all_flipped, np.array([2.0]), np.array([0.4]), 0.005, num_claimed=1000)
    assert ruling.possible
    assert ruling.most == pytest.approx(1 - 0.001 ** (1 / 10), abs=0.01)
    with pytest.raises(ValueError, match="cannot be about 5 points"):
        judge_curve(all_flipped, np.array([2.0]), np.array([0.4]), 0.005, num_claimed=5)


@pytest.mark.parametrize(
    "text", ["", "radius\n1\n", "radius,robust_accuracy\n1,often\n", "radius,robust_accuracy\n1,1.5\n"]
)
def test_bad_curves_are_refused(text, tmp_path):
    (tmp_path / "curve.csv").write_text(text)
    with pytest.raises(ValueError, match=r"curve\.csv"):
        read_curve(tmp_path / "curve.csv")


def test_the_command_names_what_is_impossible(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("model.npz", W=[[1.0], [-1.0]], a=[1.0, -1.0], activation="relu")
    np.savez("data.npz", x=[[1.0], [2.0], [-3.0]], y=[1, 1, -1])
    (tmp_path / "curve.csv").write_text("radius,robust_accuracy\n0.5,1.00\n1.5,1.00\n2.5,0.33\n")
    assert main(["referee", "model.npz", "data.npz", "--claims", "curve.csv"]) == 0
    said = capsys.readouterr().out
    assert "1 of 3 claims are impossible" in said
    assert "too high" in said
