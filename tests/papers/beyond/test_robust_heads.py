"""How heads are chosen and compared, and claims judged on rows whose verdict is known."""

import math
from dataclasses import replace

import pytest

from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.experiment import fields_of
from featureprism.lab.heads.compare import best_within
from featureprism.papers.beyond.robust_heads import ROBUST_HEADS, draw, gains, measure

TINY = {
    "beyond/robust-heads": [
        replace(
            ROBUST_HEADS.settings("quick")[-1],
            train_points=200,
            held_points=100,
            width=4,
            epochs=1,
            num_subclasses=2,
            test_points=3,
            kernel_points=60,
        )
    ]
}
SLOW = ("beyond/robust-heads",)  # ten heads take seconds


def test_missing_data_is_a_row_and_not_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("featureprism.data.images.cache_folder", lambda: tmp_path)
    setting = ROBUST_HEADS.settings("quick")[0]
    (row,) = measure(setting, 0, Context(data=tmp_path))
    assert row["kind"] == "missing"
    rows = Rows.gather([{"seed": 0, **fields_of(setting), **row}])
    verdicts = ROBUST_HEADS.judge(rows)
    assert {str(v.outcome) for v in verdicts} == {"not measured"}
    assert "data not found" in verdicts[0].note
    assert draw(rows)


def head(name, family, held, accuracy, radius):
    return {
        "head": name,
        "family": family,
        "held_accuracy": held,
        "held_points": 10**6,
        "held_radius": radius,
        "accuracy": accuracy,
        "attacked_radius": radius,
        "certified_radius": radius / 2,
        "train_seconds": 1.0,
    }


def test_heads_are_chosen_on_validation_and_judged_on_test():
    heads = [
        head("ReLU", "ReLU", 0.9, 0.9, 1.0),
        head("pReLU", "pReLU", 0.895, 0.895, 2.0),
        head("found", "discovered", 0.88, 0.88, 3.0),
        head("hard", "adversarial", 0.86, 0.86, 2.0),
        head("ReLU, trained with noise", "other", 0.89, 0.89, 1.6),
    ]
    by_name = {row["which"]: row for row in gains(heads)}
    assert by_name["free"]["head"] == "pReLU"
    assert by_name["free"]["gain"] == 2.0
    assert by_name["free"]["proven_gain"] == 1.0
    assert by_name["discovered"]["gain"] == 3.0
    assert by_name["noise"]["gain"] == pytest.approx(1.25)
    assert by_name["adversarial"]["theirs"] == pytest.approx(
        1.5
    )  # halfway between the plain and the hardened head
    assert by_name["adversarial"]["gain"] == pytest.approx(2.0)
    heads[1] = head("pReLU", "pReLU", 0.895, 0.88, 2.0)  # validation promised more than the test points keep
    assert next(gains(heads))["gain"] == 1.0


def test_chance_is_taken_off_what_is_allowed():
    now = {"held_accuracy": 0.9, "held_points": 600}  # a standard error of 1 point
    rows = [{"family": "pReLU", "held_accuracy": a, "held_radius": r} for a, r in ((0.895, 2.0), (0.9, 1.0))]
    assert best_within(rows, now, 0.01)["held_radius"] == 1.0
    assert best_within(rows, now | {"held_points": 10**6}, 0.01)["held_radius"] == 2.0
    assert best_within(rows, now, 0.01, ("given",)) is None


def test_claims_can_hold_and_fail():
    def verdicts(gain):
        rows = Rows.gather(
            {"kind": "gain", "seed": seed, "data": data, "which": which, "head": "h", "loss": 0.0}
            | {"gain": gain, "proven_gain": gain, "time_ratio": 2.0}
            for seed in (0, 1)
            for data in ("cifar10 embeddings", "mnist", "digits")
            for which in ("free", "discovered", "pReLU", "adversarial", "noise")
        )
        return [str(verdict.outcome) for verdict in ROBUST_HEADS.judge(rows)]

    assert verdicts(2.0) == ["holds"] * 7
    assert verdicts(0.9) == ["fails"] * 7
    assert verdicts(math.nan) == ["not measured"] * 7
