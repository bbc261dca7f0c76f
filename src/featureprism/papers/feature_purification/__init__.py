"""Allen-Zhu & Li, "Feature Purification: How Adversarial Training Performs Robust Deep Learning", FOCS 2021."""

from pathlib import Path

from featureprism.lab import Paper
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.attackers import ATTACKERS
from featureprism.papers.feature_purification.bias_schedule import BIAS_SCHEDULE
from featureprism.papers.feature_purification.certified import CERTIFIED
from featureprism.papers.feature_purification.demonstration import DEMONSTRATION
from featureprism.papers.feature_purification.dense_mixture import DENSE_MIXTURE
from featureprism.papers.feature_purification.figure_1 import FIGURE_1
from featureprism.papers.feature_purification.figure_2_deep import FIGURE_2_DEEP
from featureprism.papers.feature_purification.figure_3 import FIGURE_3
from featureprism.papers.feature_purification.figure_4 import FIGURE_4
from featureprism.papers.feature_purification.figure_5 import FIGURE_5
from featureprism.papers.feature_purification.figure_6 import FIGURE_6
from featureprism.papers.feature_purification.figure_7 import FIGURE_7
from featureprism.papers.feature_purification.figure_8 import FIGURE_8
from featureprism.papers.feature_purification.figure_8_alexnet import FIGURE_8_ALEXNET
from featureprism.papers.feature_purification.figure_9 import FIGURE_9
from featureprism.papers.feature_purification.figure_9_alexnet import FIGURE_9_ALEXNET
from featureprism.papers.feature_purification.figure_10 import FIGURE_10
from featureprism.papers.feature_purification.figure_11 import FIGURE_11
from featureprism.papers.feature_purification.figure_12 import FIGURE_12
from featureprism.papers.feature_purification.figure_12_resnet import FIGURE_12_RESNET
from featureprism.papers.feature_purification.figure_13 import FIGURE_13
from featureprism.papers.feature_purification.l_infinity import L_INFINITY
from featureprism.papers.feature_purification.linearisation import LINEARISATION
from featureprism.papers.feature_purification.lower_bounds import LOWER_BOUNDS
from featureprism.papers.feature_purification.mechanisms import MECHANISMS
from featureprism.papers.feature_purification.perturbation_density import PERTURBATION_DENSITY
from featureprism.papers.feature_purification.population import POPULATION
from featureprism.papers.feature_purification.purification import PURIFICATION
from featureprism.papers.feature_purification.scaling import SCALING
from featureprism.papers.feature_purification.table_1 import TABLE_1
from featureprism.papers.feature_purification.transfer import TRANSFER
from featureprism.papers.feature_purification.variants import VARIANTS

PAPER = Paper(
    "feature-purification",
    str(__doc__),
    (
        POPULATION,
        PURIFICATION,
        DEMONSTRATION,
        SCALING,
        FIGURE_3,
        FIGURE_8,
        FIGURE_9,
        DENSE_MIXTURE,
        PERTURBATION_DENSITY,
        TRANSFER,
        CERTIFIED,
        L_INFINITY,
        LOWER_BOUNDS,
        ATTACKERS,
        BIAS_SCHEDULE,
        VARIANTS,
        MECHANISMS,
        LINEARISATION,
        TABLE_1,
        FIGURE_1,
        FIGURE_2_DEEP,
        FIGURE_4,
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
        FIGURE_8_ALEXNET,
        FIGURE_9_ALEXNET,
        FIGURE_10,
        FIGURE_11,
        FIGURE_12,
        FIGURE_12_RESNET,
        FIGURE_13,
    ),
    story=Path(__file__).with_name("story.md"),
    theorems=theory.THEOREMS,
)
