"""Figure 4: images from few robust features."""

from typing import Any

from featureprism.lab import Experiment, Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks.deep import conv_layers
from featureprism.papers.feature_purification.image_setting import (
    SHIPPED_ABOUT,
    four,
    images_of,
    pictures,
)
from featureprism.papers.feature_purification.sparse_codes import ALEXNET_SCALES, LassoSetting, sparsest
from featureprism.probes.sparse_images import filters_of

SHOWN = 6  # pictures in a figure


def measure(s: LassoSetting, seed: int, context: Context) -> list[Row]:
    """Images beside their sparse reconstructions by the first layer of the clean and the robust network and of both controls."""
    data = images_of(s, seed, context)
    nets, x = four(s, data, seed, context.within(0, 0.8)), data.x_test[:SHOWN]
    rows = pictures("images", x)
    for name, net in nets.items():
        used, back = sparsest(filters_of(conv_layers(net)[0], x.shape[-1]), x, s, seed)
        rows += [{"kind": "sparsity", "network": name, **used}, *pictures(name, back)]
    return rows


def draw(rows: Rows) -> Any:
    """One sheet of pictures for each network."""
    from featureprism.papers.feature_purification.gallery import gallery

    return gallery(rows, columns=3)


FIGURE_4 = Experiment(
    id="feature-purification/figure-4",
    source="Allen-Zhu & Li 2020, Figure 4",
    title="Images from few robust features",
    scales=ALEXNET_SCALES,
    measure=measure,
    claims=(),
    slow=True,
    draw=draw,
    about=(
        "The Lasso of figure-12 at the largest λ that is close enough: test images, and what the filters of each"
        " network give back. The paper"
        f" uses 4.05 % of the coefficients. {SHIPPED_ABOUT}"
    ),
)
