"""Frei, Chatterji & Bartlett, "Random Feature Amplification: Feature Learning and Generalization in Neural Networks", JMLR 2023.

Figure 1 is the paper's only experiment; it has its printed sizes at every scale. The theorems print none: where their
premises count, the paper scale stays inside (A1)-(A7) for C = 16, with more points and dimensions than the standard one.
"""

from pathlib import Path

from featureprism.lab import Paper
from featureprism.papers.feature_amplification.amplification import AMPLIFICATION
from featureprism.papers.feature_amplification.baselines import BASELINES
from featureprism.papers.feature_amplification.critical_c import CRITICAL_C
from featureprism.papers.feature_amplification.figure_1 import FIGURE_1
from featureprism.papers.feature_amplification.label_noise import LABEL_NOISE
from featureprism.papers.feature_amplification.linear import LINEAR
from featureprism.papers.feature_amplification.memorisation import MEMORISATION
from featureprism.papers.feature_amplification.orthogonality import ORTHOGONALITY
from featureprism.papers.feature_amplification.proposition_3_2 import PROPOSITION_3_2
from featureprism.papers.feature_amplification.theorem_3_1 import THEOREM_3_1
from featureprism.papers.feature_amplification.theory import THEOREMS

PAPER = Paper(
    "feature-amplification",
    str(__doc__),
    (
        FIGURE_1,
        THEOREM_3_1,
        AMPLIFICATION,
        ORTHOGONALITY,
        PROPOSITION_3_2,
        BASELINES,
        CRITICAL_C,
        LABEL_NOISE,
        LINEAR,
        MEMORISATION,
    ),
    story=Path(__file__).with_name("story.md"),
    theorems=THEOREMS,
)
