"""What the networks of the zoo are worth, on scikit-learn's digits."""

import pytest

from featureprism.lab import Rows
from featureprism.papers.feature_purification.image_setting import CLEAN, CONTROL, NOISE, RANDOM
from featureprism.papers.feature_purification.zoo import ZOO
from papers.feature_purification.sizes import IMAGES, small

TINY = small(ZOO, IMAGES)


def test_the_zoo_is_judged_by_the_family_that_gains_less():
    robust = {"alexnet": (0.02, 0.03, 0.01, 0.3), "wrn-10-1": (0.0, 0.1, 0.0, 0.25)}
    rows = Rows.gather(
        {
            "kind": "worth",
            "seed": 0,
            "network": network,
            "training": training,
            "accuracy": 0.7,
            "robust": share,
        }
        for network, shares in robust.items()
        for training, share in zip((CLEAN, CONTROL, NOISE, RANDOM), shares, strict=True)
    )
    claims = {c.name: c.value(rows)[0] for c in ZOO.claims}
    assert claims == pytest.approx(
        {"accuracy-alexnet": 0.7, "accuracy-wrn-10-1": 0.7, "robust": 0.25, "control": 0.15, "noise": 0.25}
    )
