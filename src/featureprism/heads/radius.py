"""The robust radius of a head: the least over all rivals of the radius of one margin."""

from math import inf

from jaxtyping import Float, Int
from torch import Tensor

from featureprism.certificates import margin_radius
from featureprism.certificates.classes import Effort, class_radius
from featureprism.heads.network import HeadNet
from featureprism.networks import PowerReLU, ReLU, ScoreNet
from featureprism.records import Progress, RadiusBracket, silent
from featureprism.threads import one_thread

# cells of each proof, unless told otherwise: more prove more. A limit in cells repeats exactly, one in seconds does not
MAX_CELLS = 1


@one_thread()
def head_radius(
    net: HeadNet,
    x: Float[Tensor, "n d"],
    y: Int[Tensor, " n"],
    *,
    gap: float = 0.01,
    seconds_per_point: float = inf,
    max_cells: int = MAX_CELLS,
    progress: Progress = silent,
) -> RadiusBracket:
    """min over rivals c of the bracket of f_y - f_c; points that another class already wins or ties have radius 0."""
    effort = Effort(2, gap, seconds_per_point, max_cells)
    if net.num_classes == 2:
        limits = {"gap": gap, "seconds_per_point": seconds_per_point, "max_cells": max_cells}
        return margin_radius(net.margin(1, 0), x, 2.0 * y.double() - 1, progress=progress, **limits)
    activation = ReLU() if net.p == 1 else PowerReLU(net.p)
    scores = ScoreNet(net.W.detach(), net.votes().detach(), net.b.detach(), activation=activation)
    return class_radius(scores.requires_grad_(False), x, y, effort, progress=progress)
