"""Figure 10: deep features of clean and robust networks."""

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


FIGURE_10 = Experiment(
    id="feature-purification/figure-10",
    source="Allen-Zhu & Li 2020, Figure 10",
    title="Deep features of clean and robust networks",
    scales=scales(FeatureSetting, **sizes(5, 9, 19)),
    measure=measure_features,
    claims=(),
    slow=True,
    draw=draw,
    about=ASCENT_ABOUT + SHIPPED_ABOUT,
)
