"""The dense mixture at a size that runs in a second."""

from featureprism.papers.feature_purification.dense_mixture import DENSE_MIXTURE
from papers.feature_purification.sizes import BATTERY, small

TINY = small(DENSE_MIXTURE, BATTERY)
