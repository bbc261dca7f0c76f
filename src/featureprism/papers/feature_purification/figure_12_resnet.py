"""Figure 12 on a ResNet: sparse reconstruction by the filters of its first layer."""

from featureprism.lab import Experiment
from featureprism.papers.feature_purification.image_setting import (
    RESNETS,
    SHIPPED_ABOUT,
    scales,
)
from featureprism.papers.feature_purification.sparse_codes import (
    LASSO_ABOUT,
    LassoSetting,
    draw_paths,
    measure_paths,
)

FIGURE_12_RESNET = Experiment(
    id="feature-purification/figure-12-resnet",
    source="Allen-Zhu & Li 2020, Figure 12",
    title="Sparse reconstruction by a ResNet's first layer",
    scales=scales(
        LassoSetting, quick={"zoo": RESNETS, "train_images": 3000, "lasso_images": 10, "lasso_steps": 60}
    ),
    measure=measure_paths,
    claims=(),
    slow=True,
    draw=draw_paths,
    about=f"The filters (3 × 3) of a wide ResNet's first layer. {LASSO_ABOUT} {SHIPPED_ABOUT}",
)
