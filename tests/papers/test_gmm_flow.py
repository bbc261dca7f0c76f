"""What the claims of gmm-flow read off rows, on rows whose law is known; and Lemma 1, which no classifier can escape."""

import math
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch

from featureprism.context import Context
from featureprism.experiment import Outcome, Rows, fields_of
from featureprism.papers.gmm_flow import PAPER
from featureprism.papers.gmm_flow.dynamics import mass_law_error, steps_to_align
from featureprism.papers.gmm_flow.propositions import Contest, measure
from featureprism.papers.gmm_flow.robustness import FIGURE_7, Curve, half_radius
from featureprism.papers.gmm_flow.window import Window, measure_window
from featureprism.records import Row
from featureprism.report.figures import draw
from featureprism.theory.gmm_flow import nominal_mass, proposition_1
from featureprism.theory.gmm_flow_phases import unequal_radius


def test_radii_are_withheld_when_the_attack_fails_its_self_test():
    row = {"kind": "summary", "seed": 0, "model": "relu", "half_radius": 0.3}
    good = {**row, "self_test_passed": True, "train_accuracy": 1.0}
    assert half_radius(Rows.gather([good]), "relu") == [0.3]
    for flaw in ({"self_test_passed": False}, {"train_accuracy": 0.99}):
        assert math.isnan(half_radius(Rows.gather([good | flaw]), "relu")[0])


def test_known_laws_are_recovered():
    law = [{"seed": 0, "cluster": 0, "time": t / 10, "mass": nominal_mass(1e-4, t / 10)} for t in range(100)]
    assert mass_law_error(Rows.gather(law)) < 1e-9
    assert mass_law_error(Rows.gather({**row, "mass": row["mass"] ** 2} for row in law)) > 0.05
    steps = [{"kind": "step", "seed": 0, "start": "a", "step": t, "alignment": 1 - 0.5**t} for t in range(10)]
    assert steps_to_align(Rows.gather(steps), "a") == [7]  # 1 - 2⁻⁷ = 0.992


@pytest.mark.parametrize(
    "classifier", ["bayes", "nearest cluster", "F^(p)", "linear", "random pReLU", "constant"]
)
def test_no_classifier_has_less_robust_error_than_proposition_1_says(classifier):
    """True for every classifier and draw of the noise (Lemma 1), so it tests the attack and not the paper."""
    setting = Contest(
        classifier=classifier, dim=40, positive=3, negative=2, per_cluster=1, exact_points=5, noise_draws=4
    )
    (error,) = [row for row in measure(setting, 0, Context()) if row["kind"] == "error"]
    assert error["midpoint_error"] >= proposition_1(setting) - 1e-12
    assert error["robust_error"] >= error["midpoint_error"] - 1e-12
    assert error["least_lemma_1_count"] >= 2
    if classifier == "constant":  # the bound is tight
        assert error["robust_error"] == pytest.approx(proposition_1(setting))


@pytest.mark.parametrize("experiment", PAPER.experiments, ids=lambda e: e.item)
def test_every_item_has_the_three_scales(experiment):
    assert list(experiment.scales) == ["quick", "standard", "paper"]
    assert all(experiment.scales.values())


def test_a_network_that_diverges_is_not_measured():
    """It has no radius, its item is judged all the same, and the figure is drawn without it."""
    size: dict[str, Any] = {
        "dim": 10,
        "per_cluster": 5,
        "test_points": 2,
        "epochs": 3,
        "max_cells": 1,
        "width": 5,
    }
    settings = [
        Curve(model=model, positive=2, negative=2, step_size=step, **size)
        for model, step in (("polynomial large", 1e6), ("prelu large", 0.1))
    ]
    rows = Rows.gather(
        {**fields_of(s), "seed": 0, **row} for s in settings for row in FIGURE_7.measure(s, 0, Context())
    )
    (diverged,) = rows.having(model="polynomial large")
    assert diverged["ended"] == "DIVERGED"
    outcomes = {verdict.id: verdict.outcome for verdict in FIGURE_7.judge(rows)}
    assert outcomes["figure-7.large-init"] == Outcome.NOT_MEASURED
    plt.close(draw(FIGURE_7, rows))


def test_the_border_between_centres_of_unequal_norms():
    """Where (a/r)^p = (b/r')^p in the plane of both centres, by a fine line search."""
    norms, labels = torch.tensor([1.0, 0.6]).double(), torch.tensor([1.0, -1.0]).double()
    slope = torch.linspace(0, 3, 100_001).double()
    line = torch.stack([slope, 0.6 * slope], dim=1)  # a/1 = b/0.6
    for centre, radius in ((torch.tensor([1.0, 0.0]), 0), (torch.tensor([0.0, 0.6]), 1)):
        nearest = torch.linalg.vector_norm(line - centre.double(), dim=1).min()
        assert float(unequal_radius(norms, labels)[radius]) == pytest.approx(float(nearest), rel=1e-6)
    same = torch.ones(3).double()
    torch.testing.assert_close(unequal_radius(same, torch.tensor([1.0, 1.0, -1.0]).double()), same * 2**-0.5)


def test_two_draws_of_a_window_are_two_windows():
    """Suprema of both; the states along the way and the drawing are of the first."""
    one = Window(series="window", dim=20, per_cluster=10, alpha=0.2, num_times=3)
    apart = [measure_window(one, seed, Context()) for seed in (2, 3)]
    together = measure_window(replace(one, draws=2), 1, Context())
    assert _of_kind("sup", together) == [row for rows in apart for row in _of_kind("sup", rows)]
    assert _of_kind("window", together) == _of_kind("window", apart[0])
    assert len(together) == sum(map(len, apart)) - len(_of_kind("window", apart[1]))


def _of_kind(kind: str, rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]
