"""One perturbation for all points: which direction fools most of them, how many, and from which norm on."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featureprism.attacks import universal_direction
from featureprism.attacks.universal import universal_shift
from featureprism.brackets import median_interval
from featureprism.models import Model
from featureprism.models.scores import ScoreNet

REACH, STEPS = 4, 80  # median radii that a direction is looked for within; steps of the grid along it
HALVINGS = 10  # of the norm at which the direction fools half of the points


@dataclass(frozen=True, eq=False)
class Fooling:
    """One perturbation v for all points: of two classes x + v of the first and x - v of the second, of more x + v for all."""

    direction: Callable[[float], Float[Tensor, " d"]]  # the unit vector found that fools most at this norm
    fooled: Callable[[Float[Tensor, " d"]], Bool[Tensor, " n"]]  # which points v takes out of their class

    def share(self, v: Float[Tensor, " d"]) -> float:
        """The share of the points that v fools."""
        return float(self.fooled(v).double().mean())


class _Difference(nn.Module):
    """The score of the second of two classes less that of the first."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.scores = model.scores

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """One output."""
        first, second = self.scores(x).unbind(dim=1)
        return second - first


def fooling(model: Model, x: Float[Tensor, "n d"], label: Int[Tensor, " n"]) -> Fooling:
    """How these points are fooled; `label` are positions of the scores."""
    if model.num_classes > 2:
        return Fooling(
            lambda eps: universal_shift(model.net, x, label, eps),
            torch.no_grad()(lambda v: model.scores(x + v).argmax(dim=1) != label),
        )
    net = model.net.margin(1, 0) if isinstance(model.net, ScoreNet) else model.net
    net = net if model.has_one_output or isinstance(model.net, ScoreNet) else _Difference(model)
    signs = 2.0 * label.double() - 1
    return Fooling(
        lambda eps: universal_direction(net, x, signs, eps),
        torch.no_grad()(lambda v: signs * net(x - signs.unsqueeze(1) * v) <= 0),
    )


@dataclass(frozen=True, eq=False)
class Universal:
    """One perturbation of this norm along the unit direction fools half of the points; the interval is for points drawn like these."""

    norm: float = math.nan
    direction: Float[Tensor, " d"] | None = None
    interval: tuple[float, float] = (math.nan, math.nan)


def universal(
    model: Model, x: Float[Tensor, "n d"], label: Int[Tensor, " n"], half_radius: float
) -> Universal:
    """The shortest such perturbation found; NaN beyond four times the radius at which half of the points break one by one."""
    if not half_radius < math.inf:
        return Universal()
    if half_radius == 0:
        return Universal(0.0)
    attack = fooling(model, x, label)
    low, high = 0.0, REACH * half_radius
    best = attack.direction(high)
    if attack.share(high * best) < 0.5:
        return Universal()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        direction = attack.direction(middle)
        is_half = attack.share(middle * direction) >= 0.5
        low, high, best = (low, middle, direction) if is_half else (middle, high, best)
    return Universal(high, best, median_interval(_norms_along(attack, best, REACH * half_radius)))


def _norms_along(attack: Fooling, u: Float[Tensor, " d"], reach: float) -> Float[np.ndarray, " n"]:
    """For every point the least norm on a grid at which the direction fools it, inf where none does."""
    norms = np.linspace(0, reach, STEPS + 1)
    fooled = torch.stack([attack.fooled(norm * u) for norm in norms]).numpy()
    return np.where(fooled.any(axis=0), norms[fooled.argmax(axis=0)], np.inf)
