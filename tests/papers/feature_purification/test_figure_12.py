"""Figure 12 on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_12 import FIGURE_12
from papers.feature_purification.sizes import LASSO, small

TINY = small(FIGURE_12, LASSO, num=1)
