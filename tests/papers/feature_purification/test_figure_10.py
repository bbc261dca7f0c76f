"""Figure 10 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_10 import FIGURE_10
from papers.feature_purification.sizes import ASCENT, small

TINY = small(FIGURE_10, ASCENT, num=1)
