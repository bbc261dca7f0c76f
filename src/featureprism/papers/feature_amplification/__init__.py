"""Frei, Chatterji & Bartlett, "Random Feature Amplification: Feature Learning and Generalization in Neural Networks", JMLR 2023.

Figure 1 is the paper's only experiment; it has its printed sizes at every scale. The theorems print none: where their
premises count, the paper scale stays inside (A1)-(A7) for C = 16, with more points and dimensions than the standard one.
"""

from featureprism.lab import Paper
from featureprism.papers.feature_amplification.amplification import AMPLIFICATION
from featureprism.papers.feature_amplification.baselines import BASELINES
from featureprism.papers.feature_amplification.critical_constant import CRITICAL_C
from featureprism.papers.feature_amplification.feature_change import PROPOSITION_3_2
from featureprism.papers.feature_amplification.figure import FIGURE_1
from featureprism.papers.feature_amplification.linear import LINEAR
from featureprism.papers.feature_amplification.long_training import MEMORISATION, ROBUSTNESS
from featureprism.papers.feature_amplification.noise import LABEL_NOISE
from featureprism.papers.feature_amplification.rademacher import PROPOSITION_B_1
from featureprism.papers.feature_amplification.theorem import THEOREM_3_1

PAPER = Paper(
    "feature-amplification",
    str(__doc__),
    (
        FIGURE_1,
        THEOREM_3_1,
        AMPLIFICATION,
        PROPOSITION_3_2,
        PROPOSITION_B_1,
        CRITICAL_C,
        LABEL_NOISE,
        LINEAR,
        BASELINES,
        ROBUSTNESS,
        MEMORISATION,
    ),
)
