"""Figure 11 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_11 import FIGURE_11
from papers.feature_purification.sizes import ASCENT, small

TINY = small(FIGURE_11, ASCENT, num=1)
