"""The attacks people use on a classifier whose radius is known, and claims judged on rows whose verdict is known."""

import math
from dataclasses import replace
from itertools import islice

import pytest
import torch

from featureprism.lab import Rows
from featureprism.networks import LinearClassifier
from featureprism.papers.beyond.blind_attacks import BLIND_ATTACKS, claimed
from featureprism.papers.beyond.peers import Answer, AttackTask, answer_of, answers, verified_radius

TINY = {
    "beyond/blind-attacks": [
        replace(BLIND_ATTACKS.settings("quick")[0], dim=30, per_cluster=3, test_points=1, max_branches=1)
    ]
}
SLOW = ("beyond/blind-attacks",)  # foolbox takes seconds


def task():
    w = torch.tensor([3.0, 4.0]).double()
    x = torch.tensor([[1.0, 1.0], [-2.0, 0.0]]).double()
    return AttackTask(LinearClassifier(w), x, torch.tensor([1.0, -1.0]).double(), 2.0)


def test_a_perturbation_counts_only_where_it_flips():
    linear = task()
    moved = linear.x + torch.tensor([[-3.0, 0.0], [1.0, 0.0]]).double()  # f: 7 → -2 flips, -6 → -3 does not
    assert verified_radius(linear, moved).tolist() == [3.0, math.inf]
    failing = answer_of(linear, "tool", "mode", lambda: 1 / 0)  # pyright: ignore[reportArgumentType]
    assert "ZeroDivisionError" in failing.error
    assert math.isnan(claimed(failing, torch.ones(2).double(), 2.0)["claimed_accuracy"])


def test_foolbox_answers_on_a_linear_classifier_are_near_the_exact_radius():
    pytest.importorskip("foolbox")
    exact = task().net.exact_radius(task().x, task().y)
    first = {(a.tool, a.mode): a for a in islice(answers(task()), 6)}  # L2PGD in four modes, DDN in two
    assert first["foolbox L2PGD", "single output"].error
    ddn = first["foolbox DDN", "tuned"].radius
    assert bool((ddn >= exact - 1e-6).all())
    torch.testing.assert_close(ddn, exact, rtol=0.02, atol=0)


def rows_with(ours_over_theirs, claimed):
    truth = {"kind": "truth", "median_gap": 0.01, "certified_half_radius": 2.0, "crown_half_radius": 1.0}
    answer = {"kind": "claimed", "tool": "foolbox L2PGD", "ours_over_theirs": ours_over_theirs, "error": ""}
    return Rows.gather(
        {"seed": seed, "network": network, **row}
        for seed in (0, 1)
        for network in ("pReLU", "feature averaging")
        for row in (
            truth,
            *({**answer, "mode": m, "claimed_accuracy": claimed} for m in ("defaults", "tuned")),
        )
    )


def test_claims_can_hold_and_fail():
    def verdicts(*args):
        return {v.claim.name: str(v.outcome) for v in BLIND_ATTACKS.judge(rows_with(*args))}

    assert verdicts(0.9, 1.0) == dict.fromkeys(("prelu-pgd", "prelu-pgd-tuned", "ours", "crown"), "holds")
    failing = [name for name, outcome in verdicts(1.01, 0.0).items() if outcome == "fails"]
    assert failing == ["prelu-pgd", "prelu-pgd-tuned", "ours"]


def test_the_answer_of_a_blind_tool_is_a_full_claim():
    nothing = Answer("tool", "defaults", torch.full((4,), math.inf).double())
    row = claimed(nothing, torch.ones(4).double(), 2.0)
    assert row["claimed_accuracy"] == 1.0
    assert row["ours_over_theirs"] == 0.0
