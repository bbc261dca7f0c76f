"""The filters of a first layer: the longest of them as pictures, and how smooth they are."""

import torch
from torch import Tensor, nn

from featureprism.data.images import ImageSet
from featureprism.networks.deep import conv_layers
from featureprism.probes.images import energy_share, principal_directions

SHOWN = 16  # filters of each network


def stretched(images: Tensor) -> Tensor:
    """Each picture from black to white."""
    flat = images.flatten(1)
    low, high = (side.reshape(-1, 1, 1, 1) for side in (flat.amin(dim=1), flat.amax(dim=1)))
    return (images - low) / (high - low).clamp_min(1e-12)


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
