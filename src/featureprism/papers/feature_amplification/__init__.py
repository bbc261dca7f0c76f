"""Frei, Chatterji & Bartlett, "Random Feature Amplification: Feature Learning and Generalization in Neural Networks", JMLR 2023."""

from featureprism.papers.feature_amplification.amplification import (
    AMPLIFICATION,
    PROPOSITION_3_2,
    THEOREM_3_1,
)
from featureprism.papers.feature_amplification.figure import FIGURE_1, MEMORISATION, ROBUSTNESS
from featureprism.papers.feature_amplification.noise import LABEL_NOISE, LINEAR

EXPERIMENTS = (
    FIGURE_1,
    THEOREM_3_1,
    AMPLIFICATION,
    PROPOSITION_3_2,
    LABEL_NOISE,
    LINEAR,
    ROBUSTNESS,
    MEMORISATION,
)

__all__ = ["EXPERIMENTS"]
