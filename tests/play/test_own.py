from dataclasses import replace

import numpy as np
import pytest
import torch

from featureprism.play.export import digits
from featureprism.play.own import read_own, story
from featureprism.verify import Budget
from play.files import write_own


def test_brackets_cards_and_classes_of_ones_own_model(tmp_path):
    opening, cards, *batches = story(read_own(*write_own(tmp_path)))
    assert (opening["points"], opening["bracketed"], opening["dim"]) == (8, 8, 2)
    assert len(opening["classes"]) == 2
    rows = [row for batch in batches for row in batch["rows"]]
    assert [row["point"] for row in rows] == list(range(8))
    assert all(row["certified"] <= row["attacked"] for row in rows)
    nearest = min(rows, key=lambda row: row["attacked"])
    assert nearest["attacked"] == pytest.approx(
        0.5, rel=0.02
    )  # x = 0.5: the boundary is at x = 0, but for a small third neuron
    assert {card["neuron"] for card in cards["cards"][:2]} == {0, 1}
    assert all(len(card["names"]) == len(card["cosines"]) for card in cards["cards"])
    assert cards["cards"][0]["active_share"] == 0.5


def test_square_points_come_with_pictures_of_what_breaks_them():
    own = digits()
    rows = list(story(replace(own, x=own.x[:4], own=own.own[:4]), Budget(branches=1)))
    (pictures,) = [row for row in rows if row["kind"] == "pictures"]
    assert pictures["side"] == 8
    moved = np.array(pictures["pictures"][0]["x"]) + np.array(pictures["pictures"][0]["delta"])
    (brackets,) = [row for row in rows if row["kind"] == "brackets"]
    scores = own.model.net(torch.tensor(moved[None]))
    assert own.names[int(scores.argmax())] == brackets["rows"][0]["rival"]


def test_what_does_not_fit_is_one_sentence(tmp_path):
    model, _ = write_own(tmp_path)
    wide, junk = tmp_path / "wide.npz", tmp_path / "junk.npz"
    np.savez(wide, x=np.zeros((2, 5)), y=np.array([-1, 1]))
    junk.write_bytes(b"\x80\x04junk")
    with pytest.raises(ValueError, match="dimension 5, the model takes 2"):
        read_own(model, wide)
    with pytest.raises(ValueError, match="never loaded"):
        read_own(junk, wide)
