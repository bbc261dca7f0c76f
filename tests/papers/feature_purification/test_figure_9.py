"""Figure 9 at a size that runs in a second."""

from featureprism.papers.feature_purification.figure_9 import FIGURE_9
from papers.feature_purification.sizes import BATTERY, small

TINY = small(FIGURE_9, BATTERY)
