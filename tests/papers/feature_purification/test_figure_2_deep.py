"""Figure 2 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_2_deep import FIGURE_2_DEEP
from papers.feature_purification.sizes import IMAGES, small

TINY = small(FIGURE_2_DEEP, IMAGES, num=1)
