"""The mechanisms of the proofs at a small size."""

from featureprism.papers.feature_purification.mechanisms import MECHANISMS
from papers.feature_purification.sizes import SPARSER, small

TINY = small(MECHANISMS, SPARSER | {"points": 2000, "least_winners": 1})
