"""Figure 13 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_13 import FIGURE_13
from papers.feature_purification.sizes import ASCENT, small

TINY = small(FIGURE_13, ASCENT, num=1)
