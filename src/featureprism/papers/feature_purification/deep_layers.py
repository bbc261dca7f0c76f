"""Figures 2 and 11: the three-stage procedure, which shows purification in one layer at a time (Section 8.2)."""

from copy import deepcopy
from dataclasses import asdict, replace
from math import nan
from typing import Any, NamedTuple

import torch
from torch import nn

from featureprism.attacks.images import decided, margin_loss, noise_adversary, pgd_adversary, survivors
from featureprism.context import Context
from featureprism.data.images import ImageSet
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_least, at_most
from featureprism.networks.deep import conv_layers, restart_from
from featureprism.papers.feature_purification.deep_features import (
    ASCENT,
    SHARE,
    Ascent,
    Layer,
    closer_to_images,
    exciting,
    features,
)
from featureprism.papers.feature_purification.deep_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    CLEAN,
    CONTROL,
    CONTROL_CLAIMS,
    CONTROL_TOLD,
    CONTROLS,
    MAIN,
    NOISE,
    RANDOM,
    SHIPPED_ABOUT,
    SIZES,
    WITHOUT_NOISE,
    S,
    accuracies,
    components,
    foretell,
    four,
    images_of,
    over_controls,
    shipped,
    start,
    train_kept,
    trained,
    weights_told,
)
from featureprism.probes.images import layer_cosines
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.training.images import Recipe
from featureprism.zoo import share_weights

PAIRS = (("start", CLEAN), ("start", RANDOM), (CLEAN, RANDOM), (CLEAN, CONTROL), (CLEAN, NOISE))
LAYERS = {"quick": (1, 2, 3, 4, 5), "standard": (5, 8, 11, 13), "paper": (9, 13, 17, 19, 21, 23, 25, 27, 29)}


DIFFERENT = "different neurons"  # of the clean network
PEEK = 100  # validation images that decide when stage 3 ends, under one short attack


def seen_at_a_glance(net: nn.Module, s: Layer, held: ImageSet, seed: int) -> Row:
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


def stages_of(s: Layer, data: ImageSet, seed: int, context: Context) -> Stages:
    """From the zoo, where the whole network was trained; by the three stages, one layer at a time, otherwise."""
    if not shipped(s, data, CLEAN):
        return three_stages(s, data, seed, context)
    return Stages({"start": start(s, data, seed), **four(s, data, seed, context.within(0, 0.9))})


def robust_after(stages: Stages, s: Layer, data: ImageSet, seed: int) -> Row:
    """Robust accuracy after each stage under the strong attack: once for each, on test images."""
    attacker = MAIN if stages.first else WITHOUT_NOISE[MAIN]
    nets = {"stage_1": stages.first, "stage_2": stages.nets[CLEAN], "stage_3": stages.nets[RANDOM]}
    return {
        name: nan if net is None else accuracies(net, s, data, attacker, seed)["robust"]
        for name, net in nets.items()
    }


def three_stages(s: Layer, data: ImageSet, seed: int, context: Context) -> Stages:
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


def _with_validation(s: Layer, data: ImageSet) -> tuple[Layer, ImageSet]:
    """The training images with the last of them in place of the test images, and the setting for so many."""
    num = len(data.x_train) - min(s.test_images, len(data.x_train) // 4)
    x, y = data.x_train, data.y_train
    return replace(s, train_images=num), ImageSet(x[:num], y[:num], x[num:], y[num:], data.source)


def measure_2(s: Layer, seed: int, context: Context) -> list[Row]:
    """θ between the neurons of one layer at the start, after clean and after adversarial training."""
    data = images_of(s, seed, context)
    stages = stages_of(s, data, seed, context)
    layers = {name: conv_layers(net)[s.layer - 1] for name, net in stages.nets.items()}
    cosines = {f"{a}, {b}": layer_cosines(layers[a], layers[b]) for a, b in PAIRS}
    weight = nn.functional.normalize(layers[CLEAN].weight.detach().cpu().flatten(1), dim=1)
    cosines[DIFFERENT] = (weight @ weight.T).abs()[~torch.eye(len(weight), dtype=torch.bool)]
    return [
        {"kind": "stages", **robust_after(stages, s, data, seed), "stage_3_epochs": stages.epochs},
        *(
            {"kind": "theta", "pair": pair, "median": float(c.median()), "mean": float(c.mean())}
            for pair, c in cosines.items()
        ),
    ]


def measure_11(s: Ascent, seed: int, context: Context) -> list[Row]:
    """The pictures that excite the neurons of one layer at the start, after clean and after adversarial training."""
    data = images_of(s, seed, context)
    directions = components(data)
    return [
        row
        for name, net in stages_of(s, data, seed, context).nets.items()
        for row in features(name, exciting(net, s, data, seed), directions)
    ]


def theta(rows: Rows, first: str, second: str) -> Values:
    """Median θ of the neurons at two stages, seed by seed; the mean over layers."""
    return rows.of("theta", pair=f"{first}, {second}").mean("median")


def _stages(rows: Rows) -> str:
    stages = rows.of("stages")
    if not len(stages):
        return ""
    reached = {i: stages.column(f"stage_{i}").mean() for i in (1, 2, 3)}
    told = ", ".join(f"stage {i} {value:.2f}" for i, value in reached.items() if value == value)
    return f"robust accuracy: {told}{weights_told(rows)}"


SOURCE = "feature-purification, Figure 2"
CLAIMS_2 = (
    Claim(
        "same-feature",
        SOURCE,
        "median θ(w, w') of a layer's neurons after clean and after adversarial training",
        lambda rows: theta(rows, CLEAN, RANDOM),
        at_least(0.8),
        reported=0.8,
        note=_stages,
    ),
    Claim(
        "new-feature",
        SOURCE,
        "median θ(w⁰, w) of a layer's neurons at the start and after clean training",
        lambda rows: theta(rows, "start", CLEAN),
        at_most(0.2),
        reported=0.2,
        note=_stages,
    ),
    Claim(
        "new-feature-robust",
        SOURCE,
        "median θ(w⁰, w') of a layer's neurons at the start and after adversarial training",
        lambda rows: theta(rows, "start", RANDOM),
        at_most(0.2),
        reported=0.2,
        note=_stages,
    ),
    Claim(
        "pairs",
        SOURCE,
        "median θ(w_i, w_j) of different neurons of a layer after clean training",
        lambda rows: rows.of("theta", pair=DIFFERENT).mean("median"),
        at_most(0.2),
        reported=0.2,
    ),
    Claim(
        "order",
        SOURCE,
        "θ(w, w') minus θ(w⁰, w): training changes more than purification does",
        lambda rows: theta(rows, CLEAN, RANDOM) - theta(rows, "start", CLEAN),
        above(0.0),
    ),
    *(
        Claim(
            name,
            SOURCE,
            f"θ(w, w') after {CONTROL_TOLD[control]} minus after adversarial training: what turns the neurons is the adversary",
            lambda rows, control=control: theta(rows, CLEAN, control) - theta(rows, CLEAN, RANDOM),
            above(0.0),
            "featureprism",
            note=_stages,
        )
        for name, control in CONTROL_CLAIMS.items()
    ),
)


def _scales(kind: type[S], **changes: Row) -> dict[str, list[S]]:
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


ABOUT = (
    "A pre-activation ResNet is trained against ℓ2(1, 0.25); layers before one convolution are frozen, the rest is drawn anew and"
    " trained cleanly, then adversarially until clean and robust accuracy reach those of the first stage; both controls go on from the"
    f" clean network. {SHIPPED_ABOUT} There the whole AlexNet is trained, not one layer at a time."
)
FIGURE_2_DEEP = Experiment(
    id="feature-purification/figure-2-deep",
    source=SOURCE,
    title="How far training and purification turn the neurons of one layer",
    scales=_scales(Layer),
    measure=measure_2,
    claims=CLAIMS_2,
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(RANDOM, CLEAN, RANDOM, *CONTROLS),
    about=ABOUT + " θ is the absolute cosine between the weights of one neuron at two stages.",
)
FIGURE_11 = Experiment(
    id="feature-purification/figure-11",
    source="feature-purification, Figure 11",
    title="Features of one layer: random, clean, robust",
    scales=_scales(Ascent, **{scale: {"ascent": steps} for scale, steps in ASCENT.items()}),
    measure=measure_11,
    claims=(
        closer_to_images("closer-to-images", "feature-purification, Figure 11", RANDOM),
        *over_controls("features", "feature-purification, Figure 11", SHARE),
    ),
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(RANDOM, CLEAN, RANDOM, *CONTROLS),
    about=ABOUT + " Pictures by plain gradient ascent, decaying to grey.",
)
