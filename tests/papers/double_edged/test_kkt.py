"""Theorem 2.1 at a small size."""

from dataclasses import replace

from featureprism.context import Context
from featureprism.papers.double_edged.kkt import KKT
from featureprism.papers.double_edged.setting import TrainingSetting

TINY = {"double-edged/kkt": [replace(TrainingSetting.usual(50, 4), points=30, test_points=20, iterations=5)]}


def test_what_every_kkt_point_satisfies(monkeypatch):
    """v_j² = ‖w_j‖² + b_j² and Σλ = ‖θ‖²/2 follow from the KKT conditions, with the solver's multipliers."""
    monkeypatch.setattr("featureprism.papers.double_edged.kkt.PATHS", {})
    for setting in KKT.settings("quick"):
        tiny = replace(setting, dim=100, points=60, iterations=1)
        row = KKT.measure(tiny, 0, Context())[0]
        assert row["kind"] == "solution"
        assert row["balance"] < 1e-9
        assert row["sum_gap"] < 1e-8
        assert row["stationarity"] < 1e-11
        assert row["fitted_stationarity"] < 1e-11
