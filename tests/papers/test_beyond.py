"""Our own findings at a tiny size, and claims judged on rows whose verdict is known."""

import math

import pytest
import torch

from featureprism.networks import LinearClassifier
from featureprism.papers.beyond.blind_attacks import BLIND_ATTACKS, measure, told
from featureprism.papers.beyond.peers import Answer, Question, answers, asked, found_radius
from featureprism.records import silent
from featureprism.report.figures import DRAWINGS


def question():
    w = torch.tensor([3.0, 4.0]).double()
    x = torch.tensor([[1.0, 1.0], [-2.0, 0.0]]).double()
    return Question(LinearClassifier(w), x, torch.tensor([1.0, -1.0]).double(), 2.0)


def test_a_perturbation_counts_only_where_it_flips():
    asked_about = question()
    moved = (
        asked_about.x + torch.tensor([[-3.0, 0.0], [1.0, 0.0]]).double()
    )  # f: 7 → -2 flips, -6 → -3 does not
    assert found_radius(asked_about, moved).tolist() == [3.0, math.inf]
    failing = asked(asked_about, "tool", "mode", lambda: 1 / 0)  # pyright: ignore[reportArgumentType]
    assert "ZeroDivisionError" in failing.error
    assert math.isnan(told(failing, torch.ones(2).double(), 2.0)["claimed_accuracy"])


def test_foolbox_answers_on_a_linear_classifier_are_near_the_exact_radius():
    pytest.importorskip("foolbox")
    exact = question().net.exact_radius(question().x, question().y)
    found = {(a.tool, a.mode): a for a in answers(question()) if a.tool.startswith("foolbox")}
    assert found["foolbox L2PGD", "single output"].error
    ddn = found["foolbox DDN", "tuned"].radius
    assert bool((ddn >= exact - 1e-6).all())
    torch.testing.assert_close(ddn, exact, rtol=0.02, atol=0)


@pytest.mark.parametrize("network", ["pReLU", "feature averaging"])
def test_the_item_runs_and_is_drawn(network):
    setting = {"network": network, "dim": 100, "per_cluster": 20, "test_points": 3, "max_cells": 2}
    rows = [{"seed": 0, **setting, **row} for row in measure(setting, 0, silent)]
    assert {r["kind"] for r in rows} == {"truth", "claimed"}
    assert DRAWINGS["beyond/blind-attacks"](rows)
    (truth,) = [r for r in rows if r["kind"] == "truth"]
    assert truth["attacked_accuracy"] == 0
    assert truth["certified_half_radius"] <= truth["attacked_half_radius"]


def rows_with(ours_over_theirs, claimed):
    base = {"seed": 0, "kind": "claimed", "tool": "foolbox L2PGD", "error": ""}
    truth = {
        "kind": "truth",
        "seed": 0,
        "median_gap": 0.01,
        "certified_half_radius": 2.0,
        "crown_half_radius": 1.0,
    }
    return [
        *({**truth, "network": n} for n in ("pReLU", "feature averaging")),
        *(
            {
                **base,
                "network": n,
                "mode": m,
                "ours_over_theirs": ours_over_theirs,
                "claimed_accuracy": claimed,
            }
            for n in ("pReLU", "feature averaging")
            for m in ("defaults", "tuned")
        ),
    ]


def test_claims_can_hold_and_fail():
    def verdicts(*args):
        return {c.id.removeprefix("blind-attacks."): c.holds for c in BLIND_ATTACKS.claims(rows_with(*args))}

    assert verdicts(0.9, 1.0) == dict.fromkeys(
        ("prelu-pgd", "prelu-pgd-tuned", "ours", "proof", "crown"), True
    )
    assert verdicts(1.01, 0.0) | {"proof": None, "crown": None} == {
        "prelu-pgd": False,
        "prelu-pgd-tuned": False,
        "ours": False,
        "proof": None,
        "crown": None,
    }


def test_the_answer_of_a_blind_tool_is_a_full_claim():
    nothing = Answer("tool", "defaults", torch.full((4,), math.inf).double())
    row = told(nothing, torch.ones(4).double(), 2.0)
    assert row["claimed_accuracy"] == 1.0
    assert row["ours_over_theirs"] == 0.0
