"""Min & Vidal, "Gradient Flow Provably Learns Robust Classifiers for Orthonormal GMMs", ICML 2025 (PMLR 267)."""

from featureprism.experiment import Paper
from featureprism.papers.gmm_flow.alignment import ALIGNMENT
from featureprism.papers.gmm_flow.dynamics import FIGURE_4, FIGURE_5, FIGURE_6
from featureprism.papers.gmm_flow.losses import LOSSES
from featureprism.papers.gmm_flow.metrics import METRICS
from featureprism.papers.gmm_flow.propositions import PROPOSITIONS
from featureprism.papers.gmm_flow.recipes import FIGURE_2_ONE_START, FIGURE_7_RECIPES
from featureprism.papers.gmm_flow.robustness import FIGURE_2, FIGURE_7
from featureprism.papers.gmm_flow.theorem import THEOREM_1

PAPER = Paper(
    "gmm-flow",
    str(__doc__),
    (
        FIGURE_2,
        FIGURE_2_ONE_START,
        FIGURE_4,
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
        FIGURE_7_RECIPES,
        THEOREM_1,
        ALIGNMENT,
        LOSSES,
        PROPOSITIONS,
        METRICS,
    ),
)
