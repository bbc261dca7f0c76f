"""What the items of double-edged measure, against known truths."""

from dataclasses import replace

import pytest
import torch

from featureprism.context import Context
from featureprism.experiment import Rows, fields_of
from featureprism.papers.double_edged.kkt import KKT
from featureprism.papers.double_edged.setting import Setting, clusters_of
from featureprism.papers.double_edged.universality import CLAIMS_SCALING, SCALING, NearestNeighbour
from featureprism.records import Dataset


def test_the_breaking_norm_follows_the_law():
    """σ = 1/√d at small d: the exact KKT point breaks at √(d/k), so the exponents are -1/2 and 1/2."""
    settings = [
        replace(s, dim=s.dim // 5, points=60, test_points=200)
        for s in SCALING.settings("quick")
        if s.case == "within"
    ]
    rows = Rows.gather(
        {"seed": 0, **fields_of(s), **row} for s in settings for row in SCALING.measure(s, 0, Context())
    )
    powers = {c.name: c.value(rows)[0] for c in CLAIMS_SCALING if c.name in ("exponent", "dimension")}
    assert powers == pytest.approx({"exponent": -0.5, "dimension": 0.5}, abs=0.04)


def test_what_every_kkt_point_satisfies(monkeypatch):
    """v_j² = ‖w_j‖² + b_j² and Σλ = ‖θ‖²/2 follow from the KKT conditions, with the solver's multipliers."""
    monkeypatch.setattr("featureprism.papers.double_edged.kkt.PATHS", {})
    for setting in KKT.settings("quick"):
        tiny = replace(setting, dim=100, points=60, iterations=1)
        row = KKT.measure(tiny, 0, Context())[0]
        assert row["kind"] == "solution"
        assert row["balance"] < 1e-9
        assert row["sum_gap"] < 1e-8


def test_the_three_cases_have_the_means_they_say():
    for made in (Setting.usual, Setting.on_sphere, Setting.within):
        clusters = clusters_of(made(50, 6), 0)
        gram = clusters.mu @ clusters.mu.T
        assert torch.diagonal(gram).tolist() == pytest.approx([50.0] * 6)
        apart = float(gram.fill_diagonal_(0).abs().max())
        assert (apart > 1) == (made == Setting.on_sphere)
        assert clusters.labels.tolist() == [1, 1, 1, -1, -1, -1]


def test_the_nearest_neighbour_by_hand():
    data = Dataset(
        torch.tensor([[0.0], [2.0]]).double(),
        torch.tensor([-1.0, 1.0]).double(),
        torch.tensor([0, 1]),
        torch.zeros(2, 1).double(),
    )
    assert NearestNeighbour(data)(torch.tensor([[0.9], [1.1]]).double()).tolist() == [-1.0, 1.0]
