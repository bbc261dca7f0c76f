"""At which radius of a grid each image breaks, and the curve of robust accuracy that this gives."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism._progress import Progress, no_progress
from featureprism.probes.image_attacks import ImageAttack, ImageLoss, decided, perturb

BATCH = 250  # images attacked at a time


def broken_at(
    net: nn.Module,
    x: Float[Tensor, "n ch h w"],
    y: Int[Tensor, " n"],
    radii: Sequence[float],
    attack: ImageAttack,
    *,
    groups: Int[Tensor, " c"],
    aim: Int[Tensor, " n"],
    loss: ImageLoss,
    generator: torch.Generator,
    progress: Progress = no_progress,
) -> Float[Tensor, " n"]:
    """Per image the first radius of the rising grid at which the merged decision is not y: 0 if never right, inf if always.

    The attack climbs `loss` of the labels `aim`, at each radius in turn, on the images that still stand: what breaks an image at
    one radius breaks it at every larger one. PGD: feature-averaging, Section 6.2.
    """
    broken = torch.where(decided(net, x, groups) == y, inf, 0.0)
    for index, radius in enumerate(radii):
        standing = torch.nonzero(broken == inf)[:, 0]
        if len(standing) == 0:
            break
        here = replace(attack, eps=radius)
        for few in standing.split(BATCH):
            delta = perturb(net, x[few], aim[few], here, loss=loss, generator=generator)
            fooled = decided(net, x[few] + delta, groups) != y[few]
            broken[few[fooled]] = radius
        progress((index + 1) / len(radii))
    return broken


def robust_curve(broken: Float[Tensor, " n"], radii: Sequence[float]) -> list[float]:
    """Share of images that stand at radius 0 (clean accuracy) and at each radius of the grid."""
    return [float((broken > r).double().mean()) for r in (0.0, *radii)]


def half_radius(radii: Sequence[float], accuracy: Sequence[float]) -> float:
    """Where the curve (0, radii…) falls through 50 %, by straight lines; 0 if it starts below, NaN if the grid ends above."""
    grid = (0.0, *radii)
    if accuracy[0] < 0.5:
        return 0.0
    for i in range(1, len(grid)):
        before, after = accuracy[i - 1], accuracy[i]
        if after < 0.5:
            return grid[i - 1] + (grid[i] - grid[i - 1]) * (before - 0.5) / (before - after)
    return nan
