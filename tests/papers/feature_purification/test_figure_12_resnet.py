"""Figure 12 of a ResNet on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_12_resnet import FIGURE_12_RESNET
from papers.feature_purification.sizes import LASSO, small

TINY = small(FIGURE_12_RESNET, LASSO, num=1)
