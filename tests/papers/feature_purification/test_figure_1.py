"""Figure 1 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_1 import FIGURE_1
from papers.feature_purification.sizes import IMAGES, small

TINY = small(FIGURE_1, IMAGES, num=1)
