"""Figure 6: deep features, decaying to black."""

from typing import Any

from featureprism.lab import Experiment, Rows
from featureprism.papers.feature_purification.exciting_images import (
    ASCENT_ABOUT,
    FeatureSetting,
    measure_features,
    sizes,
)
from featureprism.papers.feature_purification.image_setting import (
    SHIPPED_ABOUT,
    scales,
)


def draw(rows: Rows) -> Any:
    """One sheet of pictures for each network."""
    from featureprism.papers.feature_purification.gallery import gallery

    return gallery(rows, columns=4, facts="features")


FIGURE_6 = Experiment(
    id="feature-purification/figure-6",
    source="Allen-Zhu & Li 2020, Figure 6",
    title="Deep features, decaying to black",
    scales=scales(FeatureSetting, every={"towards": 0.0}, **sizes(7, 12, 27)),
    measure=measure_features,
    claims=(),
    slow=True,
    draw=draw,
    about=ASCENT_ABOUT + SHIPPED_ABOUT,
)
