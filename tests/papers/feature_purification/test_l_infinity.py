"""The ℓ∞ ball at a size that runs in a second."""

from featureprism.papers.feature_purification.l_infinity import L_INFINITY
from papers.feature_purification.sizes import BATTERY, small

TINY = small(L_INFINITY, BATTERY)
