"""The variants at a small size."""

from dataclasses import replace

from featureprism.papers.feature_purification.variants import VARIANTS
from papers.feature_purification.sizes import SPARSER, small

SHORT = SPARSER | {"dim": 16, "steps": 60, "adversarial_steps": 5, "test_points": 15, "bias_growth": 0.15}
TINY = {
    id: [replace(s, features=s.features // 4) for s in settings]
    for id, settings in small(VARIANTS, SHORT).items()
}
