"""Table 1 on scikit-learn's digits."""

from featureprism.papers.feature_purification.image_setting import MAIN
from featureprism.papers.feature_purification.table_1 import TABLE_1
from papers.feature_purification.sizes import IMAGES, small

TINY = {TABLE_1.id: [s for s in small(TABLE_1, IMAGES)[TABLE_1.id] if s.attacker in (MAIN, "l2 1")]}
