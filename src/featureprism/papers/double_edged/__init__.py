"""Frei, Vardi, Bartlett & Srebro, NeurIPS 2023; the paper has no experiments, these are of its theorems.

The paper scale: inside Assumption 2.2 d = 6000, k = 16, σ = 1/√d; outside d = 3072, k = 10, σ = 1, the sizes of feature-averaging.
"""

from featureprism.lab import Paper
from featureprism.papers.double_edged.assumption import ASSUMPTION_2_2
from featureprism.papers.double_edged.generalisation import THEOREM_3_1
from featureprism.papers.double_edged.initialisation import INITIALISATION
from featureprism.papers.double_edged.kkt import KKT
from featureprism.papers.double_edged.kkt_lab import KKT_LAB
from featureprism.papers.double_edged.many_clusters import MANY_CLUSTERS
from featureprism.papers.double_edged.robustness import THEOREM_4_1, THEOREM_4_2
from featureprism.papers.double_edged.universality import SCALING, TRANSFER

CITATION = (
    'Frei, Vardi, Bartlett & Srebro, "The Double-Edged Sword of Implicit Bias: Generalization vs. Robustness in ReLU Networks",'
    " NeurIPS 2023."
)
PAPER = Paper(
    "double-edged",
    CITATION,
    (
        KKT,
        KKT_LAB,
        THEOREM_3_1,
        THEOREM_4_1,
        THEOREM_4_2,
        INITIALISATION,
        TRANSFER,
        SCALING,
        MANY_CLUSTERS,
        ASSUMPTION_2_2,
    ),
)
