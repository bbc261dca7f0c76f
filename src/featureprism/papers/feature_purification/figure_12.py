"""Figure 12: sparse reconstruction of images and of perturbations by AlexNet's first layer."""

from featureprism.lab import Experiment
from featureprism.papers.feature_purification.image_setting import (
    SHIPPED_ABOUT,
)
from featureprism.papers.feature_purification.sparse_codes import (
    ALEXNET_SCALES,
    LASSO_ABOUT,
    draw_paths,
    measure_paths,
)

FIGURE_12 = Experiment(
    id="feature-purification/figure-12",
    source="Allen-Zhu & Li 2020, Figure 12",
    title="Sparse reconstruction of images and of perturbations",
    scales=ALEXNET_SCALES,
    measure=measure_paths,
    claims=(),
    slow=True,
    draw=draw_paths,
    about=f"The 64 filters (11 × 11) of AlexNet's first layer. {LASSO_ABOUT} {SHIPPED_ABOUT}",
)
