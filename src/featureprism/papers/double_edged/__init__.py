"""Frei, Vardi, Bartlett & Srebro, NeurIPS 2023.

"The Double-Edged Sword of Implicit Bias: Generalization vs. Robustness in ReLU Networks"; the paper has no experiments.
"""

from featureprism.papers.double_edged.assumption import ASSUMPTION_2_2
from featureprism.papers.double_edged.kkt import KKT, THEOREM_3_1
from featureprism.papers.double_edged.robustness import THEOREM_4_1, THEOREM_4_2
from featureprism.papers.double_edged.universality import SCALING, TRANSFER

EXPERIMENTS = (KKT, THEOREM_3_1, THEOREM_4_1, THEOREM_4_2, TRANSFER, SCALING, ASSUMPTION_2_2)

__all__ = ["EXPERIMENTS"]
