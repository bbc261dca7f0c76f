"""The density of perturbations."""

import pytest

from featureprism.papers.feature_purification.perturbation_density import PERTURBATION_DENSITY
from papers.feature_purification.sizes import BATTERY, small, values

TINY = small(PERTURBATION_DENSITY, BATTERY)


def test_perturbations_are_as_sparse_as_points():
    setting = {"seed": 0, "dim": 100, "sparsity": 5, "large": 1.0, "small": 1.0}
    spread = {"kind": "density", "stage": "adversarial", "participation": 0.12, **setting}
    assert values(PERTURBATION_DENSITY, "after", [spread]) == pytest.approx([2.0])
