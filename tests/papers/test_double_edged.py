"""Every item at a tiny size: the rows are complete, the claims judge them, the figure can be drawn."""

from dataclasses import replace

import pytest
import torch

from featureprism.papers import PAPERS
from featureprism.papers.double_edged.universality import NearestNeighbour, slopes
from featureprism.records import Dataset
from featureprism.report.figures import DRAWINGS
from featureprism.sweep import run

EXPERIMENTS = {e.id.split("/")[1]: e for e in PAPERS["double-edged"]}
TINY = {"points": 60, "test_points": 60, "width": 20, "iterations": 20, "steps": 60}
EXPECTED = {
    "kkt": {
        "stationarity",
        "feasibility",
        "slackness",
        "balance",
        "sum-gap",
        "fitted-stationarity",
        "trained-cosine",
        "trained-residual",
        "hard-residual",
        "threshold",
    },
    "theorem-3-1": {"error", "residual", "margin", "linear"},
    "theorem-4-1": {"radius", "certified", "promise", "margin"},
    "theorem-4-2": {"critical", "trained", "below", "above", "printed", "printed-output"},
    "transfer": {"kkt", "found", "norm", "nearest-neighbour"},
    "scaling": {"exponent", "usual", "dimension", "constant"},
    "assumption-2-2": {"holds", "a10", "a11", "a12", "d2", "d3", "d4", "sums", "usual", "outside"},
}


@pytest.mark.parametrize("item", EXPECTED)
def test_every_item_runs_is_judged_and_drawn(item, tmp_path):
    experiment = EXPERIMENTS[item]
    settings = [{**s, **TINY, "dim": s["dim"] // 10} for s in experiment.scales["quick"]]
    settings = [s | ({"radius_points": 2} if "radius_points" in s else {}) for s in settings]
    settings = [s | ({"variants": "20:0.1"} if "variants" in s else {}) for s in settings]
    result = run(replace(experiment, scales={"quick": settings}), "quick", [0], tmp_path)
    assert {c.id.removeprefix(f"{item}.") for c in result.claims} == EXPECTED[item]
    assert DRAWINGS[experiment.id](result.rows)


@pytest.mark.slow
def test_the_claims_hold_at_the_quick_scale(tmp_path):
    for item, experiment in EXPERIMENTS.items():
        result = run(experiment, "quick", [0, 1, 2], tmp_path)
        assert [c.id for c in result.claims if not c.holds] == [], item


def test_the_breaking_norm_follows_the_law(tmp_path):
    """σ = 1/√d at small d: the exact KKT point breaks at √(d/k), so the exponents are -1/2 and 1/2."""
    experiment = EXPERIMENTS["scaling"]
    settings = [
        {**s, "dim": s["dim"] // 5, "points": 60, "test_points": 200}
        for s in experiment.scales["quick"]
        if s["name"] == "within"
    ]
    rows = run(replace(experiment, scales={"quick": settings}), "quick", [0], tmp_path).rows
    assert slopes(rows, "clusters", "clusters", "within")[0] == pytest.approx(-0.5, abs=0.04)
    assert slopes(rows, "dimension", "dim", "within")[0] == pytest.approx(0.5, abs=0.04)


def test_the_nearest_neighbour_by_hand():
    data = Dataset(
        torch.tensor([[0.0], [2.0]]).double(),
        torch.tensor([-1.0, 1.0]).double(),
        torch.tensor([0, 1]),
        torch.zeros(2, 1).double(),
    )
    assert NearestNeighbour(data)(torch.tensor([[0.9], [1.1]]).double()).tolist() == [-1.0, 1.0]
