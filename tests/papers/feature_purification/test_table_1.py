"""Table 1 on scikit-learn's digits."""

from featureprism.papers.feature_purification.table_1 import TABLE_1
from papers.feature_purification.sizes import IMAGES, small

TINY = small(TABLE_1, IMAGES, num=1)
