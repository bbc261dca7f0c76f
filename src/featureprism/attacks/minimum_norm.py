"""The shortest perturbation that changes the answer: a minimum-norm attack over all target classes, with restarts.

It begins at the point with FMN (Pintor et al., NeurIPS 2021; for ℓ2 close to DDN, Rony et al., CVPR 2019), which follows the gradient
of the margin while the radius of the ball shrinks after a flip and grows after a miss. Every restart is a projected descent from a
random place of the ball just below the shortest flip known (as APGD does, Croce & Hein, ICML 2020), and what flips there is shortened
by further descents at smaller and smaller radii. Restarts end when several in a row found nothing. Small networks of few dimensions
can be flat on the way to all flips: there random places of the ball are tried first.

On some networks the margin alone leads every descent to the same few places. A restart therefore begins with random weights of the
scores (output diversification; Tashiro et al., NeurIPS 2020), which turn into those of the margin on the way.

Every row (a point and a target) is computed as if it were alone: random numbers come from a hash of the point, the target and the
restart, and the network sees batches of a fixed size, so that rounding does not depend on the other rows either.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import cos, inf, pi
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from featureprism.attacks.boundary import slide
from featureprism.geometry import ROWS, Box, Sides, batches, in_batches
from featureprism.models.protocols import HasScoreGradient

FMN_STEPS = 100
RADIUS_RATES = 0.1, 0.001  # relative change of the radius after a hit or a miss, at first and at last
SHRINKS = 0.98, 0.995  # of the shortest flip: the radius of a restart, at first and after many in vain
OUTSIDE = 3  # one of three restarts begins outside of the ball
FAR = 30.0  # there: times the first-order distance to the boundary
RESTARTS, PATIENCE = 60, 12  # at most, and how many in a row may find nothing
STEPS = 60  # of the descent of a restart
FIRST_STEP, LAST_STEP = 2.0, 0.02  # times the radius: at first from one side of the ball to the other
MOMENTUM = 0.25  # share of the last move
DIVERSE = 0.25  # of the steps, with weights that are not those of the margin
SHORTEN_STEPS = 30  # of the descents that shorten a flip
SHORTEN_SHRINKS = 0.97, 0.99, 0.997, 0.9993  # of the flip that is shortened
SHORTEN_ROUNDS = 4  # at most with each of these
GAIN = 1e-3  # relative: less is no gain
MANY_ROWS = 128  # that a small network sees at once
HALVINGS = 16  # of the ray through a flip
FEW_DIMENSIONS = 32  # ℓ∞: up to here random places are tried where no gradient leads
SAMPLES, SAMPLE_ROUNDS = 256, 6  # of each point
KEPT_SAMPLES = 8  # of each round, those that are followed along their ray
STEEP_SHARE = 0.05  # of the coordinates: those along which an ℓ1 step goes


class TargetMargins:
    """Margins f_label - f_target and their gradients, row by row; `weights` are those of the scores."""

    def __init__(
        self,
        scores: Any,
        label: Int[Tensor, " m"],
        target: Int[Tensor, " m"],
        weights: Float[Tensor, "m k"],
        batch: int = ROWS,
    ) -> None:
        self.scores, self.label, self.target, self.weights, self.batch = scores, label, target, weights, batch

    @classmethod
    def of(cls, scores: Any, label: Tensor, target: Tensor, num_classes: int, batch: int) -> "TargetMargins":
        """The margins of rows with these classes; the network sees `batch` rows at once."""
        weights = (one_hot(label, num_classes) - one_hot(target, num_classes)).double()
        return cls(scores, label, target, weights, batch)

    def rows(self, index: Int[Tensor, " r"]) -> "TargetMargins":
        """The margins of some rows."""
        label, target, weights = (part[index] for part in (self.label, self.target, self.weights))
        return TargetMargins(self.scores, label, target, weights, self.batch)

    def __call__(self, z: Float[Tensor, "m d"]) -> Float[Tensor, " m"]:
        """f_label - f_target."""
        with torch.no_grad():
            return (self.weights * in_batches(self.scores, z, self.batch)).sum(dim=1)

    def input_gradient(self, z: Float[Tensor, "m d"]) -> tuple[Float[Tensor, " m"], Float[Tensor, "m d"]]:
        """f_label - f_target and its gradient."""
        scores, gradient = self.pulled(z, self.weights)
        return (self.weights * scores).sum(dim=1), gradient

    def pulled(
        self, z: Float[Tensor, "m d"], weights: Float[Tensor, "m k"]
    ) -> tuple[Float[Tensor, "m k"], Float[Tensor, "m d"]]:
        """All scores, and the gradient of their sum with these weights."""
        is_closed = isinstance(self.scores, HasScoreGradient)
        scores_and_gradient = self.scores.score_gradient if is_closed else partial(_by_autograd, self.scores)
        both = [
            scores_and_gradient(*parts)
            for parts in zip(batches(z, self.batch), batches(weights, self.batch), strict=True)
        ]
        scores, gradient = zip(*both, strict=True)
        return torch.cat(scores)[: len(z)], torch.cat(gradient)[: len(z)]


def _by_autograd(net: Any, z: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        at = z.detach().requires_grad_()
        scores = net(at)
        (gradient,) = torch.autograd.grad((weights * scores).sum(), at)
    return scores.detach(), gradient


def _least_margin(scores: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """The margin before the best of the other classes, and that class."""
    second, other = scores.scatter(1, label.unsqueeze(1), -inf).max(dim=1)
    return scores.gather(1, label.unsqueeze(1)).squeeze(1) - second, other


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
        """Keep what is shorter; a row may be offered several times, the row -1 is none."""
        order = length.argsort(descending=True, stable=True)
        last = np.full(len(self.length) + 1, -1)
        last[rows[order].numpy()] = (
            order.numpy()
        )  # of offers to the same row the last one, which is the shortest
        best = torch.from_numpy(last[:-1][last[:-1] >= 0])
        best = best[length[best] < self.length[rows[best]]]
        self.length[rows[best]], self.delta[rows[best]] = length[best], delta[best]


@torch.no_grad()
def minimum_norm(
    scores: Any,
    x: Float[Tensor, "m d"],
    label: Int[Tensor, " m"],
    target: Int[Tensor, " m"],
    point: Int[Tensor, " m"],
    *,
    norm: float,
    domain: Sides | None = None,
    reach: Float[Tensor, " m"],
    enough: float = 0.0,
    starts: Float[Tensor, "s m d"] | None = None,
    restarts: int = RESTARTS,
    together: int = 1,
) -> Flips:
    """The shortest perturbations found with f_label ≤ f_target, for rows that belong to points.

    Parameters
    ----------
    scores : callable
        The network, z (n, d) to scores (n, k), in the dtype of x.
    x, label, target, point : tensors
        One row for each pair of a point and a target class; `point` numbers the points from 0.
    norm : float
        1, 2 or math.inf.
    domain : pair of floats, optional
        Bounds of every coordinate of a perturbed point.
    reach : tensor
        No perturbation of a row is longer.
    enough : float
        A point is finished as soon as one of its rows has a flip of this length. Until then nothing depends on it.
    starts : tensor, optional
        Further perturbations (s, m, d) from which FMN begins.
    restarts : int
        At most.
    together : int
        So many restarts run side by side, which is faster where the network is small.
    """
    num_classes = int(scores(x[:1]).shape[1])
    margins = TargetMargins.of(scores, label, target, num_classes, ROWS if together == 1 else MANY_ROWS)
    search = _Search(margins, x, point, norm, Box.around(x, domain), reach)
    flips = Flips(torch.full_like(reach, inf), torch.zeros_like(x), point)
    margin, gradient = search.margins.input_gradient(x)
    distance = torch.minimum(_first_order(margin, gradient, norm), reach)
    flips.length[margin <= 0] = 0.0
    for start in (torch.zeros_like(x), *(() if starts is None else starts)):
        rows = torch.nonzero((flips.shortest() > enough)[point])[:, 0]
        _fmn(search.rows(rows), start[rows], rows, flips)
    row_of = torch.full((flips.num_points, num_classes), -1)
    row_of[point, target] = torch.arange(len(x))
    if norm == inf and x.shape[1] <= FEW_DIMENSIONS and restarts and together > 1:
        for number in range(SAMPLE_ROUNDS):
            _sample(search, number, flips, row_of, enough)
    _shorten(search, torch.arange(len(x)), flips, enough)
    missed = torch.zeros(flips.num_points, dtype=torch.long)
    for first in range(0, restarts, together):
        before = flips.shortest()
        rows = torch.nonzero(((missed < PATIENCE) & (before > enough))[point])[:, 0]
        if not len(rows):
            break
        number = torch.arange(first, first + together).repeat_interleave(len(rows))
        _restart(search, rows.repeat(together), number, distance, missed, flips, row_of)
        _shorten(search, rows[(flips.shortest() < before)[point[rows]]], flips, enough)
        missed = torch.where(flips.shortest() < (1 - GAIN) * before, 0, missed + together)
    _slide(search, flips, enough)
    return flips


def _sample(search: "_Search", number: int, flips: Flips, row_of: Tensor, enough: float) -> None:
    """Flips at random places and corners of the ball below the shortest flip of each point."""
    shortest = flips.shortest()
    first = row_of.clamp_min(0).amax(dim=1)  # a row of each point
    points = torch.nonzero((shortest > enough) & (row_of >= 0).any(dim=1))[:, 0]
    if not len(points):
        return
    part = search.rows(first[points].repeat_interleave(SAMPLES))
    places = torch.cat([_places(search.x[i], number) for i in first[points].tolist()])
    radius = torch.minimum(shortest[part.point], part.reach)
    delta = part.project(radius.unsqueeze(1) * places, radius)
    scores = in_batches(part.margins.scores, part.x + delta, part.margins.batch)
    margin, other = _least_margin(scores, part.margins.label)
    least = margin.reshape(len(points), SAMPLES).topk(KEPT_SAMPLES, dim=1, largest=False)
    kept = (least.indices + SAMPLES * torch.arange(len(points)).unsqueeze(1))[least.values <= 0]
    rows = row_of[part.point[kept], other[kept]]
    shorter = _on_its_ray(search.rows(rows), delta[kept])
    flips.take(rows, search.size(shorter), shorter)


def _places(x: Float[Tensor, " d"], number: int) -> Float[Tensor, "s d"]:
    """Places of the unit cube, every other one a corner; they depend on the point alone."""
    seed = (
        int.from_bytes(hashlib.sha256(x.numpy().tobytes() + f"/{number}".encode()).digest()[:8], "big") >> 1
    )
    noise = torch.rand(SAMPLES, len(x), generator=torch.Generator().manual_seed(seed), dtype=x.dtype)
    places = 2 * noise - 1
    places[::2] = places[::2].sign()
    return places


def _restart(
    search: "_Search",
    rows: Tensor,
    number: Tensor,
    distance: Tensor,
    missed: Tensor,
    flips: Flips,
    row_of: Tensor,
) -> None:
    """Descents of some rows, each with the number of a restart, from random places; keeps the flips to whatever class they met."""
    part, noise, weights = search.rows(rows), *_random(search, rows, number, row_of.shape[1])
    shrink = SHRINKS[1] + (SHRINKS[0] - SHRINKS[1]) * (missed < PATIENCE / 2)
    radius = torch.minimum((shrink * flips.shortest())[part.point], part.reach)
    start = radius.unsqueeze(1) * noise
    outside = torch.nonzero(number % OUTSIDE == 0)[:, 0]
    if len(outside):
        far = (FAR * distance[rows[outside]]).unsqueeze(1) * noise[outside]
        start[outside] = _fmn(part.rows(outside), far, rows[outside], flips)
        if weights is not None:
            weights[outside] = part.margins.weights[outside]
    margin, delta, other = _descend(part, start, radius, STEPS, weights=weights)
    hit = row_of[part.point, other][margin <= 0]
    shorter = _on_its_ray(search.rows(hit), delta[margin <= 0])
    flips.take(hit, search.size(shorter), shorter)


@dataclass(frozen=True)
class _Search:
    """What is asked of the rows."""

    margins: TargetMargins
    x: Tensor
    point: Tensor
    norm: float
    box: Box | None
    reach: Tensor

    def rows(self, index: Tensor) -> "_Search":
        """The same of some rows."""
        box = None if self.box is None else Box(self.box.low[index], self.box.high[index])
        x, point, reach = (part[index] for part in (self.x, self.point, self.reach))
        return _Search(self.margins.rows(index), x, point, self.norm, box, reach)

    def project(self, delta: Tensor, eps: Tensor) -> Tensor:
        """A near point of the ball and the box; the nearest one except for an ℓ1 or ℓ2 ball with a box."""
        column = torch.minimum(eps, self.reach).unsqueeze(1)
        if self.norm == inf:
            delta = torch.minimum(torch.maximum(delta, -column), column)
        if self.box is not None:
            delta = torch.minimum(torch.maximum(delta, self.box.low), self.box.high)
        if self.norm == inf:
            return delta
        if self.norm == 1:
            return onto_l1_ball(delta, column)
        length = torch.linalg.vector_norm(delta, dim=1, keepdim=True)
        return delta * (column / length.clamp_min(torch.finfo(delta.dtype).tiny)).clamp_max(1)

    def size(self, delta: Tensor) -> Tensor:
        return torch.linalg.vector_norm(delta, ord=self.norm, dim=1)

    def direction(self, gradient: Tensor, by_signs: bool) -> Tensor:
        """For ℓ∞ of root mean square 1, for ℓ2 of length 1, for ℓ1 also along the steepest coordinates alone."""
        if self.norm == 2 or (self.norm == 1 and not by_signs):
            return _unit(gradient)
        if self.norm == 1:
            count = max(1, round(STEEP_SHARE * gradient.shape[1]))
            least = gradient.abs().topk(count, dim=1).values[:, -1:]
            return torch.where(gradient.abs() >= least, gradient.sign(), 0.0) / count
        return gradient.sign() if by_signs else gradient.shape[1] ** 0.5 * _unit(gradient)


def _fmn(search: _Search, delta: Tensor, rows: Tensor, flips: Flips) -> Tensor:
    """Fast minimum-norm attack from some perturbations; where it ended."""
    eps = best = torch.full_like(search.reach, inf)
    best_delta, delta = delta, search.project(delta, search.reach)
    for k in range(FMN_STEPS):
        fall = (1 + cos(pi * k / FMN_STEPS)) / 2
        rate = RADIUS_RATES[1] + (RADIUS_RATES[0] - RADIUS_RATES[1]) * fall
        margin, gradient = search.margins.input_gradient(search.x + delta)
        length = search.size(delta)
        flipped = margin <= 0
        shorter = flipped & (length < best)
        best = torch.where(shorter, length, best)
        best_delta = torch.where(shorter.unsqueeze(1), delta, best_delta)
        to_boundary = length + _first_order(margin, gradient, search.norm)
        missed = torch.where(torch.isfinite(best), eps * (1 + rate), to_boundary)
        eps = torch.where(flipped, torch.minimum(eps * (1 - rate), best), missed)
        eps = torch.minimum(eps, search.reach)
        step = fall * eps.unsqueeze(1) * search.direction(gradient, by_signs=False)
        delta = search.project(delta - step, eps)
    flips.take(rows, best, best_delta)
    return torch.where(torch.isfinite(best).unsqueeze(1), best_delta, delta)


def _first_order(margin: Tensor, gradient: Tensor, norm: float) -> Tensor:
    """margin/‖∇margin‖ in the dual norm."""
    dual = torch.linalg.vector_norm(gradient, ord={1: inf, inf: 1}.get(norm, norm), dim=1)
    return margin / dual.clamp_min(torch.finfo(margin.dtype).tiny)


def onto_l1_ball(delta: Float[Tensor, "m d"], eps: Float[Tensor, "m 1"]) -> Float[Tensor, "m d"]:
    """The nearest point of ‖δ‖₁ ≤ eps in ℓ2: every coordinate is shortened by the same amount (Duchi et al., ICML 2008)."""
    size = delta.abs()
    ordered = size.sort(dim=1, descending=True).values
    excess = (ordered.cumsum(dim=1) - eps) / torch.arange(1, size.shape[1] + 1).to(size)
    last = (ordered > excess).sum(dim=1, keepdim=True).clamp_min(1) - 1
    shortened = delta.sign() * (size - excess.gather(1, last)).clamp_min(0)
    return torch.where(size.sum(dim=1, keepdim=True) <= eps, delta, shortened)


def _unit(gradient: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return gradient / length.clamp_min(torch.finfo(gradient.dtype).tiny)


def _random(
    search: _Search, rows: Tensor, number: Tensor, num_classes: int
) -> tuple[Float[Tensor, "r d"], Float[Tensor, "r k"] | None]:
    """A place in the unit ball and weights of the scores (None where there are but two) of each row and restart."""
    noise, weights = [], []
    for i, restart in zip(rows.tolist(), number.tolist(), strict=True):
        text = search.x[i].numpy().tobytes() + f"/{int(search.margins.target[i])}/{restart}".encode()
        seed = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1
        generator = torch.Generator().manual_seed(seed)
        noise.append(2 * torch.rand(search.x.shape[1], generator=generator, dtype=search.x.dtype) - 1)
        weights.append(torch.randn(num_classes, generator=generator, dtype=search.x.dtype))
    place = torch.stack(noise) if search.norm == inf else _unit(torch.stack(noise))
    target = one_hot(search.margins.target[rows], num_classes).to(place)
    return place, None if num_classes == 2 else torch.stack(weights) - target


def _descend(
    search: _Search,
    delta: Tensor,
    radius: Tensor,
    steps: int,
    *,
    weights: Float[Tensor, "m k"] | None = None,
    by_signs: bool = True,
) -> tuple[Float[Tensor, " m"], Float[Tensor, "m d"], Int[Tensor, " m"]]:
    """The least margin before any other class that each row meets in its ball, where, and that class.

    `weights` of the scores turn into those of the margin at first. `by_signs`: for ℓ∞ every coordinate moves by
    the same amount, else in proportion to the gradient.
    """
    eps, last = radius.unsqueeze(1), LAST_STEP / FIRST_STEP
    delta = before = search.project(delta, radius)
    least, best, other = torch.full_like(radius, inf), delta, search.margins.target
    for k in range(steps + 1):
        share, mixed = 1 - k / (DIVERSE * steps), search.margins.weights
        if weights is not None and share > 0:
            mixed = share * weights + (1 - share) * mixed
        scores, gradient = search.margins.pulled(search.x + delta, mixed)
        margin, ahead = _least_margin(scores, search.margins.label)
        better = margin < least
        best, other = torch.where(better.unsqueeze(1), delta, best), torch.where(better, ahead, other)
        least = torch.minimum(least, margin)
        step = FIRST_STEP * last ** (k / steps) * eps * search.direction(gradient, by_signs)
        move = MOMENTUM * (delta - before) - (1 - MOMENTUM) * step
        before, delta = delta, search.project(delta + move, radius)
    return least, best, other


def _shorten(search: _Search, rows: Tensor, flips: Flips, enough: float) -> None:
    """Shorten the shortest flip of each point, if it is one of these rows, by descents at smaller radii."""
    rows = rows[_is_shortest(flips, enough)[rows]]
    for shrink, by_signs in product(SHORTEN_SHRINKS, (True, False)):
        busy = rows
        for _ in range(SHORTEN_ROUNDS):
            busy = busy[flips.length[busy] > enough]
            if not len(busy):
                break
            part, radius = search.rows(busy), shrink * flips.length[busy]
            margin, delta, other = _descend(part, flips.delta[busy], radius, SHORTEN_STEPS, by_signs=by_signs)
            hit = torch.nonzero((margin <= 0) & (other == part.margins.target))[:, 0]
            shorter = _on_its_ray(part.rows(hit), delta[hit])
            busy = busy[hit]
            flips.take(busy, search.size(shorter), shorter)


def _slide(search: _Search, flips: Flips, enough: float) -> None:
    """Move the shortest flips along the boundary to where it is nearest."""
    rows = torch.nonzero(_is_shortest(flips, enough))[:, 0]
    if not len(rows):
        return
    part = search.rows(rows)
    ones = torch.ones_like(part.reach)
    delta = slide(part.margins, part.x, ones, flips.delta[rows], part.box, part.norm)
    flipped = part.margins(part.x + delta) <= 0
    flips.take(rows[flipped], part.size(delta[flipped]), delta[flipped])


def _is_shortest(flips: Flips, enough: float) -> Bool[Tensor, " m"]:
    """Which rows have the shortest flip of a point that is not finished."""
    shortest = flips.shortest()[flips.point]
    return (flips.length == shortest) & (shortest > enough) & torch.isfinite(shortest)


def _on_its_ray(search: _Search, delta: Tensor) -> Tensor:
    """Flips scaled down towards the boundary by bisection, still flips."""
    low, high = torch.zeros_like(delta[:, :1]), torch.ones_like(delta[:, :1])
    for _ in range(HALVINGS if len(delta) else 0):
        middle = (low + high) / 2
        flipped = (search.margins(search.x + middle * delta) <= 0).unsqueeze(1)
        low, high = torch.where(flipped, low, middle), torch.where(flipped, middle, high)
    return high * delta
