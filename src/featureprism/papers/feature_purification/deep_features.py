"""Figures 1, 5, 6, 10 and 13: filters, activation sparsity, and the pictures that excite deep neurons."""

from dataclasses import dataclass
from itertools import combinations
from re import sub

import numpy as np
import torch
from torch import Tensor, nn

from featureprism.context import Context
from featureprism.data.images import ImageSet
from featureprism.lab import Claim, Experiment, Rows, Values, above, below
from featureprism.networks.deep import conv_layers
from featureprism.papers.feature_purification.deep_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    ATTACKERS,
    CLEAN,
    CONTROLS,
    EVERY,
    FOUR,
    FROM_CLEAN,
    MAIN,
    ONLY_CLEAN,
    RANDOM,
    SHIPPED_ABOUT,
    Setting,
    components,
    foretell,
    four,
    images_of,
    over_controls,
    pictures,
    scales,
    share,
    shares_told,
    start,
    train_kept,
    trained,
)
from featureprism.probes.images import (
    GREY,
    activation_shares,
    energy_share,
    exciting_images,
    principal_directions,
)
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.zoo import share_weights

SHOWN = 16  # filters or features of each network
BLACK = 0.0
FROM_ONE_CLEAN: Row = {  # where the zoo has not one network for each attacker
    **ALEXNET,
    **ALEXNET_QUICK,
    "zoo": ONLY_CLEAN,
    "train_images": 5000,
    "finetune_epochs": 2,
    "train_steps": 1,
}
FEW_EPOCHS = "Quick, on CIFAR-10: two epochs on 5000 images from one clean AlexNet of the zoo, against each attacker and as controls."
ASCENT = {"quick": 80, "standard": 500, "paper": 2000}  # gradient steps to a picture


@dataclass(frozen=True, kw_only=True)
class Layer(Setting):
    """One convolution is looked at, counted from 1 as in the paper."""

    layer: int


@dataclass(frozen=True, kw_only=True)
class Ascent(Layer):
    """Pictures that excite its neurons, by so many gradient steps that decay towards a colour."""

    ascent: int
    towards: float = GREY


@dataclass(frozen=True, kw_only=True)
class Features(Ascent):
    """Of the clean network, and of one trained against each of the attackers."""

    attackers: tuple[str, ...] = (MAIN,)


def stretched(images: Tensor) -> Tensor:
    """Each picture from black to white."""
    flat = images.flatten(1)
    low, high = (side.reshape(-1, 1, 1, 1) for side in (flat.amin(dim=1), flat.amax(dim=1)))
    return (images - low) / (high - low).clamp_min(1e-12)


def measure_1(s: Setting, seed: int, context: Context) -> list[Row]:
    """AlexNet's 11 × 11 filters at the start, after clean and after adversarial training; their share of smooth directions."""
    data = images_of(s, seed, context)
    nets = {"start": start(s, data, seed), **four(s, data, seed, context.within(0, 0.95))}
    rows: list[Row] = []
    for name, net in nets.items():
        rows.append({"kind": "filters", "network": name, "share": smoothness(net, data)})
        rows += pictures(name, longest_filters(net))
    return rows


def first_filters(net: nn.Module) -> Tensor:
    """The weights of the first convolution."""
    return conv_layers(net)[0].weight.detach().cpu()


def longest_filters(net: nn.Module) -> Tensor:
    """The longest filters of the first layer, as pictures."""
    weight = first_filters(net)
    lengths = torch.linalg.vector_norm(weight.flatten(1), dim=1)
    return stretched(weight[lengths.argsort(descending=True)[:SHOWN]])


def smoothness(net: nn.Module, data: ImageSet) -> float:
    """The first layer's share of energy in the first tenth of the principal components of patches of images."""
    weight = first_filters(net)
    directions = principal_directions(_patches(data.x_train[:1000], weight.shape[-1]), share=0.1)
    energy = weight.flatten(1).double().square().sum(dim=1)
    return float((energy_share(weight.flatten(1), directions) * energy).sum() / energy.sum())


def _patches(images: Tensor, size: int) -> Tensor:
    """Square patches of images, as rows, at a few places of each; whole images (padded) where they are smaller."""
    if images.shape[-1] < size:
        edge = size - images.shape[-1]
        images = nn.functional.pad(images, (edge // 2, edge - edge // 2) * 2)
    return images.unfold(2, size, 7).unfold(3, size, 7).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2)


def around_mean(images: Tensor) -> Tensor:
    """Pictures without their mean colour, as rows: how bright a picture is says nothing about its pattern."""
    return (images - images.mean(dim=(2, 3), keepdim=True)).flatten(1)


def exciting(net: nn.Module, s: Ascent, data: ImageSet, seed: int) -> Tensor:
    """Pictures that excite neurons of the layer, of the size of the images; of the last layer if there are fewer."""
    layers = conv_layers(net)
    layer = layers[min(s.layer, len(layers)) - 1]
    channels, height, width = data.x_train.shape[1:]
    return exciting_images(
        net,
        layer,
        torch.arange(min(SHOWN, layer.out_channels)),
        (channels, height, width),
        steps=s.ascent,
        towards=s.towards,
        generator=generator_for("exciting images", seed),
    )


def features(name: str, shown: Tensor, directions: Tensor) -> list[Row]:
    """The exciting pictures of a network, and their energy in the images' first principal components."""
    energy = energy_share(around_mean(shown), directions)
    return [{"kind": "features", "network": name, "share": float(energy.mean())}, *pictures(name, shown)]


def measure_features(s: Features, seed: int, context: Context) -> list[Row]:
    """Exciting pictures of the clean network, of both controls, and of robust networks."""
    data, rows = images_of(s, seed, context), []
    directions = components(data)
    plan = [(name, name, MAIN) for name in (CLEAN, *CONTROLS)]
    plan += [(attacker, FROM_CLEAN, attacker) for attacker in s.attackers]
    for index, (name, training, attacker) in enumerate(plan):
        part = context.within(index / len(plan), (index + 0.7) / len(plan))
        net = trained(s, data, seed, training, part, attacker)
        rows += features(name, exciting(net, s, data, seed), directions)
        context.progress((index + 1) / len(plan))
    return rows


def measure_5(s: Setting, seed: int, context: Context) -> list[Row]:
    """The share of positive ReLU outputs of every layer at the start and after each epoch of clean training."""
    data = images_of(s, seed, context)
    net, seen = start(s, data, seed), data.x_test

    def watch(model: nn.Module) -> Row:
        return {f"relu {i + 1}": positive for i, positive in enumerate(activation_shares(model, seen))}

    history: list[Row] = [{"epoch": 0, **watch(net)}]
    known_by = {"watched": len(seen)}
    train_kept(net, s, data, (s.clean_recipe,), seed, context, known_by, watch=watch, history=history)
    return [
        {"kind": "activation", "epoch": row["epoch"], "layer": int(name.split()[1]), "share": positive}
        for row in history
        for name, positive in row.items()
        if name != "epoch"
    ]


def sparsity(rows: Rows, when: str) -> Values:
    """Mean share of positive ReLU outputs of the deeper half of the layers, at the "start" or the "end" of training."""

    def value(own: Rows) -> float:
        epoch, layer = own.column("epoch"), own.column("layer")
        moment = epoch.max() if when == "end" else 0
        return own.column("share")[(epoch == moment) & (layer > layer.max() / 2)].mean()

    return rows.of("activation").per_seed(value)


SHARE = "share of the energy of exciting pictures in the first 10 % of the images' principal components"
BY_STRENGTH = (
    "l-infinity 4/255",
    "l2 (0.5, 0.12)",
    "l-infinity 8/255",
    "l2 (1, 0.25)",
)  # clean accuracy falls, Table 1
FILTERS = "share of the first layer's energy in the first 10 % of the principal components of image patches"
CLAIMS_1 = (
    Claim(
        "smoother",
        "feature-purification, Figure 1",
        f"{FILTERS}, robust minus clean",
        lambda rows: share(rows, "filters", RANDOM) - share(rows, "filters", CLEAN),
        above(0.0),
        note=shares_told("filters", "start", CLEAN, *CONTROLS, RANDOM),
    ),
    *over_controls("filters", "feature-purification, Figure 1", FILTERS),
)
CLAIMS_5 = (
    Claim(
        "sparser",
        "feature-purification, Figure 5",
        "share of ReLU outputs of the deeper half that are positive, after clean training ÷ at the start",
        lambda rows: sparsity(rows, "end") / sparsity(rows, "start"),
        below(1.0),
        note=lambda rows: (
            f"{sparsity(rows, 'start').mean():.2f} at the start, {sparsity(rows, 'end').mean():.2f} after it"
        ),
    ),
)


def closer_to_images(name: str, source: str, network: str) -> Claim:
    """The exciting pictures of a robust network have more of the images' principal components than those of the clean one."""
    return Claim(
        name,
        source,
        f"{SHARE}, {network} minus clean",
        lambda rows: share(rows, "features", network) - share(rows, "features", CLEAN),
        above(0.0),
        note=shares_told("features", CLEAN, *CONTROLS, network),
    )


def order_of_strength(rows: Rows) -> Values:
    """Kendall's τ between the attackers, from weak to strong, and the shares of the networks trained against them."""
    shares = [share(rows, "features", attacker) for attacker in BY_STRENGTH]
    pairs = [np.sign(later - earlier) for earlier, later in combinations(shares, 2)]
    return np.mean(pairs, axis=0)


STRONGER = Claim(
    "order",
    "feature-purification, Figure 13",
    "stronger attacker, purer features: Kendall's τ between the four attackers by strength and the share of their networks",
    order_of_strength,
    above(0.0),
    note="the attackers by strength, as the clean accuracy of Table 1 has it: " + ", ".join(BY_STRENGTH),
)


def _feature_item(
    item: str,
    title: str,
    layers: tuple[int, int, int],
    attackers: tuple[str, ...] = (MAIN,),
    towards: float = GREY,
) -> Experiment:
    """An experiment on exciting pictures; `layers` is the convolution looked at, at each scale."""
    source = f"feature-purification, {item.replace('-', ' ').capitalize()}"
    sizes: dict[str, Row] = {
        scale: {"layer": layer, "ascent": ASCENT[scale]} for scale, layer in zip(ASCENT, layers, strict=True)
    }
    others = attackers[1:]
    names, more = (
        dict.fromkeys(attackers, "closer-to-images"),
        over_controls("features", source, SHARE, robust=attackers),
    )
    if others:
        names = {attacker: sub("[^a-z0-9.]+", "-", attacker).strip("-") for attacker in attackers}
        sizes["quick"] |= {"zoo": EVERY} if EVERY else FROM_ONE_CLEAN
        more = (STRONGER, *more)
    return Experiment(
        id=f"feature-purification/{item}",
        source=source,
        title=title,
        scales=scales(Features, every={"attackers": attackers, "towards": towards}, **sizes),
        measure=measure_features,
        claims=(*(closer_to_images(name, source, attacker) for attacker, name in names.items()), *more),
        long=True,
        is_one_draw=share_weights,
        foretell=foretell(*FOUR, *(FROM_CLEAN for _ in others)),
        about=(
            "Plain gradient ascent from random pictures on the middle neuron of a channel, normalised steps, decay towards one colour;"
            " no jitter, no blur. The energy is that of the picture without its mean colour; pure noise has a share of 0.1. "
            + (FEW_EPOCHS if others and not EVERY else SHIPPED_ABOUT)
        ),
    )


FIGURE_1 = Experiment(
    id="feature-purification/figure-1",
    source="feature-purification, Figure 1",
    title="First-layer filters after clean and adversarial training",
    scales=scales(Setting, every=ALEXNET, quick=ALEXNET_QUICK),
    measure=measure_1,
    claims=CLAIMS_1,
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(*FOUR),
    about="The longest of AlexNet's 64 filters (11 × 11): at the start, after clean training, and after adversarial training and both"
    f" controls from there. {SHIPPED_ABOUT}",
)
FIGURE_5 = Experiment(
    id="feature-purification/figure-5",
    source="feature-purification, Figure 5",
    title="Activation sparsity during clean training",
    scales=scales(
        Setting,
        every={"network": "wrn-28-10"},
        quick={"zoo": "", "factor": 0.05, "epochs": 3, "train_images": 2000},
    ),
    measure=measure_5,
    claims=CLAIMS_5,
    long=True,
    is_one_draw=share_weights,
    foretell=foretell(CLEAN),
    about="The share of positive outputs of every ReLU on test images. Quick: a wide ResNet of the same depth, a twentieth as wide.",
)
FIGURE_6 = _feature_item("figure-6", "Deep features, decaying to black", (7, 12, 27), towards=BLACK)
FIGURE_10 = _feature_item("figure-10", "Deep features of clean and robust networks", (5, 9, 19))
FIGURE_13 = _feature_item(
    "figure-13", "Deep features against four attackers", (7, 12, 27), attackers=tuple(ATTACKERS)
)
