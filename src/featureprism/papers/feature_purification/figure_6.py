"""Figure 6: deep features, decaying to black."""

from typing import Any

from featureprism.lab import Claim, Experiment, Rows, at_least
from featureprism.papers.feature_purification.exciting_images import (
    ASCENT_ABOUT,
    FeatureSetting,
    measure_features,
    sizes,
)
from featureprism.papers.feature_purification.image_setting import MAIN, SETS_ABOUT, natural_gain, scales
from featureprism.zoo.files import share_weights

CLAIMS = (
    Claim(
        "purer",
        source="Figure 6",
        says="Pictures that excite neurons lie closer to images after adversarial training than after clean training or a control.",
        quantity="share of their energy in the first 10 % of the images' principal components, minus the largest of the other networks",
        bound=at_least(0.05),
        because="noise without structure has a share of 0.1; half of that is a change that one sees",
        value=natural_gain("features", MAIN),
    ),
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
    claims=CLAIMS,
    slow=True,
    shared_weights=share_weights,
    draw=draw,
    about=ASCENT_ABOUT + SETS_ABOUT,
)
