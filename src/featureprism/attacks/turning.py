"""Two and three dimensions, where all directions can be looked at: rays that lie apart, witnesses turned until none is shorter."""

from math import cos
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.attacks.boundary import shortened
from featureprism.geometry import unit_rows

APART = {2: cos(0.1), 3: cos(0.2)}  # rays with a larger cosine lie in one valley
FIRST_TURN, FALL, LEAST_TURN = (
    0.1,
    0.6,
    1e-6,
)  # radians: the first turn, its factor where nothing is shorter, and the last
TURNS = 45
SHORTER = 1e-7  # relative: what counts


def valleys(
    length: Float[Tensor, "s n"], rays: Float[Tensor, "s n d"], count: int
) -> tuple[Float[Tensor, "k n"], Int[Tensor, "k n"]]:
    """The shortest rays of every point, no two of one valley, the shortest first; inf where there are no more."""
    unit = unit_rows(rays.reshape(-1, rays.shape[-1])).reshape(rays.shape)
    left, every, chosen = length.clone(), torch.arange(length.shape[1]), []
    for _ in range(min(count, len(length))):
        shortest, which = left.min(dim=0)
        chosen.append((shortest, which))
        near = (unit * unit[which, every]).sum(dim=2) > APART[rays.shape[-1]]
        left = torch.where(near, torch.full_like(left, torch.inf), left)
    return torch.stack([v for v, _ in chosen]), torch.stack([i for _, i in chosen])


def turned(net: Any, z: Tensor, y: Tensor, delta: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Witnesses turned, in ever smaller steps, to wherever a shorter one flips; never longer than before.

    A kink on which the nearest flip lies has no gradient to slide along; directions can still be tried.
    """
    best, turn = delta, torch.full((len(z), 1), FIRST_TURN, dtype=z.dtype)
    for _ in range(TURNS):
        aside = torch.stack(_asides(best))  # (a, n, d), as long as the witness
        trial = (best + turn * aside) / (1 + turn**2).sqrt() * (1 - SHORTER)
        margin = y * net((z + trial).reshape(-1, z.shape[1])).reshape(len(trial), -1)
        least, which = margin.min(dim=0)
        flips = (least <= 0).unsqueeze(1) & (turn >= LEAST_TURN)
        best = torch.where(flips, trial[which, torch.arange(len(z))], best)
        best = torch.where(flips, shortened(net, z, y, best, 0.9, halvings=16), best)
        turn = torch.where(flips, turn, FALL * turn)
        if bool((turn < LEAST_TURN).all()):
            break
    return best


def _asides(delta: Float[Tensor, "n d"]) -> list[Tensor]:
    """Perturbations of the same length at a right angle: two in the plane, eight in space."""
    if delta.shape[1] == 2:
        right = torch.stack([-delta[:, 1], delta[:, 0]], dim=1)
        return [right, -right]
    length = torch.linalg.vector_norm(delta, dim=1, keepdim=True)
    axis = torch.zeros_like(delta).scatter(1, delta.abs().argmin(dim=1, keepdim=True), 1.0)
    first = torch.linalg.cross(delta, axis)
    first = (
        first
        / torch.linalg.vector_norm(first, dim=1, keepdim=True).clamp_min(torch.finfo(delta.dtype).tiny)
        * length
    )
    second = torch.linalg.cross(delta, first) / length.clamp_min(torch.finfo(delta.dtype).tiny)
    half = 0.5**0.5
    sides = [first, second, half * (first + second), half * (first - second)]
    return sides + [-side for side in sides]
