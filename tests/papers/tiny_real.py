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
from featureprism.records import RadiusBracket

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
        "double_edged.initialisation",
    ):
        monkeypatch.setattr(f"featureprism.papers.{module}.margin_radius", quick_bracket)
    monkeypatch.setattr("featureprism.heads.compare.LEAST_STEPS", 20)
    monkeypatch.setattr("featureprism.heads.scored.head_radius", free_bracket)
    monkeypatch.setattr("featureprism.papers.feature_averaging.embedding_heads.margin_radius", free_bracket)


TINY: dict[str, list] = {
    experiment.id: [replace(experiment.settings("quick")[0], **changes)] for experiment, changes in CHANGES
}
