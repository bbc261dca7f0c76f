"""Allen-Zhu & Li, "Feature Purification: How Adversarial Training Performs Robust Deep Learning", 2020; the synthetic side."""

from featureprism.papers.feature_purification.features import DENSE_MIXTURE, FIGURE_8, FIGURE_9
from featureprism.papers.feature_purification.purification import PURIFICATION, STRICT

EXPERIMENTS = (PURIFICATION, FIGURE_8, FIGURE_9, DENSE_MIXTURE, STRICT)

__all__ = ["EXPERIMENTS"]
