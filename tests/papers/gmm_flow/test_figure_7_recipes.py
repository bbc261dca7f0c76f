from dataclasses import replace

import numpy as np

from featureprism.lab import Rows
from featureprism.papers.gmm_flow.figure_7_recipes import FIGURE_7_RECIPES

TINY = {
    "gmm-flow/figure-7-recipes": [
        replace(
            setting,
            dim=30,
            per_cluster=5,
            positive=2,
            negative=2,
            width=12,
            epochs=200,
            test_points=1,
        )
        for setting in FIGURE_7_RECIPES.settings("quick")[1::3]
    ]
}
SLOW = ("gmm-flow/figure-7-recipes",)  # trained and attacked as Figure 7 is
ROW = {"kind": "summary", "seed": 0, "step_size": 0.1}


def test_the_best_recipe_is_the_best_of_those_that_fitted():
    (claim,) = [c for c in FIGURE_7_RECIPES.claims if c.name == "prelu"]
    fitted = ROW | {"loss": "square", "half_radius": 0.6, "train_accuracy": 1.0}
    not_fitted = ROW | {"loss": "square", "half_radius": 0.7, "train_accuracy": 0.9}
    assert claim.value(Rows.gather([fitted, not_fitted])).tolist() == [0.6]
    assert np.isnan(claim.value(Rows.gather([not_fitted]))).all()


def test_losses_are_compared_only_where_every_network_fitted():
    (claim,) = [c for c in FIGURE_7_RECIPES.claims if c.name == "loss"]
    square = ROW | {"loss": "square", "half_radius": 0.6, "train_accuracy": 1.0}
    logistic = ROW | {"loss": "logistic", "half_radius": 0.7, "train_accuracy": 1.0}
    np.testing.assert_allclose(claim.value(Rows.gather([square, logistic])), [0.1])
    assert np.isnan(claim.value(Rows.gather([square, logistic | {"train_accuracy": 0.9}]))).all()
