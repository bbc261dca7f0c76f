"""Figure 1: first-layer filters after clean and adversarial training."""

from typing import Any

from featureprism.lab import Experiment, Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_purification.filters import longest_filters, smoothness
from featureprism.papers.feature_purification.image_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    SHIPPED_ABOUT,
    ImageSetting,
    four,
    images_of,
    pictures,
    scales,
    start,
)


def measure(s: ImageSetting, seed: int, context: Context) -> list[Row]:
    """AlexNet's 11 × 11 filters at the start, after clean and after adversarial training; their share of smooth directions."""
    data = images_of(s, seed, context)
    nets = {"start": start(s, data, seed), **four(s, data, seed, context.within(0, 0.95))}
    rows: list[Row] = []
    for name, net in nets.items():
        rows.append({"kind": "filters", "network": name, "share": smoothness(net, data)})
        rows += pictures(name, longest_filters(net))
    return rows


def draw(rows: Rows) -> Any:
    """One sheet of pictures for each network."""
    from featureprism.papers.feature_purification.gallery import gallery

    return gallery(rows, columns=4, facts="filters")


FIGURE_1 = Experiment(
    id="feature-purification/figure-1",
    source="Allen-Zhu & Li 2020, Figure 1",
    title="First-layer filters after clean and adversarial training",
    scales=scales(ImageSetting, every=ALEXNET, quick=ALEXNET_QUICK),
    measure=measure,
    claims=(),
    slow=True,
    draw=draw,
    about=(
        "The longest of AlexNet's 64 filters (11 × 11): at the start, after clean training, and after adversarial"
        " training and both controls"
        " from there. The number is the share of the first layer's energy in the first 10 % of the principal components"
        " of image patches. " + SHIPPED_ABOUT
    ),
)
