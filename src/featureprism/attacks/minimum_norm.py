"""The shortest perturbation that changes the answer: a minimum-norm attack over all target classes, with restarts.

A restart has two phases. FMN (Pintor et al., NeurIPS 2021; for ℓ2 it is close to DDN, Rony et al., CVPR 2019) follows the gradient
of the margin while the radius of the ball shrinks after a flip and grows after a miss. The refinement descends the margin at a radius
just below the shortest flip of the point, for all its targets at once, with a step that is halved on the way as in APGD (Croce & Hein,
ICML 2020). Restarts go on until none of the last few found a shorter flip.

Every row (a point and a target) is computed as if it were alone: random starts come from a hash of the point and the target, and the
network sees batches of a fixed size, so that rounding does not depend on the other rows either.
"""

import hashlib
from dataclasses import dataclass
from math import cos, inf, pi
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism.geometry import Box, Sides, batches, in_batches

FMN_STEPS = (100, 200)  # of the first restart and of the others
FMN_STEP = 1.0  # of the radius, in root mean square; falls to 0 by a cosine
RADIUS_RATES = (
    0.05,
    0.001,
)  # relative change of the radius after a hit or a miss, at the first and the last step
FAR = 20.0, 60.0  # random starts: times the first-order distance to the boundary
SHRINK = 0.97  # of the shortest flip: the first radius of the refinement
NEARER = 0.6  # factor of 1 - SHRINK after a round without a flip
CLOSE = 0.002  # the refinement ends when its radius is this close to the shortest flip, relative
REFINE_STEPS, HALVE_EVERY = 24, 4
LARGEST_STEP = 2.0  # of the refinement, times the radius: from one side of the ball to the other
REFINE_ROUNDS = 16
RESTARTS, PATIENCE = 8, 2  # at most, and how many in a row may find nothing
GAIN = 0.002  # relative: less is no gain
SMOOTH = 0.01  # relative gain of the first refinement below which a boundary counts as smooth
HALVINGS = 10  # of the ray through a flip


class TargetMargins:
    """Margins f_own - f_target and their gradients, row by row."""

    def __init__(self, scores: Any, own: Int[Tensor, " m"], target: Int[Tensor, " m"]) -> None:
        self.scores, self.own, self.target = scores, own, target

    def rows(self, index: Int[Tensor, " r"]) -> "TargetMargins":
        """The margins of some rows."""
        return TargetMargins(self.scores, self.own[index], self.target[index])

    def __call__(self, z: Tensor) -> Tensor:
        """f_own - f_target."""
        with torch.no_grad():
            scores = in_batches(self.scores, z)
        return (scores.gather(1, self.own.unsqueeze(1)) - scores.gather(1, self.target.unsqueeze(1))).squeeze(
            1
        )

    def gradient(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """f_own - f_target and its gradient."""
        own, target = batches(self.own), batches(self.target)
        values, gradients = [], []
        for part, a, b in zip(batches(z), own, target, strict=True):
            with torch.enable_grad():
                at = part.detach().requires_grad_()
                scores = self.scores(at)
                margin = scores.gather(1, a.unsqueeze(1)) - scores.gather(1, b.unsqueeze(1))
                gradients.append(torch.autograd.grad(margin.sum(), at)[0])
            values.append(margin.detach().squeeze(1))
        return torch.cat(values)[: len(z)], torch.cat(gradients)[: len(z)]


class SignScores(nn.Module):
    """A network with one output as two scores (0, f): class 1 where f > 0."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, z: Tensor) -> Tensor:
        """0 and f."""
        value = self.net(z)
        return torch.stack([torch.zeros_like(value), value], dim=1)


@dataclass
class Flips:
    """The shortest flip of each row, inf and 0 where there is none."""

    length: Float[Tensor, " m"]
    delta: Float[Tensor, "m d"]
    point: Int[Tensor, " m"]

    def __post_init__(self) -> None:
        self.num_points = int(self.point.max()) + 1 if len(self.point) else 0

    def shortest(self) -> Float[Tensor, " n"]:
        """The length of the shortest flip of each point."""
        least = self.length.new_full((self.num_points,), inf)
        return least.scatter_reduce(0, self.point, self.length, "amin")

    def take(self, rows: Int[Tensor, " r"], length: Float[Tensor, " r"], delta: Float[Tensor, "r d"]) -> None:
        """Keep what is shorter; a row may be offered several times."""
        order = length.argsort(descending=True, stable=True)
        for part in _without_repeats(rows[order]):
            chosen = order[part]
            better = chosen[length[chosen] < self.length[rows[chosen]]]
            self.length[rows[better]], self.delta[rows[better]] = length[better], delta[better]


def _without_repeats(rows: Int[Tensor, " r"]) -> list[Int[Tensor, " k"]]:
    """Positions of the rows in groups, no row twice in a group."""
    ordered, position = rows.sort(stable=True)
    first = torch.searchsorted(ordered, ordered)
    rank = torch.arange(len(rows)) - first
    return [position[rank == r] for r in range(int(rank.max()) + 1)] if len(rows) else []


@torch.no_grad()
def minimum_norm(
    scores: Any,
    x: Float[Tensor, "m d"],
    own: Int[Tensor, " m"],
    target: Int[Tensor, " m"],
    point: Int[Tensor, " m"],
    *,
    norm: float,
    domain: Sides | None = None,
    reach: Float[Tensor, " m"],
    enough: float = 0.0,
    starts: Float[Tensor, "s m d"] | None = None,
    restarts: int = RESTARTS,
) -> Flips:
    """The shortest perturbations found with f_own < f_target, for rows that belong to points.

    Parameters
    ----------
    scores : callable
        The network, z (n, d) to scores (n, k), in the dtype of x.
    x, own, target, point : tensors
        One row for each pair of a point and a target class; `point` numbers the points from 0.
    norm : float
        2 or math.inf.
    domain : pair of floats, optional
        Bounds of every coordinate of a perturbed point.
    reach : tensor
        No perturbation of a row is longer.
    enough : float
        A point is finished as soon as one of its rows has a flip of this length. Until then nothing depends on it.
    starts : tensor, optional
        Further perturbations (s, m, d) from which the first restart begins.
    restarts : int
        At most.
    """
    margins = TargetMargins(scores, own, target)
    margin, gradient = margins.gradient(x)
    distance = torch.minimum(_first_order(margin, gradient, norm), reach)
    search = _Search(margins, x, point, norm, Box.around(x, domain), reach, distance)
    flips = Flips(torch.full_like(reach, inf), torch.zeros_like(x), point)
    flips.length[margin <= 0] = 0.0
    missed = torch.zeros(flips.num_points, dtype=torch.long)
    for restart in range(restarts):
        before = flips.shortest()
        active = torch.nonzero(((missed < PATIENCE) & (before > enough))[point])[:, 0]
        if not len(active):
            break
        paths = _begin(search, active, restart, starts)
        _fmn(paths, FMN_STEPS[min(restart, len(FMN_STEPS) - 1)], flips)
        coarse = flips.shortest()
        _refine(paths, flips, enough)
        after = flips.shortest()
        missed = torch.where(after < (1 - GAIN) * before, 0, missed + 1)
        if (
            restart == 0
        ):  # where the refinement has little to do the boundary is smooth, and one restart without a gain is enough
            missed = torch.where(after > (1 - SMOOTH) * coarse, PATIENCE - 1, missed)
    return flips


def _first_order(margin: Tensor, gradient: Tensor, norm: float) -> Tensor:
    """margin/‖∇margin‖ in the dual norm."""
    dual = torch.linalg.vector_norm(gradient, ord=1 if norm == inf else norm, dim=1)
    return margin / dual.clamp_min(torch.finfo(margin.dtype).tiny)


@dataclass(frozen=True)
class _Search:
    """What is asked of the rows."""

    margins: TargetMargins
    x: Tensor
    point: Tensor
    norm: float
    box: Box | None
    reach: Tensor
    distance: Tensor  # to the boundary, by first order

    def rows(self, index: Tensor) -> "_Search":
        """The same of some rows."""
        box = None if self.box is None else Box(self.box.low[index], self.box.high[index])
        parts = (part[index] for part in (self.x, self.point, self.reach, self.distance))
        x, point, reach, distance = parts
        return _Search(self.margins.rows(index), x, point, self.norm, box, reach, distance)

    def project(self, delta: Tensor, eps: Tensor) -> Tensor:
        """A near point of the ball and the box; the nearest one except for an ℓ2 ball with a box."""
        column = torch.minimum(eps, self.reach).unsqueeze(1)
        if self.norm == inf:
            delta = torch.minimum(torch.maximum(delta, -column), column)
        if self.box is not None:
            delta = torch.minimum(torch.maximum(delta, self.box.low), self.box.high)
        if self.norm == inf:
            return delta
        length = torch.linalg.vector_norm(delta, dim=1, keepdim=True)
        return delta * (column / length.clamp_min(torch.finfo(delta.dtype).tiny)).clamp_max(1)

    def gradient(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        return self.margins.gradient(self.x + delta)

    def flipped(self, delta: Tensor) -> Tensor:
        return self.margins(self.x + delta) < 0

    def size(self, delta: Tensor) -> Tensor:
        return torch.linalg.vector_norm(delta, ord=self.norm, dim=1)

    def step(self, gradient: Tensor, signs: Tensor) -> Tensor:
        """Unit step against the gradient: for ℓ∞ by signs or in proportion, both with root mean square 1; for ℓ2 of length 1."""
        length = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        even = gradient / length.clamp_min(torch.finfo(gradient.dtype).tiny)
        if self.norm == 2:
            return -even
        return -torch.where(signs, gradient.sign(), even * gradient.shape[1] ** 0.5)


@dataclass
class _Paths:
    """Where the descents of some rows are; `signs`: which of them step by signs."""

    rows: Tensor
    search: _Search
    delta: Tensor
    signs: Tensor

    def keep(self, index: Tensor) -> None:
        """Go on with some of them."""
        if len(index) < len(self.rows):
            self.rows, self.delta, self.signs = self.rows[index], self.delta[index], self.signs[index]
            self.search = self.search.rows(index)


def _begin(search: _Search, rows: Tensor, restart: int, given: Tensor | None) -> _Paths:
    """The first restart begins at zero and at what is given, the others far away, at random."""
    part = search.rows(rows)
    if restart == 0:
        first = [torch.zeros_like(part.x)]
    else:
        targets = part.margins.target.tolist()
        noise = [_uniform(x, target, restart) for x, target in zip(part.x, targets, strict=True)]
        first = [torch.stack(noise) * (FAR[restart % 2] * part.distance).unsqueeze(1)]
    first = first if search.norm == 2 else 2 * first
    first += list(given[:, rows]) if given is not None and restart == 0 else []
    every = rows.repeat(len(first))
    signs = (torch.arange(len(first)) % 2 == 1).repeat_interleave(len(rows)).unsqueeze(1)
    wide = search.rows(every)
    return _Paths(every, wide, wide.project(torch.cat(first), wide.reach), signs)


def _uniform(x: Float[Tensor, " d"], target: int, restart: int) -> Float[Tensor, " d"]:
    """Numbers from [-1, 1] that depend on the point, the target and the restart alone."""
    digest = hashlib.sha256(x.numpy().tobytes() + f"/{target}/{restart}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return 2 * torch.rand(x.shape, generator=generator, dtype=x.dtype) - 1


def _fmn(paths: _Paths, steps: int, flips: Flips) -> None:
    """Fast minimum-norm attack; paths end at their shortest flips where they have one."""
    search, delta = paths.search, paths.delta
    best, best_delta = torch.full_like(search.reach, inf), delta
    eps = best
    for k in range(steps):
        fall = (1 + cos(pi * k / steps)) / 2
        rate = RADIUS_RATES[1] + (RADIUS_RATES[0] - RADIUS_RATES[1]) * fall
        margin, gradient = search.gradient(delta)
        length = search.size(delta)
        flipped = margin < 0
        shorter = flipped & (length < best)
        best = torch.where(shorter, length, best)
        best_delta = torch.where(shorter.unsqueeze(1), delta, best_delta)
        to_boundary = length + _first_order(margin, gradient, search.norm)
        missed = torch.where(torch.isfinite(best), eps * (1 + rate), to_boundary)
        eps = torch.where(flipped, torch.minimum(eps * (1 - rate), best), missed)
        eps = torch.minimum(eps, search.reach)
        step = FMN_STEP * fall * eps.unsqueeze(1) * search.step(gradient, paths.signs)
        delta = search.project(delta + step, eps)
    flips.take(paths.rows, best, best_delta)
    paths.delta = torch.where(torch.isfinite(best).unsqueeze(1), best_delta, delta)


def _refine(paths: _Paths, flips: Flips, enough: float) -> None:
    """Descend the margins of all rows of a point at radii just below its shortest flip, until that is as short as it gets."""
    shrink = torch.full_like(flips.shortest(), SHRINK)
    for _ in range(REFINE_ROUNDS):
        before = flips.shortest()
        busy = (shrink < 1 - CLOSE) & (before > enough)
        paths.keep(torch.nonzero(busy[paths.search.point])[:, 0])
        if not len(paths.rows):
            return
        point = paths.search.point
        hit = torch.nonzero(_descend(paths, (shrink * before)[point]) < 0)[:, 0]
        shorter = _on_its_ray(paths.search.rows(hit), paths.delta[hit])
        flips.take(paths.rows[hit], paths.search.size(shorter), shorter)
        paths.signs = ~paths.signs
        shrink = torch.where(flips.shortest() < before, shrink, 1 - NEARER * (1 - shrink))


def _descend(paths: _Paths, eps: Tensor) -> Tensor:
    """The least margin that each path meets at a radius; the path ends there."""
    search = paths.search
    eps = torch.minimum(eps, search.reach)
    delta = search.project(paths.delta, eps)
    margin, gradient = search.gradient(delta)
    least, best = margin, delta
    for k in range(REFINE_STEPS):
        step = LARGEST_STEP * 0.5 ** (k // HALVE_EVERY) * eps.unsqueeze(1)
        delta = search.project(delta + step * search.step(gradient, paths.signs), eps)
        margin, gradient = search.gradient(delta)
        best = torch.where((margin < least).unsqueeze(1), delta, best)
        least = torch.minimum(least, margin)
    paths.delta = best
    return least


def _on_its_ray(search: _Search, delta: Tensor) -> Tensor:
    """Flips scaled down towards the boundary by bisection, still flips."""
    low, high = torch.zeros_like(delta[:, :1]), torch.ones_like(delta[:, :1])
    for _ in range(HALVINGS if len(delta) else 0):
        middle = (low + high) / 2
        flipped = search.flipped(middle * delta).unsqueeze(1)
        low, high = torch.where(flipped, low, middle), torch.where(flipped, middle, high)
    return high * delta
