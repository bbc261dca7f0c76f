"""Figure 4 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_4 import FIGURE_4
from papers.feature_purification.sizes import LASSO, small

TINY = small(FIGURE_4, LASSO, num=1)
