"""Figure 9 on AlexNet: clean training brings the mixtures back."""

from copy import deepcopy
from dataclasses import asdict
from typing import Any

from torch import nn

from featureprism.data.images import ImageSet
from featureprism.lab import Experiment, Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_purification.filters import longest_filters, smoothness
from featureprism.papers.feature_purification.image_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    FROM_CLEAN,
    MAIN,
    SHIPPED_ABOUT,
    WITHOUT_NOISE,
    ImageSetting,
    accuracies,
    images_of,
    pictures,
    scales,
    shipped,
    start,
    train_kept,
    trained,
)
from featureprism.probes.image_attacks import pgd_adversary

START, AGAIN, STILL = "start", "clean again", "adversarial again"
SHORT: Row = {"train_images": 2500, "finetune_epochs": 3, "train_steps": 1, "test_images": 100}


def measure(s: ImageSetting, seed: int, context: Context) -> list[Row]:
    """AlexNet at the start, after clean and after adversarial training; and after clean and more adversarial epochs from there."""
    data = images_of(s, seed, context)
    robust = trained(s, data, seed, FROM_CLEAN, context.within(0, 0.5))
    attacker = WITHOUT_NOISE[MAIN] if shipped(s, data, FROM_CLEAN) else MAIN
    nets = {
        START: start(s, data, seed),
        CLEAN: trained(s, data, seed, CLEAN, context),
        FROM_CLEAN: robust,
        AGAIN: _go_on(robust, AGAIN, s, data, seed, context.within(0.5, 0.65)),
        STILL: _go_on(
            robust,
            STILL,
            s,
            data,
            seed,
            context.within(0.65, 0.95),
            adversary=pgd_adversary(s.training_attack(attacker)),
        ),
    }
    rows: list[Row] = []
    for name, net in nets.items():
        reached = accuracies(net, s, data, WITHOUT_NOISE[MAIN], seed)
        rows.append({"kind": "filters", "network": name, "share": smoothness(net, data), **reached})
        rows += pictures(name, longest_filters(net))
    return rows


def _go_on(
    net: nn.Module, name: str, s: ImageSetting, data: ImageSet, seed: int, context: Context, **how: Any
) -> nn.Module:
    """More epochs from the weights of a robust network."""
    line = (s.clean_recipe, s.finetune_recipe, s.finetune_recipe)
    known_by = {"training": name, "attack": asdict(s.training_attack())}
    return train_kept(deepcopy(net), s, data, line, seed, context, known_by, **how)


def draw(rows: Rows) -> Any:
    """One sheet of pictures for each network."""
    from featureprism.papers.feature_purification.gallery import gallery

    return gallery(rows, columns=4, facts="filters")


FIGURE_9_ALEXNET = Experiment(
    id="feature-purification/figure-9-alexnet",
    source="Allen-Zhu & Li 2020, Figure 9",
    title="Does clean training bring the mixtures back?",
    scales=scales(ImageSetting, every=ALEXNET, quick=ALEXNET_QUICK | SHORT),
    measure=measure,
    claims=(),
    slow=True,
    draw=draw,
    about=(
        "From the robust weights (pure features) clean training goes on, and beside it, for as many epochs, adversarial training."
        f" {SHIPPED_ABOUT}"
    ),
)
