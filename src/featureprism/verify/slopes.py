"""Linear relaxations with optimised slopes (α-CROWN, Xu et al. 2021), of layers of any activation and in any norm.

A line below and a line above every neuron are given by their slopes; how far each is shifted follows. One set of slopes bounds the
neurons, another one, for every target, the margin. All slopes climb together: where φ(z) - s z is least, its derivative by s is -z.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import inf

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism._threads import one_blas_thread
from featureprism.checker.certificate import EVERYWHERE, Certificate
from featureprism.checker.curves import CURVES
from featureprism.checker.enclosed import SLACK, enclosed, unit, with_room
from featureprism.checker.layers import Layers, Region
from featureprism.checker.models import as_layers
from featureprism.checker.slopes import lines_of, next_bounds, verified
from featureprism.geometry import Box, LpBall
from featureprism.models.activations import of_layers_named
from featureprism.models.model import Model
from featureprism.verify.attack import default_reach
from featureprism.verify.pairs import Method, Pairs
from featureprism.verify.query import OVERSHOOT, Limits, Query

MOST_INPUTS = 4096
CANDIDATES = 17  # slopes at the start: those of the curve at so many places
HALVINGS, TRIALS = 12, 6  # of the radius, with the slopes of the start and with optimised ones
STEPS, RATE, DECAY = 30, 0.05, 0.97  # of Adam
SMALLER = (0.0, 1e-6, 1e-4, 1e-3, 1e-2)  # shares by which a radius shrinks until the checker takes it
TABLE = 2001  # places at which derivatives are tabulated
FAR = 30.0

Line = tuple[Tensor, Tensor, Tensor, Tensor]  # slope and offset below, slope and offset above


class OptimisedSlopes(Method):
    """Lines of optimised slopes below and above every neuron: smooth activations, and ℓ1."""

    norms = (1, 2, inf)

    def applies(self, model: Model, query: Query) -> bool:
        layers = None if model.weights is None else as_layers(model.weights)
        if layers is None or layers.weights[0].shape[1] > MOST_INPUTS:
            return False
        return layers.activation != "relu" or query.norm == 1

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        assert pairs.model.weights is not None
        layers, query = as_layers(pairs.model.weights), pairs.query
        assert layers is not None
        attacked, _ = pairs.shortest()
        goal = OVERSHOOT * pairs.goal()
        open_points = torch.unique(pairs.point[rows]).tolist()
        for number, i in enumerate(open_points):
            of_point = torch.nonzero(pairs.point == i)[:, 0]
            share = limits.share(len(open_points) - number)
            targets = pairs.target[of_point].tolist()
            search = _Search(layers, pairs.x[i].numpy(), int(pairs.label[i]), targets, query, share)
            if query.eps is not None:
                found = search.at(float(goal[i]))
            else:
                farthest = default_reach(pairs.model.net, pairs.x[i : i + 1], query.norm)
                reach = min(float(attacked[i]), query.max_radius or float(farthest))
                found = search.farthest(reach, query.gap)
            for j, certificate in zip(of_point.tolist(), found, strict=True):
                if certificate is not None:
                    pairs.keep(j, certificate)
            limits.note(share)


@cache
def _tables(name: str) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """(bend, φ' in rising order, z) on each piece on which φ bends."""
    curve, found = CURVES[name], []
    borders = [-FAR, *(end for end, _ in curve.ends), FAR]
    for left, right, bend in zip(borders, borders[1:], curve.bends, strict=False):
        z = np.linspace(left, right, TABLE)
        steep = curve.slope(z)
        order = np.argsort(steep, kind="stable")
        found.append((bend, steep[order], z[order]))
    return found


def offsets(name: str, low: Tensor, high: Tensor, slope: Tensor, side: int) -> Tensor:
    """The least (side 1) or largest φ(z) - s z for low ≤ z ≤ high, differentiable in all three."""
    phi = of_layers_named(name)
    with torch.no_grad():
        if name == "relu":
            inner = [torch.zeros_like(slope)]
        else:
            s = slope.numpy()
            pieces = [(steep, z) for bend, steep, z in _tables(name) if bend == side]
            inner = [torch.from_numpy(np.interp(s, steep, z)) for steep, z in pieces]
        ends = [end.expand_as(slope) for end in (low, high)]
        places = torch.stack([*ends, *(torch.minimum(torch.maximum(z, low), high) for z in inner)])
        best = (side * (phi.value(places) - slope * places)).argmin(dim=0)
        inside = places.gather(0, best.unsqueeze(0))[0]
    z = torch.where(best == 0, low, torch.where(best == 1, high, inside))
    return phi.value(z) - slope * z


def first_slopes(name: str, low: Tensor, high: Tensor, side: int) -> Tensor:
    """Of some slopes of the curve, and its chord, those whose line is nearest to it in the middle of the interval."""
    phi = of_layers_named(name)
    places = low + (high - low) * torch.linspace(0, 1, CANDIDATES, dtype=low.dtype)[:, None]
    chord = (phi.value(high) - phi.value(low)) / (high - low).clamp_min(1e-300)
    tried = torch.cat([phi.derivative(places), chord[None]])
    middle = side * (tried * (low + high) / 2 + offsets(name, low, high, tried, side))
    return tried.gather(0, middle.argmax(dim=0, keepdim=True))[0]


@dataclass(eq=False)
class _Slopes:
    """Slopes below and above for each layer: (h,) of those that bound neurons, (targets, h) of those that bound margins."""

    below: list[Tensor]
    above: list[Tensor]
    margin_below: list[Tensor]
    margin_above: list[Tensor]

    def copy(self) -> "_Slopes":
        return _Slopes(*([t.detach().clone() for t in part] for part in self.parts()))

    def parts(self) -> tuple[list[Tensor], ...]:
        return self.below, self.above, self.margin_below, self.margin_above


class _Search:
    """One point of a class against some targets."""

    def __init__(
        self, model: Layers, x: np.ndarray, own: int, targets: list[int], query: Query, limits: Limits
    ) -> None:
        self.model, self.x, self.own, self.targets, self.query, self.limits = (
            model,
            x,
            own,
            targets,
            query,
            limits,
        )
        self.weights = [torch.from_numpy(W) for W in model.weights]
        biases = [torch.from_numpy(b) for b in model.biases]
        point = torch.from_numpy(x)
        self.biases = [self.weights[0] @ point + biases[0], *biases[1:]]
        self.box = None if query.bounds is None else Box.around(point[None], query.bounds)
        self.rows = self.weights[-1][own] - self.weights[-1][targets]
        self.gaps = biases[-1][own] - biases[-1][targets]

    def at(self, radius: float) -> list[Certificate | None]:
        """Certificates of one radius, None for targets that are not proven."""
        slopes = self.started(radius)
        found = self.certificates(radius, slopes, self.margins(radius, slopes) > 0)
        if all(found):
            return found
        best, proven = self.optimised(radius, slopes)
        better = self.certificates(radius, best, proven & torch.tensor([c is None for c in found]))
        return [old or new for old, new in zip(found, better, strict=True)]

    def farthest(self, reach: float, gap: float) -> list[Certificate | None]:
        """Certificates of the largest radius up to `reach` that was found."""
        low, high = 0.0, reach
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            holds = bool((self.margins(middle, self.started(middle)) > 0).all())
            low, high = (middle, high) if holds else (low, middle)
        found: list[Certificate | None] = [None for _ in self.targets]
        if low:
            found = self.certificates(low, self.started(low), torch.ones(len(self.targets), dtype=torch.bool))
        slopes, high = self.started(low or high), reach
        for _ in range(TRIALS):
            if high - low <= gap * high or not self.limits.allow():
                break
            middle = (low + high) / 2
            trial, proven = self.optimised(middle, slopes)
            new = self.certificates(middle, trial, proven)
            if all(new):
                low, found, slopes = middle, new, trial
            else:
                high = middle
        return found

    def started(self, radius: float) -> _Slopes:
        """Slopes of each layer by a rule, from the bounds that those before give."""
        with torch.no_grad():
            below, above, lines = [], [], []
            for _ in self.model.widths:
                low, high = self.next_bounds(radius, lines)
                below.append(first_slopes(self.model.activation, low, high, 1))
                above.append(first_slopes(self.model.activation, low, high, -1))
                lines.append(self.lines(low, high, below[-1], above[-1]))
        n = len(self.targets)
        copies = [[t.expand(n, -1).clone() for t in part] for part in (below, above)]
        return _Slopes(below, above, *copies)

    def lines(self, low: Tensor, high: Tensor, below: Tensor, above: Tensor) -> Line:
        name = self.model.activation
        return below, offsets(name, low, high, below, 1), above, offsets(name, low, high, above, -1)

    def next_bounds(self, radius: float, lines: list[Line]) -> tuple[Tensor, Tensor]:
        W, b = self.weights[len(lines)], self.biases[len(lines)]
        both = self.least(torch.cat([W, -W]), torch.cat([b, -b]), radius, lines)
        return both[: len(b)], -both[len(b) :]

    def least(self, rows: Tensor, offset: Tensor, radius: float, lines: list[Line]) -> Float[Tensor, " m"]:
        """About the least rows·h + offset; h the last layer that has lines."""
        if not lines:
            return offset + (rows * self.worst(rows.detach(), radius)).sum(dim=1)
        for k in range(len(lines) - 1, -1, -1):
            below, shift_below, above, shift_above = lines[k]
            positive = rows >= 0
            offset = offset + (rows * torch.where(positive, shift_below, shift_above)).sum(dim=1)
            rows = rows * torch.where(positive, below, above)
            offset = offset + rows @ self.biases[k]
            rows = rows @ self.weights[k]
        return offset + (rows * self.worst(rows.detach(), radius)).sum(dim=1)

    def worst(self, rows: Tensor, radius: float) -> Tensor:
        """The perturbations of the region at which rows·δ is least."""
        if self.query.norm == 1:
            return steepest_l1(-rows, radius, self.box)
        box = None if self.box is None else Box(self.box.low.expand_as(rows), self.box.high.expand_as(rows))
        return LpBall(self.query.norm, radius, box).steepest(-rows)

    def margins(self, radius: float, slopes: _Slopes) -> Float[Tensor, " t"]:
        """Bounds of the margins before all targets."""
        lines: list[Line] = []
        ends: list[tuple[Tensor, Tensor]] = []
        for below, above in zip(slopes.below, slopes.above, strict=True):
            ends.append(self.next_bounds(radius, lines))
            lines.append(self.lines(*ends[-1], below, above))
        of_margins = [
            self.lines(*end, below, above)
            for end, below, above in zip(ends, slopes.margin_below, slopes.margin_above, strict=True)
        ]
        return self.least(self.rows, self.gaps, radius, of_margins)

    def optimised(self, radius: float, slopes: _Slopes) -> tuple[_Slopes, Tensor]:
        """Slopes that climbed from these, and which targets they prove."""
        now = slopes.copy()
        parameters = [t.requires_grad_() for part in now.parts() for t in part]
        adam = torch.optim.Adam(parameters, lr=RATE, foreach=False)
        kept, best = slopes, torch.full((len(self.targets),), -inf, dtype=torch.float64)
        for _ in range(STEPS):
            with torch.enable_grad():
                margins = self.margins(radius, now)
                if float(margins.detach().min()) > float(best.min()):
                    best, kept = margins.detach(), now.copy()
                if bool((best > 0).all()) or not self.limits.allow():
                    break
                adam.zero_grad()
                (-torch.where(margins < 0, margins, 0.1 * margins).sum()).backward()
            adam.step()
            for group in adam.param_groups:
                group["lr"] *= DECAY
        return kept, best > 0

    def certificates(self, radius: float, slopes: _Slopes, wanted: Tensor) -> list[Certificate | None]:
        """What the checker takes, of this radius or a little less."""
        found: list[Certificate | None] = []
        with np.errstate(all="ignore"), one_blas_thread(), with_room():
            bounds = self.proven_bounds(radius, slopes)
            shared = [np.concatenate([t.numpy() for t in part]) for part in (slopes.below, slopes.above)]
            for t, target in enumerate(self.targets):
                of_margin = [torch.cat([v[t] for v in part]).numpy() for part in slopes.parts()[2:]]
                numbers = np.concatenate([*bounds, *shared, *of_margin])
                claim = Certificate(
                    radius,
                    "relaxation",
                    self.query.norm,
                    0.0,
                    {"numbers": numbers},
                    self.query.bounds or EVERYWHERE,
                )
                found.append(self._taken(claim, target) if bool(wanted[t]) else None)
        return found

    def _taken(self, claim: Certificate, target: int) -> Certificate | None:
        for share in SMALLER:
            smaller = replace(claim, radius=claim.radius * (1 - share))
            if verified(smaller, self.model, self.x, self.own, target) > 0:
                return replace(smaller, radius=smaller.radius * (1 - SLACK))
        return None

    def proven_bounds(self, radius: float, slopes: _Slopes) -> tuple[np.ndarray, np.ndarray]:
        """(H,) Bounds of all neurons with room for rounding, by the checker's arithmetic."""
        model = self.model
        c = enclosed(model.weights[0]) @ self.x + model.biases[0]
        region = Region.around(self.x, radius, self.query.norm, self.query.bounds or EVERYWHERE)
        lows, highs, lines = [], [], []
        for below, above in zip(slopes.below, slopes.above, strict=True):
            low, high = next_bounds(model, c, region, lines)
            size = np.maximum(np.abs(low), np.abs(high))
            width = SLACK * np.abs(high - low) + 8 * unit() * size + np.finfo(np.float64).tiny
            lows.append(low - width)
            highs.append(high + width)
            lines.append(lines_of(model, lows[-1], highs[-1], below.numpy(), above.numpy()))
        return np.concatenate(lows), np.concatenate(highs)


def steepest_l1(v: Float[Tensor, "m d"], radius: float, box: Box | None) -> Float[Tensor, "m d"]:
    """The δ with ‖δ‖₁ ≤ radius, in the box, with the largest ⟨v, δ⟩: the largest weights come first."""
    order = v.abs().argsort(dim=1, descending=True)
    room = torch.full_like(v, radius)
    if box is not None:
        room = torch.where(v > 0, box.high, -box.low).clamp_max(radius).gather(1, order)
    before = room.cumsum(dim=1) - room
    filled = torch.minimum((radius - before).clamp_min(0), room)
    return torch.zeros_like(v).scatter(1, order, filled) * v.sign()
