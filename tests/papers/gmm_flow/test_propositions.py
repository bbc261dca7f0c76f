"""Lemma 1, which no classifier can escape, and the bounds of the propositions on small mixtures."""

from dataclasses import replace

import pytest

from featureprism.lab.context import Context
from featureprism.papers.gmm_flow.propositions import PROPOSITIONS, ClassifierOnMixture, measure
from featureprism.papers.gmm_flow.theory import proposition_1

TINY = {
    "gmm-flow/propositions": [
        replace(
            setting,
            alpha=0.01 if setting.classifier == "flow" else 0.1,  # where the bounds say something
            dim=60,
            per_cluster=20,
            exact_points=20,
            noise_draws=1,
            test_points=1,
            max_cells=1,
        )
        for setting in PROPOSITIONS.settings("quick")
    ]
}


@pytest.mark.parametrize(
    "classifier", ["bayes", "nearest cluster", "F^(p)", "linear", "random pReLU", "constant"]
)
def test_no_classifier_has_less_robust_error_than_proposition_1_says(classifier):
    setting = ClassifierOnMixture(
        classifier=classifier, dim=40, positive=3, negative=2, per_cluster=1, exact_points=5, noise_draws=4
    )
    (error,) = [row for row in measure(setting, 0, Context()) if row["kind"] == "error"]
    assert error["midpoint_error"] >= proposition_1(setting) - 1e-12
    assert error["robust_error"] >= error["midpoint_error"] - 1e-12
    assert error["least_lemma_1_count"] >= 2
    if classifier == "constant":  # the bound is tight
        assert error["robust_error"] == pytest.approx(proposition_1(setting))


@pytest.mark.parametrize(("classifier", "alpha"), [("bayes", 0.1), ("flow", 0.01)])
def test_no_point_falls_below_the_radii_of_propositions_2_and_3(classifier, alpha):
    setting = ClassifierOnMixture(
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
