"""The three-stage procedure of Section 8.2, which shows purification in one layer at a time: figures 2 and 11."""

from copy import deepcopy
from dataclasses import asdict, replace
from math import nan
from typing import Any, NamedTuple

from torch import nn

from featureprism.data.images import ImageSet
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks.deep import restart_from
from featureprism.papers.feature_purification.exciting_images import LayerSetting
from featureprism.papers.feature_purification.image_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    CONTROL,
    MAIN,
    NOISE,
    RANDOM,
    SHIPPED_ABOUT,
    SIZES,
    WITHOUT_NOISE,
    S,
    accuracies,
    four,
    shipped,
    start,
    train_kept,
    trained,
)
from featureprism.probes.image_attacks import decided, margin_loss, noise_adversary, pgd_adversary, survivors
from featureprism.seeds import generator_for
from featureprism.training.images import Recipe

LAYERS = {"quick": (1, 2, 3, 4, 5), "standard": (5, 8, 11, 13), "paper": (9, 13, 17, 19, 21, 23, 25, 27, 29)}
ABOUT = (
    "A pre-activation ResNet is trained against ℓ2(1, 0.25); layers before one convolution are frozen, the rest is drawn anew and"
    " trained cleanly, then adversarially until clean and robust accuracy reach those of the first stage; both controls go on from the"
    f" clean network. {SHIPPED_ABOUT} There the whole AlexNet is trained, not one layer at a time."
)
PEEK = 100  # validation images that decide when stage 3 ends, under one short attack


def seen_at_a_glance(net: nn.Module, s: LayerSetting, held: ImageSet, seed: int) -> Row:
    """Clean and robust accuracy on a few validation images by one run of PGD: what an epoch of stage 3 is judged by."""
    attack = replace(s.training_attack(), steps=2 * s.train_steps)
    x, y = held.x_test[:PEEK], held.y_test[:PEEK]
    kept = survivors(net, x, y, attack, losses=(margin_loss,), generator=generator_for("glance", seed))
    return {"clean": float((decided(net, x) == y).double().mean()), "robust": float(kept.double().mean())}


class Stages(NamedTuple):
    """Networks at the start, after clean and adversarial training and after both controls; the first robust one; epochs of stage 3."""

    nets: dict[str, nn.Module]
    first: nn.Module | None = None  # the zoo has none
    epochs: int = 0


def stages_of(s: LayerSetting, data: ImageSet, seed: int, context: Context) -> Stages:
    """From the zoo, where the whole network was trained; by the three stages, one layer at a time, otherwise."""
    if not shipped(s, data, CLEAN):
        return three_stages(s, data, seed, context)
    return Stages({"start": start(s, data, seed), **four(s, data, seed, context.within(0, 0.9))})


def robust_after(stages: Stages, s: LayerSetting, data: ImageSet, seed: int) -> Row:
    """Robust accuracy after each stage under the strong attack: once for each, on test images."""
    attacker = MAIN if stages.first else WITHOUT_NOISE[MAIN]
    nets = {"stage_1": stages.first, "stage_2": stages.nets[CLEAN], "stage_3": stages.nets[RANDOM]}
    return {
        name: nan if net is None else accuracies(net, s, data, attacker, seed)["robust"]
        for name, net in nets.items()
    }


def three_stages(s: LayerSetting, data: ImageSet, seed: int, context: Context) -> Stages:
    """Stage 1: adversarial training; layers from `s.layer` on drawn anew; stage 2: clean; stage 3: adversarial training.

    Stage 3 ends after the epoch in which clean and robust accuracy on a few validation images, kept from training, reach those of
    stage 1; the controls go on from stage 2 for as many epochs.
    """
    part, held = _with_validation(s, data)
    robust = trained(part, held, seed, RANDOM, context.within(0, 0.4))
    known_by = {
        "layer": s.layer,
        "attack": asdict(s.training_attack()),
        "looked": [PEEK, s.train_steps],  # decide when stage 3 ends
    }

    def anew() -> nn.Module:
        return restart_from(deepcopy(robust), s.layer, generator=generator_for(f"layer {s.layer}", seed))

    def go(net: nn.Module, recipes: tuple[Recipe, ...], share: Context, **how: Any) -> nn.Module:
        return train_kept(net, part, held, recipes, seed, share, known_by, **how)

    goal, history = seen_at_a_glance(robust, s, held, seed), []
    recipes = (s.adversarial_recipe, s.clean_recipe)
    clean = go(anew(), recipes, context.within(0.4, 0.6))

    def from_clean(epochs: int, share: Context, training: str, **how: Any) -> nn.Module:
        net, recipe = anew(), replace(s.adversarial_recipe, epochs=epochs)
        net.load_state_dict(clean.state_dict())
        line = (*recipes, recipe)
        return train_kept(net, part, held, line, seed, share, {**known_by, "training": training}, **how)

    attack = s.training_attack()
    again = from_clean(
        s.adversarial_epochs,
        context.within(0.6, 0.85),
        RANDOM,
        adversary=pgd_adversary(attack),
        watch=lambda net: seen_at_a_glance(net, s, held, seed),
        history=history,
        until=lambda row: row["clean"] >= goal["clean"] and row["robust"] >= goal["robust"],
    )
    as_long = len(history)
    controls = {
        CONTROL: from_clean(as_long, context.within(0.85, 0.9), CONTROL),
        NOISE: from_clean(as_long, context.within(0.9, 0.95), NOISE, adversary=noise_adversary(attack)),
    }
    return Stages({"start": anew(), CLEAN: clean, **controls, RANDOM: again}, robust, as_long)


def _with_validation(s: LayerSetting, data: ImageSet) -> tuple[LayerSetting, ImageSet]:
    """The training images with the last of them in place of the test images, and the setting for so many."""
    num = len(data.x_train) - min(s.test_images, len(data.x_train) // 4)
    x, y = data.x_train, data.y_train
    return replace(s, train_images=num), ImageSet(x[:num], y[:num], x[num:], y[num:], data.source)


def layer_scales(kind: type[S], **changes: Row) -> dict[str, list[S]]:
    """One unit for each layer: AlexNet's at quick, those of pre-activation ResNets else."""
    small = {"epochs": 4, "adversarial_epochs": 4, "test_images": 100, "test_steps": 10}
    sizes: dict[str, Row] = {
        "quick": ALEXNET | ALEXNET_QUICK | small,
        "standard": {},
        "paper": {
            "epochs": 50,
            "adversarial_epochs": 50,
            "milestones": (40,),
        },  # footnote 17: T = 50; 40, 90, 140
    }
    return {
        scale: [
            kind(**(SIZES[scale] | size | changes.get(scale, {}) | {"layer": layer}))
            for layer in LAYERS[scale]
        ]
        for scale, size in sizes.items()
    }
