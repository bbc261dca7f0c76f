"""Allen-Zhu & Li, "Feature Purification: How Adversarial Training Performs Robust Deep Learning", 2020; the synthetic side."""

from featureprism.papers.feature_purification.purification import PURIFICATION, STRICT

EXPERIMENTS = (PURIFICATION, STRICT)

__all__ = ["EXPERIMENTS"]
