"""Allen-Zhu & Li, "Feature Purification: How Adversarial Training Performs Robust Deep Learning", 2020; the synthetic side."""

from featureprism.papers.feature_purification.baselines import BASELINES, FIGURE_3
from featureprism.papers.feature_purification.features import DENSE_MIXTURE, FIGURE_8, FIGURE_9
from featureprism.papers.feature_purification.fooling import (
    ATTACKERS,
    GRADIENT_MASKING,
    L_INFINITY,
    PERTURBATION_DENSITY,
    TRANSFER,
)
from featureprism.papers.feature_purification.purification import PURIFICATION, STRICT
from featureprism.papers.feature_purification.reconstruction import SPARSE_RECONSTRUCTION

EXPERIMENTS = (
    PURIFICATION,
    FIGURE_3,
    FIGURE_8,
    FIGURE_9,
    DENSE_MIXTURE,
    PERTURBATION_DENSITY,
    SPARSE_RECONSTRUCTION,
    TRANSFER,
    BASELINES,
    L_INFINITY,
    ATTACKERS,
    STRICT,
    GRADIENT_MASKING,
)

__all__ = ["EXPERIMENTS"]
