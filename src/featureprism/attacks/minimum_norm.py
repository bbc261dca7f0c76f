"""The shortest perturbation that changes the answer: a minimum-norm attack over all target classes, with restarts.

A restart has two phases. FMN (Pintor et al., NeurIPS 2021; for ℓ2 it is close to DDN, Rony et al., CVPR 2019) follows the gradient of the
margin while the radius of the ball shrinks after a flip and grows after a miss. The refinement descends the margin at a radius just below
the shortest flip of the point, for all its targets at once, with a step that is halved on the way as in APGD (Croce & Hein, ICML 2020).
Restarts go on until none of the last few found a shorter flip.

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

from featureprism.attacks.batches import batches, in_batches
from featureprism.geometry import Box, LpBall

FMN_STEPS = (100, 200)  # of the first restart and of the others
FMN_STEP = 1.0  # of the radius, in root mean square; falls to 0 by a cosine
RADIUS_RATES = (
    0.05,
    0.001,
)  # relative change of the radius after a hit or a miss, at the first and the last step
FAR = 20.0  # random starts: times the first-order distance to the boundary
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

    def __call__(self, z: Float[Tensor, "m d"]) -> Float[Tensor, " m"]:
        """f_own - f_target."""
        with torch.no_grad():
            scores = in_batches(self.scores, z)
        return (scores.gather(1, self.own.unsqueeze(1)) - scores.gather(1, self.target.unsqueeze(1))).squeeze(
            1
        )

    def gradient(self, z: Float[Tensor, "m d"]) -> tuple[Float[Tensor, " m"], Float[Tensor, "m d"]]:
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

    def forward(self, z: Float[Tensor, "n d"]) -> Float[Tensor, "n 2"]:
        """0 and f."""
        value = self.net(z)
        return torch.stack([torch.zeros_like(value), value], dim=1)


@dataclass
class Flips:
    """The shortest flip of each row, inf and 0 where there is none."""

    length: Float[Tensor, " m"]
    delta: Float[Tensor, "m d"]

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
    domain: tuple[float, float] | None = None,
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
    flips = Flips(torch.full_like(reach, inf), torch.zeros_like(x))
    wrong = margin <= 0
    flips.length[wrong] = 0.0
    missed = torch.zeros(search.num_points, dtype=torch.long)
    for restart in range(restarts):
        before = search.shortest(flips)
        active = torch.nonzero(((missed < PATIENCE) & (before > enough))[point])[:, 0]
        if not len(active):
            break
        begin = search.starts(active, restart, starts)
        steps = FMN_STEPS[min(restart, len(FMN_STEPS) - 1)]
        rows, delta, signs = _fmn(search, *begin, steps, flips)
        coarse = search.shortest(flips)
        _refine(search, rows, delta, signs, flips, enough)
        after = search.shortest(flips)
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


@dataclass
class _Search:
    """What is asked of the rows."""

    margins: TargetMargins
    x: Tensor
    point: Tensor
    norm: float
    box: Box | None
    reach: Tensor
    distance: Tensor  # to the boundary, by first order

    def __post_init__(self) -> None:
        self.num_points = int(self.point.max()) + 1 if len(self.point) else 0

    def ball(self, rows: Tensor, eps: Tensor) -> LpBall:
        box = None if self.box is None else Box(self.box.low[rows], self.box.high[rows])
        return LpBall(self.norm, torch.minimum(eps, self.reach[rows]), box)

    def gradient(self, rows: Tensor, delta: Tensor) -> tuple[Tensor, Tensor]:
        return self.margins.rows(rows).gradient(self.x[rows] + delta)

    def flipped(self, rows: Tensor, delta: Tensor) -> Tensor:
        return self.margins.rows(rows)(self.x[rows] + delta) < 0

    def size(self, delta: Tensor) -> Tensor:
        return torch.linalg.vector_norm(delta, ord=self.norm, dim=1)

    def shortest(self, flips: Flips) -> Tensor:
        """The shortest flip of each point."""
        least = flips.length.new_full((self.num_points,), inf)
        return least.scatter_reduce(0, self.point, flips.length, "amin")

    def step(self, gradient: Tensor, signs: Tensor) -> Tensor:
        """Unit step against the gradient: for ℓ∞ by signs or in proportion, both with root mean square 1; for ℓ2 of length 1."""
        length = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        even = gradient / length.clamp_min(torch.finfo(gradient.dtype).tiny)
        if self.norm == 2:
            return -even
        return -torch.where(signs.unsqueeze(1), gradient.sign(), even * gradient.shape[1] ** 0.5)

    def starts(self, rows: Tensor, restart: int, given: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Rows, first perturbations, and whether a row steps by signs: from zero first, then from far random perturbations."""
        x = self.x[rows]
        if restart == 0:
            first = [torch.zeros_like(x)] * (1 if self.norm == 2 else 2)
            first += [] if given is None else list(given[:, rows])
        else:
            noise = [
                _uniform(row, int(t), restart) for row, t in zip(x, self.margins.target[rows], strict=True)
            ]
            far = torch.stack(noise) * (FAR * 3.0 ** (restart % 2) * self.distance[rows]).unsqueeze(1)
            first = [far] * (1 if self.norm == 2 else 2)
        num = len(first)
        signs = (torch.arange(num) % 2 == 1).repeat_interleave(len(rows))
        every = rows.repeat(num)
        return every, self.ball(every, self.reach[every]).project(torch.cat(first)), signs


def _uniform(x: Float[Tensor, " d"], target: int, restart: int) -> Float[Tensor, " d"]:
    """Numbers from [-1, 1] that depend on the point, the target and the restart alone."""
    digest = hashlib.sha256(x.numpy().tobytes() + f"/{target}/{restart}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return 2 * torch.rand(x.shape, generator=generator, dtype=x.dtype) - 1


def _fmn(
    search: _Search, rows: Tensor, delta: Tensor, signs: Tensor, steps: int, flips: Flips
) -> tuple[Tensor, Tensor, Tensor]:
    """Fast minimum-norm attack: the last perturbation of each row, its shortest flip where there is one."""
    best, best_delta = search.reach.new_full((len(rows),), inf), delta
    eps = best
    for k in range(steps):
        fall = (1 + cos(pi * k / steps)) / 2
        rate = RADIUS_RATES[1] + (RADIUS_RATES[0] - RADIUS_RATES[1]) * fall
        margin, gradient = search.gradient(rows, delta)
        length = search.size(delta)
        flipped = margin < 0
        shorter = flipped & (length < best)
        best = torch.where(shorter, length, best)
        best_delta = torch.where(shorter.unsqueeze(1), delta, best_delta)
        to_boundary = length + _first_order(margin, gradient, search.norm)
        missed = torch.where(torch.isfinite(best), eps * (1 + rate), to_boundary)
        eps = torch.where(flipped, torch.minimum(eps * (1 - rate), best), missed)
        eps = torch.minimum(eps, search.reach[rows])
        step = FMN_STEP * fall * eps.unsqueeze(1) * search.step(gradient, signs)
        delta = search.ball(rows, eps).project(delta + step)
    flips.take(rows, best, best_delta)
    return rows, torch.where(torch.isfinite(best).unsqueeze(1), best_delta, delta), signs


def _refine(
    search: _Search,
    rows: Tensor,
    delta: Tensor,
    signs: Tensor,
    flips: Flips,
    enough: float,
) -> None:
    """Descend the margins of all rows of a point at radii just below its shortest flip, until that is as short as it gets."""
    shrink = flips.length.new_full((search.num_points,), SHRINK)
    for _ in range(REFINE_ROUNDS):
        before = search.shortest(flips)
        busy = torch.nonzero(((shrink < 1 - CLOSE) & (before > enough))[search.point[rows]])[:, 0]
        if not len(busy):
            return
        rows, delta, signs = rows[busy], delta[busy], ~signs[busy]
        point = search.point[rows]
        eps = torch.minimum(shrink[point] * before[point], search.reach[rows])
        margin, delta = _descend(search, rows, delta, signs, eps)
        hit = torch.nonzero(margin < 0)[:, 0]
        shorter = _on_its_ray(search, rows[hit], delta[hit])
        flips.take(rows[hit], search.size(shorter), shorter)
        gained = search.shortest(flips) < before
        shrink = torch.where(gained, shrink, 1 - NEARER * (1 - shrink))


def _descend(
    search: _Search, rows: Tensor, delta: Tensor, signs: Tensor, eps: Tensor
) -> tuple[Tensor, Tensor]:
    """The least margin met at one radius for each row, and where."""
    ball = search.ball(rows, eps)
    delta = ball.project(delta)
    margin, gradient = search.gradient(rows, delta)
    least, best = margin, delta
    for k in range(REFINE_STEPS):
        step = LARGEST_STEP * 0.5 ** (k // HALVE_EVERY) * eps.unsqueeze(1)
        delta = ball.project(delta + step * search.step(gradient, signs))
        margin, gradient = search.gradient(rows, delta)
        best = torch.where((margin < least).unsqueeze(1), delta, best)
        least = torch.minimum(least, margin)
    return least, best


def _on_its_ray(search: _Search, rows: Tensor, delta: Tensor) -> Tensor:
    """Flips scaled down towards the boundary by bisection, still flips."""
    low, high = torch.zeros_like(delta[:, :1]), torch.ones_like(delta[:, :1])
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        flipped = search.flipped(rows, middle * delta).unsqueeze(1)
        low, high = torch.where(flipped, low, middle), torch.where(flipped, middle, high)
    return high * delta
