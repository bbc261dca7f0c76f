"""Every item at a tiny size: the rows are complete, the claims judge them, the figure can be drawn."""

import pytest
import torch

from featureprism.papers import PAPERS
from featureprism.papers.feature_amplification.amplification import change_slope
from featureprism.papers.feature_amplification.noise import best_linear, breakdown
from featureprism.report.figures import DRAWINGS
from featureprism.sweep import run

EXPERIMENTS = {e.id.split("/")[1]: e for e in PAPERS["feature-amplification"]}
TINY = {"points": 80, "width": 20, "test_points": 100}
OWN = {
    "figure-1": {"steps": 20},
    "robustness": {"steps": 20, "radius_points": 2, "max_cells": 2},
    "memorisation": {"steps": 120},
}
EXPECTED = {
    "figure-1": {"clean-wrong", "noisy-right", "test-error", "boundary", "constants"},
    "theorem-3-1": {
        "clean-wrong",
        "noisy-right",
        "clean-error",
        "leaning",
        "edges",
        "crossing",
        "expansion",
        "remainders",
        "norm",
        "subnetwork",
        "margin",
    },
    "amplification": {"before", "after", "alignment", "bound", "start"},
    "proposition-3-2": {"slope", "bound"},
    "label-noise": {"breakdown", "one-cluster", "boundary", "adversarial"},
    "linear": {"origin", "bias", "network"},
    "robustness": {"amplified", "proven", "long"},
    "memorisation": {"early", "high-dimension", "benign", "low-dimension", "harmful"},
}


@pytest.mark.parametrize("item", EXPECTED)
def test_every_item_runs_is_judged_and_drawn(item, tmp_path):
    experiment = EXPERIMENTS[item]
    settings = [{**s, **TINY, **OWN.get(item, {})} for s in experiment.scales["quick"]]
    small = type(experiment)(**{**experiment.__dict__, "scales": {"quick": settings}})
    result = run(small, "quick", [0], tmp_path)
    assert {c.id.removeprefix(f"{item}.") for c in result.claims} == EXPECTED[item]
    assert DRAWINGS[experiment.id](result.rows)


@pytest.mark.slow
def test_the_claims_hold_at_the_quick_scale(tmp_path):
    for item, experiment in EXPERIMENTS.items():
        result = run(experiment, "quick", [0, 1, 2], tmp_path)
        assert [c.id for c in result.claims if not c.holds] == [], item


def test_one_step_amplifies_in_any_dimension(tmp_path):
    small = EXPERIMENTS["amplification"]
    settings = [s for s in small.scales["quick"] if s["family"] == "dimension" and s["dim"] < 500]
    rows = run(
        type(small)(**{**small.__dict__, "scales": {"quick": settings}, "claims": lambda _: []}),
        "quick",
        [0],
        tmp_path,
    ).rows
    for r in rows:
        if r["kind"] == "summary":
            assert r["before"] / r["dim"] ** 0.5 < 0.12
            assert r["after"] > 0.6
            assert r["aligned_after"] >= 0.99


def test_the_best_threshold_is_found_by_brute_force(generator):
    x = torch.randn(60, 2, generator=generator).double()
    y = torch.where(x[:, 0] > 0.4, 1.0, -1.0).double()
    y[:3] = -y[:3]
    directions = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()
    w, threshold = best_linear(x, y, directions, bias=True)
    found = float((torch.where(x @ w > threshold, 1.0, -1.0) != y).double().mean())
    brute = min(
        float((torch.where(x @ v > t, 1.0, -1.0) != y).double().mean())
        for v in directions
        for t in (x @ v).tolist()
    )
    assert found == pytest.approx(brute)
    w, threshold = best_linear(x, y, directions, bias=False)
    assert w.tolist() == [1.0, 0.0]
    assert threshold == 0


def test_breakdown_and_slope():
    rows = [
        {"kind": "rate", "seed": 0, "noise": "constant", "rate": r, "clean_lost": lost}
        for r, lost in ((0.0, 0.0), (0.2, 0.005), (0.3, 0.2), (0.4, 0.5))
    ]
    assert breakdown(rows, "constant", 0) == 0.3
    assert breakdown(rows[:2], "constant", 0) == 0.2
    changes = [{"kind": "change", "seed": 0, "start": s, "change": 3 / s} for s in (0.1, 0.01, 0.001)]
    assert change_slope(changes, 0) == pytest.approx(-1.0)
