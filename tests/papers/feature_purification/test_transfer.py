"""Transfer at a size that runs in a second."""

from featureprism.papers.feature_purification.transfer import TRANSFER
from papers.feature_purification.sizes import BATTERY, small

TINY = small(TRANSFER, BATTERY)
