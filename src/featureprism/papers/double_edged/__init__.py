"""Frei, Vardi, Bartlett & Srebro, NeurIPS 2023; the paper has no experiments, these are of its theorems.

The paper scale: inside Assumption 2.2 d = 6000, k = 16, σ = 1/√d; outside d = 3072, k = 10, σ = 1, the sizes of feature-averaging.
"""

from pathlib import Path

from featureprism.lab import Paper
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.assumption_2_2 import ASSUMPTION_2_2
from featureprism.papers.double_edged.free_parameters import FREE_PARAMETERS
from featureprism.papers.double_edged.initialisation import INITIALISATION
from featureprism.papers.double_edged.kkt import KKT
from featureprism.papers.double_edged.many_clusters import MANY_CLUSTERS
from featureprism.papers.double_edged.not_clustered import NOT_CLUSTERED
from featureprism.papers.double_edged.phase import PHASE
from featureprism.papers.double_edged.samples import SAMPLES
from featureprism.papers.double_edged.scaling import SCALING
from featureprism.papers.double_edged.theorem_3_1 import THEOREM_3_1
from featureprism.papers.double_edged.theorem_4_1 import THEOREM_4_1
from featureprism.papers.double_edged.theorem_4_2 import THEOREM_4_2
from featureprism.papers.double_edged.transfer import TRANSFER

CITATION = (
    'Frei, Vardi, Bartlett & Srebro, "The Double-Edged Sword of Implicit Bias: Generalization vs. Robustness in ReLU Networks",'
    " NeurIPS 2023."
)
PAPER = Paper(
    "double-edged",
    CITATION,
    (
        KKT,
        THEOREM_3_1,
        SAMPLES,
        THEOREM_4_1,
        THEOREM_4_2,
        PHASE,
        FREE_PARAMETERS,
        SCALING,
        TRANSFER,
        INITIALISATION,
        MANY_CLUSTERS,
        NOT_CLUSTERED,
        ASSUMPTION_2_2,
    ),
    story=Path(__file__).with_name("story.md"),
    theorems=theory.THEOREMS,
)
