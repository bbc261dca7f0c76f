"""Certificates at a size that runs in a second."""

from featureprism.papers.feature_purification.certified import CERTIFIED
from papers.feature_purification.sizes import SPARSER, small

TINY = small(CERTIFIED, SPARSER | {"max_cells": 2})
