"""Figures 1, 5, 6, 10 and 13: filters, activation sparsity, and the pictures that excite deep neurons."""

from functools import partial
from re import sub

import torch
from torch import Tensor, nn

from featureprism.networks.deep import conv_layers
from featureprism.papers.feature_purification.deep_setting import (
    ALEXNET,
    ALEXNET_QUICK,
    ATTACKERS,
    CLEAN,
    CONTROL,
    FROM_CLEAN,
    MAIN,
    RANDOM,
    between,
    differences,
    images_of,
    means,
    recipe_of,
    scales,
    start,
    trained,
    weights_key,
)
from featureprism.probes.images import (
    GREY,
    activation_shares,
    energy_share,
    exciting_images,
    principal_directions,
)
from featureprism.records import Claim, Experiment, Progress, Row, judge, picture, rows_of
from featureprism.seeds import generator_for
from featureprism.training.images import checkpoint_for, train_images

SHOWN = 16  # filters or features of each network
BLACK = 0.0
ASCENT = {"quick": 200, "standard": 500, "paper": 2000}  # gradient steps to a picture


def stretched(images: Tensor) -> Tensor:
    """Each picture from black to white."""
    flat = images.flatten(1)
    low, high = (side.reshape(-1, 1, 1, 1) for side in (flat.amin(dim=1), flat.amax(dim=1)))
    return (images - low) / (high - low).clamp_min(1e-12)


def measure_1(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """AlexNet's 11 × 11 filters at the start, after clean and after adversarial training; their share of smooth directions."""
    data = images_of(setting, seed)
    nets = {
        "start": start(setting, data, seed),
        CLEAN: trained(setting, data, seed, CLEAN, progress=between(progress, 0, 0.3)),
        CONTROL: trained(setting, data, seed, CONTROL, progress=between(progress, 0.3, 0.4)),
        RANDOM: trained(setting, data, seed, FROM_CLEAN, progress=between(progress, 0.4, 0.95)),
    }
    rows: list[Row] = []
    for name, net in nets.items():
        weight = conv_layers(net)[0].weight.detach().cpu()
        lengths = torch.linalg.vector_norm(weight.flatten(1), dim=1)
        shown = weight[lengths.argsort(descending=True)[:SHOWN]]
        directions = principal_directions(_patches(data.x_train[:1000], weight.shape[-1]), share=0.1)
        share = energy_share(weight.flatten(1), directions)
        mean = float((share * lengths**2).sum() / (lengths**2).sum())
        rows.append({"kind": "filters", "network": name, "share": mean})
        rows += _pictures(name, stretched(shown))
    return rows


def _patches(images: Tensor, size: int) -> Tensor:
    """Square patches of images, as rows, at a few places of each; whole images (padded) where they are smaller."""
    if images.shape[-1] < size:
        edge = size - images.shape[-1]
        images = nn.functional.pad(images, (edge // 2, edge - edge // 2) * 2)
    return images.unfold(2, size, 7).unfold(3, size, 7).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2)


def _pictures(network: str, images: Tensor) -> list[Row]:
    return [
        {"kind": "picture", "network": network, "index": i, **picture(image)}
        for i, image in enumerate(images)
    ]


def around_mean(images: Tensor) -> Tensor:
    """Pictures without their mean colour, as rows: how bright a picture is says nothing about its pattern."""
    return (images - images.mean(dim=(2, 3), keepdim=True)).flatten(1)


def features(net: nn.Module, setting: Row, shape: tuple[int, ...], seed: int, towards: float) -> Tensor:
    """Pictures that excite neurons of one convolution, counted from 1 as in the paper; the last one if there are fewer."""
    layers = conv_layers(net)
    layer = layers[min(setting["layer"], len(layers)) - 1]
    channels, height, width = shape
    return exciting_images(
        net,
        layer,
        torch.arange(min(SHOWN, layer.out_channels)),
        (channels, height, width),
        steps=setting["ascent"],
        towards=towards,
        generator=generator_for("exciting images", seed),
    )


def measure_features(
    setting: Row, seed: int, progress: Progress, *, attackers: tuple[str, ...], towards: float
) -> list[Row]:
    """Exciting pictures of the clean network and of robust ones; their energy in the images' first principal components."""
    data = images_of(setting, seed)
    directions = principal_directions(data.x_train.flatten(1), share=0.1)
    shape, rows = tuple(data.x_train.shape[1:]), []
    plan = [(CLEAN, MAIN), *((RANDOM, attacker) for attacker in attackers)]
    for place, (training, attacker) in enumerate(plan):
        part = between(progress, place / len(plan), (place + 0.7) / len(plan))
        net = trained(setting, data, seed, training, attacker, part)
        shown = features(net, setting, shape, seed, towards)
        share = energy_share(around_mean(shown), directions)
        name = training if training == CLEAN else attacker
        rows.append({"kind": "features", "network": name, "share": float(share.mean())})
        rows += _pictures(name, shown)
        progress((place + 1) / len(plan))
    return rows


def _claims_features(rows: list[Row], *, item: str, attackers: tuple[str, ...]) -> list[Claim]:
    found = rows_of(rows, "features")
    clean = means(found, "share", network=CLEAN)
    statement = "share of the energy of exciting pictures in the first 10 % of the images' principal components, {} minus clean"
    return [
        judge(
            f"{item}.closer-to-images"
            if len(attackers) == 1
            else f"{item}.{sub('[^a-z0-9.]+', '-', name).strip('-')}",
            f"feature-purification, {item.replace('-', ' ').capitalize()}",
            statement.format(name),
            differences(means(found, "share", network=name), clean),
            ">",
            0.0,
            f"clean {sum(clean) / len(clean):.2f}",
        )
        for name in attackers
    ]


def _claims_1(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "filters")
    by_name = {name: means(found, "share", network=name) for name in ("start", CLEAN, CONTROL, RANDOM)}
    return [
        judge(
            "figure-1.control",
            "feature-purification, Figure 1",
            "the same share, robust minus as many more clean epochs",
            differences(by_name[RANDOM], by_name[CONTROL]),
            ">",
            0.0,
        ),
        judge(
            "figure-1.smoother",
            "feature-purification, Figure 1",
            "share of the first layer's energy in the first 10 % of the principal components of image patches, robust minus clean",
            differences(by_name[RANDOM], by_name[CLEAN]),
            ">",
            0.0,
            ", ".join(f"{name} {sum(v) / len(v):.2f}" for name, v in by_name.items()),
        ),
    ]


def measure_5(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """The share of positive ReLU outputs of every layer at the start and after each epoch of clean training."""
    data = images_of(setting, seed)
    net, seen = start(setting, data, seed), data.x_test

    def watch(model: nn.Module) -> Row:
        return {f"relu {i + 1}": share for i, share in enumerate(activation_shares(model, seen))}

    history: list[Row] = [{"epoch": 0, **watch(net)}]
    recipe = recipe_of(setting, "epochs")
    train_images(
        net,
        data.x_train,
        data.y_train,
        recipe,
        seed=seed,
        checkpoint=checkpoint_for(**weights_key(setting, data, seed, recipe, watched=len(seen))),
        watch=watch,
        history=history,
        progress=progress,
    )
    return [
        {"kind": "activation", "epoch": row["epoch"], "layer": int(name.split()[1]), "share": share}
        for row in history
        for name, share in row.items()
        if name != "epoch"
    ]


def _claims_5(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "activation")
    last, depth = max(r["epoch"] for r in found), max(r["layer"] for r in found)
    deep = [r for r in found if r["layer"] > depth / 2]
    begin, end = (means(deep, "share", epoch=epoch) for epoch in (0, last))
    source = "feature-purification, Figure 5"
    return [
        judge(
            "figure-5.sparser",
            source,
            "share of ReLU outputs of the deeper half that are positive, after clean training ÷ at the start",
            [a / b for a, b in zip(end, begin, strict=True)],
            "<",
            1.0,
            f"{sum(begin) / len(begin):.2f} at the start, {sum(end) / len(end):.2f} after it",
        ),
    ]


def _feature_item(
    item: str, title: str, layer: dict[str, int], attackers: tuple[str, ...], towards: float, about: str
) -> Experiment:
    """An experiment on exciting pictures; `layer` is the convolution looked at, at each scale."""
    changes = {scale: {"layer": layer[scale], "ascent": ASCENT[scale]} for scale in ASCENT}
    return Experiment(
        id=f"feature-purification/{item}",
        source=f"feature-purification, {item.replace('-', ' ').capitalize()}",
        title=title,
        scales=scales(**changes),
        measure=partial(measure_features, attackers=attackers, towards=towards),
        claims=partial(_claims_features, item=item, attackers=attackers),
        long=True,
        about=about,
    )


ASCENT_ABOUT = (
    "Plain gradient ascent from random pictures on the middle neuron of a channel, normalised steps, decay towards one colour; no"
    " jitter, no blur. The energy is that of the picture without its mean colour; a picture of pure noise has a share of 0.1."
)
FIGURE_1 = Experiment(
    id="feature-purification/figure-1",
    source="feature-purification, Figure 1",
    title="First-layer filters after clean and adversarial training",
    scales=scales(every=ALEXNET, quick=ALEXNET_QUICK),
    measure=measure_1,
    claims=_claims_1,
    long=True,
    about="The longest of AlexNet's 64 filters (11 × 11): at the start, after clean training, after adversarial training from there.",
)
FIGURE_5 = Experiment(
    id="feature-purification/figure-5",
    source="feature-purification, Figure 5",
    title="Activation sparsity during clean training",
    scales=scales(
        every={"network": "wrn-28-10"},
        quick={"factor": 0.05, "epochs": 6},
        paper={"network": "wrn-28-10", "factor": 1.0},
    ),
    measure=measure_5,
    claims=_claims_5,
    long=True,
    about="The share of positive outputs of every ReLU on test images. Quick: a wide ResNet of the same depth, a twentieth as wide.",
)
FIGURE_6 = _feature_item(
    "figure-6",
    "Deep features, decaying to black",
    {"quick": 7, "standard": 12, "paper": 27},
    (MAIN,),
    BLACK,
    ASCENT_ABOUT,
)
FIGURE_10 = _feature_item(
    "figure-10",
    "Deep features of clean and robust networks",
    {"quick": 5, "standard": 9, "paper": 19},
    (MAIN,),
    GREY,
    ASCENT_ABOUT,
)
FIGURE_13 = _feature_item(
    "figure-13",
    "Deep features against four attackers",
    {"quick": 7, "standard": 12, "paper": 27},
    tuple(ATTACKERS),
    GREY,
    ASCENT_ABOUT,
)
