"""Figure 9 of AlexNet on scikit-learn's digits."""

from featureprism.papers.feature_purification.figure_9_alexnet import FIGURE_9_ALEXNET
from papers.feature_purification.sizes import IMAGES, small

TINY = small(FIGURE_9_ALEXNET, IMAGES, num=1)
