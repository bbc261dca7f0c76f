"""Figure 7: perturbations before and after adversarial training."""

from typing import Any

from torch import Tensor

from featureprism.lab import Claim, Experiment, Rows, at_least
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_purification.image_setting import (
    RANDOM,
    SETS_ABOUT,
    ImageSetting,
    components,
    four,
    images_of,
    natural_gain,
    perturbations,
    pictures,
    scales,
)
from featureprism.probes.images import energy_share
from featureprism.zoo.files import share_weights

SHOWN = 6  # pictures in a figure


def amplified(delta: Tensor) -> Tensor:
    """Perturbations as pictures: grey is 0, the largest entry of each is black or white."""
    return 0.5 + 0.5 * delta / delta.flatten(1).abs().amax(dim=1).clamp_min(1e-12).reshape(-1, 1, 1, 1)


def measure(s: ImageSetting, seed: int, context: Context) -> list[Row]:
    """Perturbations of the clean and of the robust network, and their energy in the first principal components of images."""
    data = images_of(s, seed, context)
    x, nets = data.x_test, four(s, data, seed, context.within(0, 0.8))
    directions = components(data)
    natural = energy_share((x - data.x_train.mean(dim=0)).flatten(1), directions)
    rows: list[Row] = [{"kind": "alignment", "network": "images", "share": float(natural.mean())}]
    for name, net in nets.items():
        delta = perturbations(net, s, x, data.y_test, seed)
        energy = energy_share(delta.flatten(1), directions)
        rows.append({"kind": "alignment", "network": name, "share": float(energy.mean())})
        rows += pictures(name, amplified(delta[:SHOWN]))
    return rows + pictures("images", x[:SHOWN])


CLAIMS = (
    Claim(
        "aligned",
        source="Figure 7",
        says="Perturbations lie closer to images after adversarial training than after clean training or a control.",
        quantity="share of their energy in the first 10 % of the images' principal components, minus the largest of the other networks",
        bound=at_least(0.1),
        because="as much as noise without structure has in all",
        value=natural_gain("alignment", RANDOM),
    ),
)


def draw(rows: Rows) -> Any:
    """One sheet of pictures for each network."""
    from featureprism.papers.feature_purification.gallery import gallery

    return gallery(rows, columns=3, facts="alignment")


FIGURE_7 = Experiment(
    id="feature-purification/figure-7",
    source="Allen-Zhu & Li 2020, Figure 7",
    title="Perturbations before and after adversarial training",
    scales=scales(ImageSetting, quick={"test_images": 100, "test_steps": 10}),
    measure=measure,
    claims=CLAIMS,
    slow=True,
    shared_weights=share_weights,
    draw=draw,
    about=(
        "ℓ2 perturbations of radius 1 (PGD without noise) of a clean network and of one trained against ℓ2(1, 0.25)."
        " The number is the share"
        " of their energy in the first 10 % of the principal components of the training images; noise without structure has 0.1. "
        + SETS_ABOUT
    ),
)
