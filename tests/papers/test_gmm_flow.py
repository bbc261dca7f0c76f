"""What the claims of gmm-flow read off rows, on rows whose law is known; and Lemma 1, which no classifier can escape."""

import math
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from featureprism.context import Context
from featureprism.lab import Outcome, Rows, fields_of
from featureprism.papers.gmm_flow import PAPER
from featureprism.papers.gmm_flow.alignment import ALIGNMENT
from featureprism.papers.gmm_flow.alignment_run import Phase, three_kinds
from featureprism.papers.gmm_flow.dynamics import FIGURE_5, mass_law_error, steps_to_align
from featureprism.papers.gmm_flow.metrics import Metrics
from featureprism.papers.gmm_flow.metrics import measure as measure_metrics
from featureprism.papers.gmm_flow.propositions import Contest, measure
from featureprism.papers.gmm_flow.recipes import FIGURE_7_RECIPES
from featureprism.papers.gmm_flow.robustness import FIGURE_7, Curve, half_radius
from featureprism.papers.gmm_flow.setting import mixture
from featureprism.papers.gmm_flow.window import Window, measure_window
from featureprism.probes import VOID, cosines
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


@pytest.mark.parametrize(("classifier", "alpha"), [("bayes", 0.1), ("flow", 0.01)])
def test_the_bounds_of_propositions_2_and_3_hold_with_room(classifier, alpha):
    """No point falls below the radius they speak of, so that they cannot fail by any sample."""
    setting = Contest(
        classifier=classifier,
        dim=60,
        positive=2,
        negative=2,
        alpha=alpha,
        per_cluster=20,
        exact_points=200,
        noise_draws=1,
        test_points=2,
        max_cells=1,
    )
    rows = [row for row in measure(setting, 0, Context()) if row["kind"].startswith("proposition")]
    bounds = [row for row in rows if not row["vacuous"]]
    assert bounds
    assert all(row["robust"] == 1.0 for row in bounds)


def test_the_nearest_cluster_rule_attains_the_bound_in_the_euclidean_metric_alone():
    """½‖μ_k - μ_l‖ without noise; never more with it."""
    for alpha, least in ((1e-6, 1 - 1e-5), (0.3, 0.9)):
        rows = measure_metrics(Metrics(dim=100, alpha=alpha, test_points=20), 0, Context())
        rule = {row["norm"]: row["rule"] for row in rows}
        assert least < rule["2"] <= 1 + 1e-9
        assert max(rule["1"], rule["inf"]) < 0.7


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_a_logarithm_is_told_from_a_power(scale):
    """t₁ at the α in use, by both laws: only the logarithm is O(ln 1/α)."""
    (claim,) = [c for c in ALIGNMENT.claims if c.name == "t1-order"]
    alphas = [s.alpha for s in ALIGNMENT.settings(scale) if s.series == "alpha"]
    for law, is_a_logarithm in ((lambda a: 1 - math.log(a) / 3, True), (lambda a: a**-0.25, False)):
        rows = Rows.gather(
            {"kind": "phase", "series": "alpha", "seed": 0, "log_inverse_alpha": -math.log(a), "t1": law(a)}
            for a in alphas
        )
        assert claim.bound.holds(float(claim.value(rows)[0])) == is_a_logarithm


def test_leaning_neurons_satisfy_assumption_2_but_not_the_bound_of_lemma_7():
    """|c_l|/c_k ≤ 1 - √(2Δ), (F.5), fails at the start for centres of the other class, and holds for those of the own class."""
    data = mixture(Phase(series="alpha", dim=30, per_cluster=5, alpha=0.1), 0)
    start = three_kinds(data, -10.0, 0)
    learned = start.region != VOID
    region, labels = start.region[learned], data.clusters.labels
    c = cosines(start.weights.directions, data.clusters.mu)[learned]
    ratio = c.abs() / c.gather(1, region.unsqueeze(1))
    ratio.scatter_(1, region.unsqueeze(1), 0.0)
    same = labels[region].unsqueeze(1) == labels
    bound = 1 - math.sqrt(2 * start.gap)
    assert start.gap > 0.02
    assert float(ratio[same].max()) < bound
    assert float(ratio[~same].max()) == pytest.approx(0.7 / 0.4)
    assert float(ratio[~same].max()) > 2 * bound


def test_a_distance_that_rises_again_has_not_converged():
    claims = {claim.name: claim for claim in FIGURE_5.claims}
    falls = {"distance": [1.0, 0.1, 0.05], "mean_square": [1.0, 0.11, 0.1]}
    rises = {"distance": [1.0, 0.05, 0.1], "mean_square": [1.0, 0.2, 0.1]}
    for course, holds in ((falls, True), (rises, False)):
        rows = Rows.gather(
            {"kind": "step", "start": "random", "seed": 0, "steps": 10, "step": step}
            | {name: values[i] for name, values in course.items()}
            for i, step in enumerate((0, 8, 10))
        )
        for name in ("loss", "distance"):
            assert claims[name].bound.holds(float(claims[name].value(rows)[0])) == holds


def test_the_best_recipe_is_the_best_of_those_that_fitted():
    (claim,) = [c for c in FIGURE_7_RECIPES.claims if c.name == "prelu"]
    row = {"kind": "summary", "seed": 0, "loss": "square", "step_size": 0.1}
    fitted, not_fitted = (
        {"half_radius": 0.6, "train_accuracy": 1.0},
        {"half_radius": 0.7, "train_accuracy": 0.9},
    )
    assert claim.value(Rows.gather([row | fitted, row | not_fitted])).tolist() == [0.6]
    assert np.isnan(claim.value(Rows.gather([row | not_fitted]))).all()


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
