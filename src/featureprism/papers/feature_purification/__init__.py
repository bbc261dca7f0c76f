"""Allen-Zhu & Li, "Feature Purification: How Adversarial Training Performs Robust Deep Learning", 2020."""

from featureprism.lab import Paper
from featureprism.papers.feature_purification.adversaries import ATTACKERS, L_INFINITY
from featureprism.papers.feature_purification.baselines import BASELINES
from featureprism.papers.feature_purification.certified import CERTIFIED
from featureprism.papers.feature_purification.deep_features import (
    FIGURE_1,
    FIGURE_5,
    FIGURE_6,
    FIGURE_10,
    FIGURE_13,
)
from featureprism.papers.feature_purification.deep_layers import FIGURE_2_DEEP, FIGURE_11
from featureprism.papers.feature_purification.deep_perturbations import (
    FIGURE_4,
    FIGURE_7,
    FIGURE_12,
    FIGURE_12_RESNET,
)
from featureprism.papers.feature_purification.deep_table import TABLE_1
from featureprism.papers.feature_purification.deep_tickets import FIGURE_8_ALEXNET, FIGURE_9_ALEXNET
from featureprism.papers.feature_purification.deep_zoo import ZOO
from featureprism.papers.feature_purification.inside import INSIDE
from featureprism.papers.feature_purification.linearisation import LINEARISATION
from featureprism.papers.feature_purification.lower_bounds import LOWER_BOUNDS
from featureprism.papers.feature_purification.mechanisms import MECHANISMS
from featureprism.papers.feature_purification.mixtures import DENSE_MIXTURE, FIGURE_9
from featureprism.papers.feature_purification.perturbations import (
    GRADIENT_MASKING,
    PERTURBATION_DENSITY,
    TRANSFER,
)
from featureprism.papers.feature_purification.purification import PURIFICATION
from featureprism.papers.feature_purification.real_codes import REAL_CODES
from featureprism.papers.feature_purification.reconstruction import SPARSE_RECONSTRUCTION
from featureprism.papers.feature_purification.scaling import SCALING
from featureprism.papers.feature_purification.schedule import BIAS_SCHEDULE
from featureprism.papers.feature_purification.shortcut import LINEAR_SHORTCUT
from featureprism.papers.feature_purification.thresholds import FIGURE_3
from featureprism.papers.feature_purification.tickets import FIGURE_8
from featureprism.papers.feature_purification.variants import VARIANTS_ITEM

PAPER = Paper(
    "feature-purification",
    str(__doc__),
    (
        PURIFICATION,
        INSIDE,
        SCALING,
        BIAS_SCHEDULE,
        LINEAR_SHORTCUT,
        FIGURE_3,
        FIGURE_8,
        FIGURE_9,
        DENSE_MIXTURE,
        PERTURBATION_DENSITY,
        SPARSE_RECONSTRUCTION,
        TRANSFER,
        BASELINES,
        L_INFINITY,
        ATTACKERS,
        GRADIENT_MASKING,
        MECHANISMS,
        LINEARISATION,
        CERTIFIED,
        VARIANTS_ITEM,
        LOWER_BOUNDS,
        REAL_CODES,
        ZOO,
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
)
