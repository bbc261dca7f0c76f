"""One module per paper: its figures and theorems as experiments."""

from featureprism.papers import (
    beyond,
    double_edged,
    feature_amplification,
    feature_averaging,
    feature_purification,
    gmm_flow,
)
from featureprism.records import Experiment

PAPERS: dict[str, tuple[Experiment, ...]] = {
    "gmm-flow": gmm_flow.EXPERIMENTS,
    "feature-averaging": feature_averaging.EXPERIMENTS,
    "feature-purification": feature_purification.EXPERIMENTS,
    "feature-amplification": feature_amplification.EXPERIMENTS,
    "double-edged": double_edged.EXPERIMENTS,
    "beyond": beyond.EXPERIMENTS,
}

__all__ = ["PAPERS"]
