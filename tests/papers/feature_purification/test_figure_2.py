"""Figure 2 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_2 import FIGURE_2
from papers.feature_purification.sizes import IMAGES, small

TINY = small(FIGURE_2, IMAGES)
