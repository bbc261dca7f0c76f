"""Figure 13: deep features against four attackers."""

from typing import Any

from featureprism.lab import Experiment, Rows
from featureprism.papers.feature_purification.exciting_images import (
    ASCENT_ABOUT,
    FeatureSetting,
    measure_features,
    sizes,
)
from featureprism.papers.feature_purification.image_setting import (
    ATTACKERS,
    EVERY,
    SHIPPED_ABOUT,
    scales,
)

SIZES = sizes(7, 12, 27)
SIZES["quick"] |= {"zoo": EVERY}


def draw(rows: Rows) -> Any:
    """One sheet of pictures for each network."""
    from featureprism.papers.feature_purification.gallery import gallery

    return gallery(rows, columns=4, facts="features")


FIGURE_13 = Experiment(
    id="feature-purification/figure-13",
    source="Allen-Zhu & Li 2020, Figure 13",
    title="Deep features against four attackers",
    scales=scales(FeatureSetting, every={"attackers": tuple(ATTACKERS)}, **SIZES),
    measure=measure_features,
    claims=(),
    slow=True,
    draw=draw,
    about=ASCENT_ABOUT + SHIPPED_ABOUT,
)
