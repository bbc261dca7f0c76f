"""Pictures that excite the neurons of a layer, shared by figures 6, 10, 11 and 13."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from featureprism.data.images import ImageSet
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks.deep import conv_layers
from featureprism.papers.feature_purification.image_setting import (
    CLEAN,
    CONTROLS,
    FROM_CLEAN,
    MAIN,
    ImageSetting,
    components,
    images_of,
    pictures,
    trained,
)
from featureprism.probes.images import GREY, energy_share, exciting_images
from featureprism.seeds import generator_for

SHOWN = 16  # neurons of each network
ASCENT = {"quick": 80, "standard": 500, "paper": 2000}  # gradient steps to a picture
ASCENT_ABOUT = (
    "Plain gradient ascent from random pictures on the middle neuron of a channel, normalised steps, decay towards one"
    " colour; no jitter,"
    " no blur. The energy is that of the picture without its mean colour; pure noise has a share of 0.1. "
)


@dataclass(frozen=True, kw_only=True)
class LayerSetting(ImageSetting):
    """One convolution is looked at, counted from 1 as in the paper."""

    layer: int


@dataclass(frozen=True, kw_only=True)
class AscentSetting(LayerSetting):
    """Pictures that excite its neurons, by so many gradient steps that decay towards a colour."""

    ascent: int
    towards: float = GREY


@dataclass(frozen=True, kw_only=True)
class FeatureSetting(AscentSetting):
    """Of the clean network, and of one trained against each of the attackers."""

    attackers: tuple[str, ...] = (MAIN,)


def around_mean(images: Tensor) -> Tensor:
    """Pictures without their mean colour, as rows: how bright a picture is says nothing about its pattern."""
    return (images - images.mean(dim=(2, 3), keepdim=True)).flatten(1)


def exciting(net: nn.Module, s: AscentSetting, data: ImageSet, seed: int) -> Tensor:
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


def measure_features(s: FeatureSetting, seed: int, context: Context) -> list[Row]:
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


def sizes(*layers: int) -> dict[str, Row]:
    """The convolution looked at and the steps of ascent, at each scale."""
    return {
        scale: {"layer": layer, "ascent": ASCENT[scale]} for scale, layer in zip(ASCENT, layers, strict=True)
    }
