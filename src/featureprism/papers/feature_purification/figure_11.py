"""Figure 11: features of one layer at the start, after clean and after adversarial training."""

from typing import Any

from featureprism.lab import Experiment, Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_purification.exciting_images import ASCENT, AscentSetting, exciting, features
from featureprism.papers.feature_purification.image_setting import (
    components,
    images_of,
)
from featureprism.papers.feature_purification.three_stages import ABOUT, layer_scales, stages_of


def measure(s: AscentSetting, seed: int, context: Context) -> list[Row]:
    """The pictures that excite the neurons of one layer at the start, after clean and after adversarial training."""
    data = images_of(s, seed, context)
    directions = components(data)
    return [
        row
        for name, net in stages_of(s, data, seed, context).nets.items()
        for row in features(name, exciting(net, s, data, seed), directions)
    ]


def draw(rows: Rows) -> Any:
    """One sheet of pictures for each network."""
    from featureprism.papers.feature_purification.gallery import gallery

    return gallery(rows, columns=4, facts="features", by="layer")


FIGURE_11 = Experiment(
    id="feature-purification/figure-11",
    source="Allen-Zhu & Li 2020, Figure 11",
    title="Features of one layer: random, clean, robust",
    scales=layer_scales(AscentSetting, **{scale: {"ascent": steps} for scale, steps in ASCENT.items()}),
    measure=measure,
    claims=(),
    slow=True,
    draw=draw,
    about=ABOUT + " Pictures by plain gradient ascent, decaying to grey.",
)
