"""Tiny settings of the items on real data, for scikit-learn's digits: enough for every claim to have a value."""

from dataclasses import replace
from functools import partial

import torch

from featureprism.attacks import minimal_radius
from featureprism.certificates import margin_radius
from featureprism.certificates.interior import LOOK
from featureprism.networks import BinaryReadout
from featureprism.papers.feature_averaging.embedding_heads import EMBEDDING_HEADS
from featureprism.papers.feature_averaging.embeddings import FIGURE_2_EMBEDDINGS
from featureprism.papers.feature_averaging.embeddings import FIGURE_10 as EMBEDDED_CLASSES
from featureprism.papers.feature_averaging.images import FIGURE_3_CIFAR, FIGURE_3_MNIST
from featureprism.papers.feature_purification.deep_features import (
    FIGURE_1,
    FIGURE_5,
    FIGURE_6,
    FIGURE_10,
    FIGURE_13,
)
from featureprism.papers.feature_purification.deep_layers import FIGURE_2_DEEP, FIGURE_11
from featureprism.papers.feature_purification.deep_perturbations import (
    FIGURE_4,
    FIGURE_7,
    FIGURE_12,
    FIGURE_12_RESNET,
)
from featureprism.papers.feature_purification.deep_table import TABLE_1
from featureprism.papers.feature_purification.deep_tickets import FIGURE_8_ALEXNET, FIGURE_9_ALEXNET
from featureprism.papers.feature_purification.deep_zoo import ZOO
from featureprism.records import RadiusBracket

DEEP = {
    "train_images": 40,
    "test_images": 8,
    "test_steps": 2,
    "epochs": 1,
    "adversarial_epochs": 1,
    "finetune_epochs": 1,
    "batch_size": 20,
    "factor": 0.05,
}
ASCENT = DEEP | {"ascent": 2}
LASSO = DEEP | {"lasso_images": 2, "lasso_steps": 15, "penalties": (0.2, 0.002)}
IMAGES = {"train_images": 256, "epochs": 8, "step_size": 0.05, "test_images": 12, "steps": 2}
IMAGES |= {"radii": (0.5, 1.0, 4.0)}
DESCENT = {"train_points": 200, "descent_steps": 5, "step_size": 1.0}
HEADS = {"train_points": 120, "held_points": 40, "test_points": 1, "width": 5, "epochs": 1}
HEADS |= {"decays": (1e-5,), "powers": (1.0, 3.0)}
CHANGES = (
    (FIGURE_2_EMBEDDINGS, DESCENT),
    (EMBEDDED_CLASSES, {"per_class": 8}),
    (EMBEDDING_HEADS, DESCENT | HEADS),
    (FIGURE_3_MNIST, IMAGES),
    (FIGURE_3_CIFAR, IMAGES),
    (TABLE_1, DEEP),
    (FIGURE_1, DEEP),
    (FIGURE_2_DEEP, DEEP),
    (FIGURE_4, LASSO),
    (FIGURE_5, DEEP),
    (FIGURE_6, ASCENT),
    (FIGURE_7, DEEP),
    (FIGURE_8_ALEXNET, DEEP),
    (FIGURE_9_ALEXNET, DEEP),
    (FIGURE_10, ASCENT),
    (FIGURE_11, ASCENT),
    (FIGURE_12, LASSO),
    (FIGURE_12_RESNET, LASSO),
    (FIGURE_13, ASCENT),
)


def free_bracket(net, x, _y, **_effort) -> RadiusBracket:
    """In place of brackets, which have their own tests and cost a second each: ten labels hold twice as far as two."""
    radius = 2.0 if isinstance(net, BinaryReadout) else 1.0
    return RadiusBracket(torch.full((len(x),), radius / 2).double(), torch.full((len(x),), radius).double())


def quick_bracket(net, x, y, **effort) -> RadiusBracket:
    """A bracket from two cells: looser, which is all the same to a tiny network."""
    return margin_radius(net, x, y, **effort | {"max_cells": 2})


def quicken(monkeypatch) -> None:
    """Brackets of little effort, which go through the same code; short trainings of heads and no brackets in "embeddings"."""
    for module in ("certificates.bracket", "papers.gmm_flow.propositions"):
        monkeypatch.setattr(
            f"featureprism.{module}.minimal_radius", partial(minimal_radius, rounds=1, steps=4)
        )
    monkeypatch.setattr("featureprism.attacks.boundary.SLIDES", 2)
    for steps in ("ROOT_STEPS", "CHILD_STEPS", "NEWTON_STEPS"):
        monkeypatch.setattr(f"featureprism.certificates.search.{steps}", LOOK + 2)
    for module in (
        "feature_averaging.setting",
        "double_edged.many_clusters",
        "double_edged.theorem_4_1",
        "double_edged.explored",
        "double_edged.initialisation",
    ):
        monkeypatch.setattr(f"featureprism.papers.{module}.margin_radius", quick_bracket)
    monkeypatch.setattr("featureprism.heads.compare.LEAST_STEPS", 20)
    monkeypatch.setattr("featureprism.heads.scored.head_radius", free_bracket)
    monkeypatch.setattr("featureprism.papers.feature_averaging.embedding_heads.margin_radius", free_bracket)


TINY: dict[str, list] = {
    experiment.id: [replace(experiment.settings("quick")[0], **changes)] for experiment, changes in CHANGES
} | {ZOO.id: [replace(family, **DEEP) for family in ZOO.settings("quick")]}
