"""Figures 2 and 11: the three-stage procedure, which shows purification in one layer at a time (Section 8.2)."""

from copy import deepcopy
from dataclasses import asdict

import torch
from torch import nn

from featureprism.attacks.images import pgd_adversary
from featureprism.data.images import ImageSet
from featureprism.networks.deep import conv_layers, he_start
from featureprism.papers.feature_purification.deep_features import SHOWN, around_mean, features
from featureprism.papers.feature_purification.deep_setting import (
    CLEAN,
    MAIN,
    RANDOM,
    accuracies,
    between,
    differences,
    images_of,
    means,
    recipe_of,
    scales,
    trained,
    training_attack,
    weights_key,
)
from featureprism.probes.images import GREY, energy_share, layer_cosines, principal_directions
from featureprism.records import Claim, Experiment, Progress, Row, judge, picture, rows_of, silent
from featureprism.seeds import generator_for
from featureprism.training.images import checkpoint_for, train_images

PAIRS = (("start", CLEAN), ("start", RANDOM), (CLEAN, RANDOM))
PAPER_LAYERS = (9, 13, 17, 19, 21, 23, 25, 27, 29)


def restart_from(net: nn.Module, layer: int, *, generator: torch.Generator) -> nn.Module:
    """Freeze everything before the convolution number `layer` (from 1) and draw the rest anew, in place."""
    first = conv_layers(net)[layer - 1]
    reached = False
    for module in net.modules():
        reached = reached or module is first
        if next(module.children(), None) is not None:
            continue
        for weight in module.parameters():
            weight.requires_grad_(reached)
        if reached and isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
        elif reached:
            he_start(module, generator=generator)
    return net


def three_stages(
    setting: Row, data: ImageSet, seed: int, progress: Progress = silent
) -> tuple[dict[str, nn.Module], Row]:
    """Stage 1: adversarial training; layers from `setting["layer"]` on drawn anew; stage 2: clean; stage 3: adversarial training.

    Stage 3 ends after the epoch in which clean and robust accuracy on validation images, kept from training, reach those of stage 1.
    Returns the three networks (start, clean, adversarial) and their robust accuracy on test images.
    """
    layer, num = setting["layer"], len(data.x_train) - min(setting["test_images"], len(data.x_train) // 4)
    part = {**setting, "train_images": num}
    held = ImageSet(
        data.x_train[:num], data.y_train[:num], data.x_train[num:], data.y_train[num:], data.source
    )
    robust = trained(part, held, seed, RANDOM, progress=between(progress, 0, 0.4))

    def anew() -> nn.Module:
        return restart_from(deepcopy(robust), layer, generator=generator_for(f"layer {layer}", seed))

    def look(net: nn.Module) -> Row:
        told = accuracies(net, setting, held, MAIN, seed)
        return {"clean": told["clean"], "robust": told["robust"]}

    def go(net: nn.Module, epochs: tuple[str, ...], share: Progress, **how) -> nn.Module:
        recipes = [recipe_of(setting, name) for name in epochs]
        looked = [
            setting[name] for name in ("test_images", "test_steps", "restarts")
        ]  # decide when stage 3 ends
        attack = asdict(training_attack(setting, MAIN))
        key = weights_key(part, held, seed, *recipes, layer=layer, attack=attack, looked=looked)
        x, y, where = held.x_train, held.y_train, checkpoint_for(**key)
        return train_images(net, x, y, recipes[-1], seed=seed, checkpoint=where, progress=share, **how)

    goal = look(robust)
    clean = go(anew(), ("adversarial_epochs", "epochs"), between(progress, 0.4, 0.6))
    again, history = anew(), []
    again.load_state_dict(clean.state_dict())
    again = go(
        again,
        ("adversarial_epochs", "epochs", "adversarial_epochs"),
        between(progress, 0.6, 0.95),
        adversary=pgd_adversary(training_attack(setting, MAIN)),
        watch=look,
        history=history,
        until=lambda row: row["clean"] >= goal["clean"] and row["robust"] >= goal["robust"],
    )
    stages = {"stage_1": robust, "stage_2": clean, "stage_3": again}
    told: Row = {name: accuracies(net, setting, data, MAIN, seed)["robust"] for name, net in stages.items()}
    told["stage_3_epochs"] = len(history)
    return {"start": anew(), CLEAN: clean, RANDOM: again}, told


def measure_2(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """θ between the neurons of one layer at the start, after clean and after adversarial training."""
    data = images_of(setting, seed)
    nets, told = three_stages(setting, data, seed, progress)
    layers = {name: conv_layers(net)[setting["layer"] - 1] for name, net in nets.items()}
    rows: list[Row] = [{"kind": "stages", **told}]
    for first, second in PAIRS:
        theta = layer_cosines(layers[first], layers[second])
        rows.append(
            {
                "kind": "theta",
                "pair": f"{first}, {second}",
                "median": float(theta.median()),
                "mean": float(theta.mean()),
            }
        )
    weight = nn.functional.normalize(layers[RANDOM].weight.detach().cpu().flatten(1), dim=1)
    others = (weight @ weight.T).abs()[~torch.eye(len(weight), dtype=torch.bool)]
    rows.append(
        {
            "kind": "theta",
            "pair": "different neurons",
            "median": float(others.median()),
            "mean": float(others.mean()),
        }
    )
    return rows


def measure_11(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """The pictures that excite the neurons of one layer at the start, after clean and after adversarial training."""
    data = images_of(setting, seed)
    nets, _ = three_stages(setting, data, seed, progress)
    directions = principal_directions(data.x_train.flatten(1), share=0.1)
    rows: list[Row] = []
    for name, net in nets.items():
        shown = features(net, setting, tuple(data.x_train.shape[1:]), seed, GREY)
        share = float(energy_share(around_mean(shown), directions).mean())
        rows.append({"kind": "features", "network": name, "share": share})
        rows += [
            {"kind": "picture", "network": name, "index": i, **picture(image)}
            for i, image in enumerate(shown[:SHOWN])
        ]
    return rows


def _claims_2(rows: list[Row]) -> list[Claim]:
    source = "feature-purification, Figure 2"
    theta = rows_of(rows, "theta")
    stages = rows_of(rows, "stages")
    started, later, between_ = (means(theta, "median", pair=f"{a}, {b}") for a, b in PAIRS)
    robust = [sum(means(stages, f"stage_{i}")) / len(means(stages, f"stage_{i}")) for i in (1, 2, 3)]
    note = f"robust accuracy of the stages: {robust[0]:.2f}, {robust[1]:.2f}, {robust[2]:.2f}"
    return [
        judge(
            "figure-2-deep.same-feature",
            source,
            "median θ(w, w') of a layer's neurons after clean and after adversarial training",
            between_,
            ">=",
            0.8,
            note,
        ),
        judge(
            "figure-2-deep.new-feature",
            source,
            "median θ(w⁰, w) of a layer's neurons at the start and after clean training",
            started,
            "<=",
            0.2,
        ),
        judge(
            "figure-2-deep.new-feature-robust",
            source,
            "median θ(w⁰, w') of a layer's neurons at the start and after adversarial training",
            later,
            "<=",
            0.2,
        ),
        judge(
            "figure-2-deep.order",
            source,
            "θ(w, w') minus θ(w⁰, w): training changes more than purification does",
            differences(between_, started),
            ">",
            0.0,
        ),
    ]


def _claims_11(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "features")
    values = {name: means(found, "share", network=name) for name in ("start", CLEAN, RANDOM)}
    return [
        judge(
            "figure-11.closer-to-images",
            "feature-purification, Figure 11",
            "share of the energy of exciting pictures in the first 10 % of the images' principal components, robust minus clean",
            differences(values[RANDOM], values[CLEAN]),
            ">",
            0.0,
            ", ".join(f"{name} {sum(v) / len(v):.2f}" for name, v in values.items()),
        )
    ]


def _scales(**ascent: int) -> dict[str, list[Row]]:
    """Pre-activation ResNets, one unit for each layer."""
    layers = {"quick": (5, 7), "standard": (6, 10, 12, 14, 16), "paper": PAPER_LAYERS}
    base = scales(
        every={"network": "preact-resnet-18"},
        quick={
            "network": "preact-resnet-10",
            "epochs": 4,
            "adversarial_epochs": 4,
            "test_images": 100,
            "test_steps": 10,
        },
        paper={"network": "preact-resnet-34", "epochs": 50, "adversarial_epochs": 50},
    )
    return {
        scale: [
            {**row, "layer": layer, **({"ascent": ascent[scale]} if ascent else {})}
            for layer in layers[scale]
        ]
        for scale, (row,) in base.items()
    }


ABOUT = (
    "A pre-activation ResNet is trained against ℓ2(1, 0.25); layers before one convolution are frozen, the rest is drawn anew and"
    " trained cleanly, then adversarially until clean and robust accuracy reach those of the first stage."
)
FIGURE_2_DEEP = Experiment(
    id="feature-purification/figure-2-deep",
    source="feature-purification, Figure 2",
    title="How far training and purification turn the neurons of one layer",
    scales=_scales(),
    measure=measure_2,
    claims=_claims_2,
    long=True,
    about=ABOUT + " θ is the absolute cosine between the weights of one neuron at two stages.",
)
FIGURE_11 = Experiment(
    id="feature-purification/figure-11",
    source="feature-purification, Figure 11",
    title="Features of one layer: random, clean, robust",
    scales=_scales(quick=200, standard=500, paper=2000),
    measure=measure_11,
    claims=_claims_11,
    long=True,
    about=ABOUT + " Pictures by plain gradient ascent, decaying to grey.",
)
