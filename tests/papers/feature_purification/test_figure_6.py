"""Figure 6 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_6 import FIGURE_6
from papers.feature_purification.sizes import ASCENT, small

TINY = small(FIGURE_6, ASCENT, num=1)
