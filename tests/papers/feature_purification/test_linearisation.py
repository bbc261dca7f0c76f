"""Linearisation at a size that runs in a second."""

from featureprism.papers.feature_purification.linearisation import LINEARISATION
from papers.feature_purification.sizes import SPARSER, small

TINY = small(LINEARISATION, SPARSER | {"points": 60})
