"""From a perturbation that flips to the shortest one nearby: along its ray, along the boundary, by convex-concave steps, by turning."""

from math import cos
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from featureprism.attacks.gradient import margin_gradient
from featureprism.geometry import Box, unit_rows
from featureprism.models.protocols import HasConvexParts

HALVINGS = 36  # of the interval that holds the flip
SAFETY = 1e-7  # relative: a witness is placed this far beyond the boundary
SLIDES = 20  # steps along the boundary
CONVEX_STEPS = 6  # linearisations of N
CUTS = 8  # tangents of P for each of them
SWEEPS = 24  # passes over their multipliers: with 12 rounding decides where cuts nearly coincide
SHARES_BEYOND = (1e-7, 1e-5, 1e-4, 1e-3, 1e-2)  # of the margin at the point
NEAR_STEPS = 2
SETTLED = 1e-8  # relative: steps that gain less end the procedure
OVERSHOOT = 1.3  # a trial is stretched by this before it is shortened, so that it flips


def shortened(
    net: Any,
    z: Tensor,
    y: Tensor,
    delta: Float[Tensor, "n d"],
    from_share: float = 0.0,
    halvings: int = HALVINGS,
) -> Float[Tensor, "n d"]:
    """δ scaled down to a crossing of the boundary on its ray, on the flipping side; 0 if misclassified."""
    low = torch.full((len(z), 1), from_share, dtype=z.dtype)
    low = torch.where((y * net(z + low * delta) > 0).unsqueeze(1), low, torch.zeros_like(low))
    high = torch.ones_like(low)
    for _ in range(halvings):
        middle = (low + high) / 2
        holds = (y * net(z + middle * delta) > 0).unsqueeze(1)
        low, high = torch.where(holds, middle, low), torch.where(holds, high, middle)
    high = (high * (1 + SAFETY)).clamp_max(1)
    return torch.where((y * net(z) <= 0).unsqueeze(1), torch.zeros_like(high), high) * delta


def shorter_of(
    net: Any, z: Tensor, y: Tensor, best: Tensor, trial: Tensor, box: Box | None = None, norm: float = 2
) -> tuple[Tensor, Tensor]:
    """Row by row the shorter of a witness and a trial brought to the boundary, and that trial (the witness where it fails)."""
    farther = OVERSHOOT * trial
    trial = shortened(net, z, y, farther if box is None else box.clip(farther), 0.5, halvings=14)
    flips = (y * net(z + trial) <= 0).unsqueeze(1)
    lengths = torch.linalg.vector_norm(torch.stack([trial, best]), ord=norm, dim=-1)
    shorter = lengths[0] < lengths[1]
    best = torch.where(flips & shorter.unsqueeze(1), trial, best)
    return best, torch.where(flips, trial, best)


def settled(before: Float[Tensor, "n d"], after: Float[Tensor, "n d"]) -> Bool[Tensor, " n"]:
    """Which witnesses became no shorter by more than a rounding error."""
    lengths = torch.linalg.vector_norm(torch.stack([before, after]), dim=-1)
    return lengths[1] >= (1 - SETTLED) * lengths[0]


def slide(
    net: Any, z: Tensor, y: Tensor, delta: Float[Tensor, "n d"], box: Box | None = None, norm: float = 2
) -> Float[Tensor, "n d"]:
    """Witnesses moved along the decision boundary towards the point; never longer than before.

    Each step goes halfway to the point nearest to 0 of the linearised boundary, for ℓ2 g(⟨g, δ⟩ - m)/‖g‖² for margin m and
    gradient g (Hasofer & Lind 1974), and is shortened along its ray.
    """
    best, current = delta, delta
    for _ in range(SLIDES):
        margin, gradient = margin_gradient(net, z + current, y)
        level = (gradient * current).sum(dim=1) - margin
        current = (current + _nearest(gradient, level, box, norm)) / 2
        best, _ = shorter_of(net, z, y, best, current, box, norm)
    return shortened(net, z, y, best, 0.99)


def _nearest(
    gradient: Float[Tensor, "n d"], level: Float[Tensor, " n"], box: Box | None, norm: float
) -> Float[Tensor, "n d"]:
    """The shortest δ of the box with ⟨gradient, δ⟩ = level, as far as the box reaches."""
    direction = gradient if norm == 2 else gradient.sign()
    if norm == 1:
        direction = direction * one_hot(gradient.abs().argmax(dim=1), gradient.shape[1])
    if box is None:
        square = (gradient * direction).sum(dim=1).clamp_min(torch.finfo(gradient.dtype).tiny)
        return (level / square).unsqueeze(1) * direction
    sign = torch.where(level < 0, -1.0, 1.0).unsqueeze(1)
    return box.along(sign * direction, level.abs(), weigh=sign * gradient)


def convex_concave(
    net: Any,
    z: Tensor,
    y: Tensor,
    delta: Float[Tensor, "n d"],
    steps: int = CONVEX_STEPS,
    box: Box | None = None,
) -> Float[Tensor, "n d"]:
    """Witnesses shortened by the convex-concave procedure, where y f = P - N with both convex; never longer than before.

    Each step replaces N by its tangent at the witness and solves min ½‖δ‖² s.t. P(δ) ≤ N's tangent by outer approximation:
    tangents of P are added one by one, each small quadratic programme is solved in its multipliers. Kinks of P, on which minima
    like to lie, are met by several tangents at once. Networks offer (P, ∇P, N, ∇N) as `convex_parts`; others come back unchanged.
    """
    if not isinstance(net, HasConvexParts):
        return delta
    best, current = delta, delta
    done = torch.zeros(len(z), 1, dtype=torch.bool)
    for _ in range(steps):
        shorter, trial = shorter_of(net, z, y, best, _convex_step(net, z, y, current), box)
        before, best = best, torch.where(done, best, shorter)
        current = torch.where(done, current, trial)
        done = done | settled(before, best).unsqueeze(1)
        if bool(done.all()):
            break
    return shortened(net, z, y, best, 0.99)


def flips_near(
    net: Any, z: Tensor, y: Tensor, delta: Float[Tensor, "n d"]
) -> tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]:
    """Short flips near perturbations, and their norms (inf where none was found), by convex-concave steps that ask for a little more.

    Where flips form a thin cone beside the shortest one, the ray through it need not meet them, however long it is; a step
    that asks for y f ≤ -share·y f(z) does. Of some shares the one with the shortest flip is taken.
    """
    best, shortest = delta, delta.new_full((len(z),), torch.inf)
    value: Any = net
    margin = y * value(z)
    if not isinstance(net, HasConvexParts):
        return best, shortest
    for share in SHARES_BEYOND:
        trial = delta
        for _ in range(NEAR_STEPS):
            trial = _convex_step(net, z, y, trial, share * margin)
        length = torch.linalg.vector_norm(trial, dim=1)
        better = (y * value(z + trial) <= 0) & (length < shortest)
        best = torch.where(better.unsqueeze(1), trial, best)
        shortest = torch.where(better, length, shortest)
    return best, shortest


def _convex_step(
    net: HasConvexParts, z: Tensor, y: Tensor, current: Float[Tensor, "n d"], beyond: Tensor | float = 0.0
) -> Float[Tensor, "n d"]:
    """The shortest δ with P ≤ N's tangent - beyond, as far as a few tangents of P say it."""
    P, slope_P, N, slope_N = net.convex_parts(z + current, y)
    N0 = N - (slope_N * current).sum(dim=1)  # the tangent of N at δ is N0 + ⟨slope_N, δ⟩
    normals, offsets, at = [], [], current
    multipliers = z.new_zeros(len(z), 0)
    for cut in range(CUTS):
        if cut:
            P, slope_P, _, _ = net.convex_parts(z + at, y)
        normals.append(slope_P - slope_N)
        offsets.append(P - (slope_P * at).sum(dim=1) - N0 + beyond)
        A, o = torch.stack(normals, dim=1), torch.stack(offsets, dim=1)  # cuts Aδ + o ≤ 0
        start = torch.cat([multipliers, multipliers.new_zeros(len(z), 1)], dim=1)
        multipliers = least_distance(A @ A.transpose(1, 2), o, start, SWEEPS)
        at = -(multipliers.unsqueeze(1) @ A).squeeze(1)
    return at


def least_distance(
    gram: Float[Tensor, "n c c"], offset: Float[Tensor, "n c"], start: Float[Tensor, "n c"], sweeps: int
) -> Float[Tensor, "n c"]:
    """Multipliers λ ≥ 0 of min ½‖δ‖² s.t. Aδ + offset ≤ 0, δ = -Aᵀλ, for many points: coordinate ascent in the dual.

    In numpy, points last: there are hundreds of steps on few numbers, and a call of torch costs several of numpy's.
    """
    products = np.ascontiguousarray(gram.detach().cpu().numpy().transpose(1, 2, 0))
    rest, multipliers = (part.detach().cpu().numpy().T.copy() for part in (offset, start))  # (c, n)
    squares = np.maximum(products.diagonal().T, np.finfo(products.dtype).tiny)
    with np.errstate(over="ignore", invalid="ignore"):  # cuts that are not there yet have no length
        for _ in range(sweeps):
            for j in range(len(rest)):
                ascent = rest[j] - np.add.reduce(products[j] * multipliers, axis=0)
                np.maximum(multipliers[j] + ascent / squares[j], 0, out=multipliers[j])
    return torch.from_numpy(multipliers.T.copy()).to(start)


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
