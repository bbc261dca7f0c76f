"""Min & Vidal, "Gradient Flow Provably Learns Robust Classifiers for Orthonormal GMMs", ICML 2025 (PMLR 267).

The paper scale has the printed sizes of Figures 2 and 7 (K = 12+8, D = 2000, 20 000 points, width 200) and of Figures 5 and 6
(K = 5+5, D = 1000, 5000 points, ε = 1e-7, step 0.2). The theorem, the propositions and Appendices A, F and G print none: there N and D
are α⁻² and more wherever Theorem 1 asks for it, ε = α^(8K), and α goes as far down as such flows stay affordable.
"""

from pathlib import Path

from featureprism.lab import Paper
from featureprism.papers.gmm_flow import theory
from featureprism.papers.gmm_flow.alignment import ALIGNMENT
from featureprism.papers.gmm_flow.figure_2 import FIGURE_2
from featureprism.papers.gmm_flow.figure_2_one_start import FIGURE_2_ONE_START
from featureprism.papers.gmm_flow.figure_4 import FIGURE_4
from featureprism.papers.gmm_flow.figure_5 import FIGURE_5
from featureprism.papers.gmm_flow.figure_6 import FIGURE_6
from featureprism.papers.gmm_flow.figure_7 import FIGURE_7
from featureprism.papers.gmm_flow.figure_7_recipes import FIGURE_7_RECIPES
from featureprism.papers.gmm_flow.losses import LOSSES
from featureprism.papers.gmm_flow.propositions import PROPOSITIONS
from featureprism.papers.gmm_flow.shared_neurons import SHARED_NEURONS
from featureprism.papers.gmm_flow.theorem_1 import THEOREM_1

PAPER = Paper(
    "gmm-flow",
    str(__doc__),
    (
        PROPOSITIONS,
        FIGURE_2,
        FIGURE_2_ONE_START,
        THEOREM_1,
        FIGURE_4,
        ALIGNMENT,
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
        FIGURE_7_RECIPES,
        SHARED_NEURONS,
        LOSSES,
    ),
    story=Path(__file__).with_name("story.md"),
    theorems=theory.THEOREMS,
)
