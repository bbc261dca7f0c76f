"""Figures 2 and 11: the three-stage procedure, which shows purification in one layer at a time (Section 8.2)."""

from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import nn

from featureprism.attacks.images import pgd_adversary
from featureprism.context import Context
from featureprism.data.images import ImageSet
from featureprism.experiment import Claim, Experiment, Rows, Values, above, at_least, at_most
from featureprism.networks.deep import conv_layers, restart_from
from featureprism.papers.feature_purification.deep_features import (
    ASCENT,
    Ascent,
    Layer,
    closer_to_images,
    exciting,
    features,
)
from featureprism.papers.feature_purification.deep_setting import (
    CLEAN,
    MAIN,
    RANDOM,
    SIZES,
    S,
    accuracies,
    images_of,
    train_kept,
    trained,
)
from featureprism.probes.images import layer_cosines, principal_directions
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.training.images import Recipe

PAIRS = (("start", CLEAN), ("start", RANDOM), (CLEAN, RANDOM))
LAYERS = {"quick": (5, 7), "standard": (6, 10, 12, 14, 16), "paper": (9, 13, 17, 19, 21, 23, 25, 27, 29)}


def three_stages(s: Layer, data: ImageSet, seed: int, context: Context) -> tuple[dict[str, nn.Module], Row]:
    """Stage 1: adversarial training; layers from `s.layer` on drawn anew; stage 2: clean; stage 3: adversarial training.

    Stage 3 ends after the epoch in which clean and robust accuracy on validation images, kept from training, reach those of stage 1.
    Returns the three networks (start, clean, adversarial) and their robust accuracy on test images.
    """
    num = len(data.x_train) - min(s.test_images, len(data.x_train) // 4)
    part = replace(s, train_images=num)
    held = ImageSet(
        data.x_train[:num], data.y_train[:num], data.x_train[num:], data.y_train[num:], data.source
    )
    robust = trained(part, held, seed, RANDOM, context.within(0, 0.4))
    known_by = {
        "layer": s.layer,
        "attack": asdict(s.training_attack()),
        "looked": [s.test_images, s.test_steps, s.restarts],  # decide when stage 3 ends
    }

    def anew() -> nn.Module:
        return restart_from(deepcopy(robust), s.layer, generator=generator_for(f"layer {s.layer}", seed))

    def look(net: nn.Module) -> Row:
        found = accuracies(net, s, held, MAIN, seed)
        return {"clean": found["clean"], "robust": found["robust"]}

    def go(net: nn.Module, recipes: tuple[Recipe, ...], share: Context, **how: Any) -> nn.Module:
        return train_kept(net, part, held, recipes, seed, share, known_by, **how)

    goal, history = look(robust), []
    recipes = (s.adversarial_recipe, s.clean_recipe)
    clean, again = go(anew(), recipes, context.within(0.4, 0.6)), anew()
    again.load_state_dict(clean.state_dict())
    again = go(
        again,
        (*recipes, s.adversarial_recipe),
        context.within(0.6, 0.95),
        adversary=pgd_adversary(s.training_attack()),
        watch=look,
        history=history,
        until=lambda row: row["clean"] >= goal["clean"] and row["robust"] >= goal["robust"],
    )
    stages = {"stage_1": robust, "stage_2": clean, "stage_3": again}
    reached: Row = {name: accuracies(net, s, data, MAIN, seed)["robust"] for name, net in stages.items()}
    return {"start": anew(), CLEAN: clean, RANDOM: again}, reached | {"stage_3_epochs": len(history)}


def measure_2(s: Layer, seed: int, context: Context) -> list[Row]:
    """θ between the neurons of one layer at the start, after clean and after adversarial training."""
    nets, reached = three_stages(s, images_of(s, seed, context), seed, context)
    layers = {name: conv_layers(net)[s.layer - 1] for name, net in nets.items()}
    cosines = {f"{a}, {b}": layer_cosines(layers[a], layers[b]) for a, b in PAIRS}
    weight = nn.functional.normalize(layers[RANDOM].weight.detach().cpu().flatten(1), dim=1)
    cosines["different neurons"] = (weight @ weight.T).abs()[~torch.eye(len(weight), dtype=torch.bool)]
    return [
        {"kind": "stages", **reached},
        *(
            {"kind": "theta", "pair": pair, "median": float(c.median()), "mean": float(c.mean())}
            for pair, c in cosines.items()
        ),
    ]


def measure_11(s: Ascent, seed: int, context: Context) -> list[Row]:
    """The pictures that excite the neurons of one layer at the start, after clean and after adversarial training."""
    data = images_of(s, seed, context)
    nets, _ = three_stages(s, data, seed, context)
    directions = principal_directions(data.x_train.flatten(1), share=0.1)
    return [
        row for name, net in nets.items() for row in features(name, exciting(net, s, data, seed), directions)
    ]


def theta(rows: Rows, first: str, second: str) -> Values:
    """Median θ of the neurons at two stages, seed by seed; the mean over layers."""
    return rows.of("theta", pair=f"{first}, {second}").mean("median")


def _stages(rows: Rows) -> str:
    stages = rows.of("stages")
    reached = (f"{stages.column(f'stage_{i}').mean():.2f}" for i in (1, 2, 3))
    return f"robust accuracy of the stages: {', '.join(reached)}"


SOURCE = "feature-purification, Figure 2"
CLAIMS_2 = (
    Claim(
        "same-feature",
        SOURCE,
        "median θ(w, w') of a layer's neurons after clean and after adversarial training",
        lambda rows: theta(rows, CLEAN, RANDOM),
        at_least(0.8),
        note=_stages,
    ),
    Claim(
        "new-feature",
        SOURCE,
        "median θ(w⁰, w) of a layer's neurons at the start and after clean training",
        lambda rows: theta(rows, "start", CLEAN),
        at_most(0.2),
    ),
    Claim(
        "new-feature-robust",
        SOURCE,
        "median θ(w⁰, w') of a layer's neurons at the start and after adversarial training",
        lambda rows: theta(rows, "start", RANDOM),
        at_most(0.2),
    ),
    Claim(
        "order",
        SOURCE,
        "θ(w, w') minus θ(w⁰, w): training changes more than purification does",
        lambda rows: theta(rows, CLEAN, RANDOM) - theta(rows, "start", CLEAN),
        above(0.0),
    ),
)


def _scales(kind: type[S], **changes: Row) -> dict[str, list[S]]:
    """Pre-activation ResNets, one unit for each layer."""
    small = {"epochs": 4, "adversarial_epochs": 4, "test_images": 100, "test_steps": 10}
    sizes: dict[str, Row] = {
        "quick": {"network": "preact-resnet-10", **small},
        "standard": {"network": "preact-resnet-18"},
        "paper": {"network": "preact-resnet-34", "epochs": 50, "adversarial_epochs": 50},  # footnote 17
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
    " trained cleanly, then adversarially until clean and robust accuracy reach those of the first stage."
)
FIGURE_2_DEEP = Experiment(
    id="feature-purification/figure-2-deep",
    source=SOURCE,
    title="How far training and purification turn the neurons of one layer",
    scales=_scales(Layer),
    measure=measure_2,
    claims=CLAIMS_2,
    long=True,
    about=ABOUT + " θ is the absolute cosine between the weights of one neuron at two stages.",
)
FIGURE_11 = Experiment(
    id="feature-purification/figure-11",
    source="feature-purification, Figure 11",
    title="Features of one layer: random, clean, robust",
    scales=_scales(Ascent, **{scale: {"ascent": steps} for scale, steps in ASCENT.items()}),
    measure=measure_11,
    claims=(closer_to_images("closer-to-images", "feature-purification, Figure 11", RANDOM),),
    long=True,
    about=ABOUT + " Pictures by plain gradient ascent, decaying to grey.",
)
