"""Sums of trees: every leaf is a box, and the nearest region of another class is found by a best-first search over boxes.

Within a box each tree says at least the least of its leaves there, so the class is kept where the sum of these is positive. A box where
it is not is cut at the side of a leaf. Boxes wait in the order of their distance from the point: what is nearest is a proven radius at
any time, and exact once a box is met whose nearest point flips. Source: Devos, Meert & Davis, Versatile Verification of Tree Ensembles,
2021, here for all norms, weights and bounds.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from featureprism.verify.query import Limits

SINGLE = 2.0**-22  # trees compare in float32: relative rounding of a coordinate, doubled
CLOSE = 0.005  # relative, to the norm's power: a bracket that need not be halved again
MOST_STEPS = 200  # of the attack
ROUNDING = 1e-9  # relative, of sums of leaves and of radii
Flips = Callable[[Float[np.ndarray, "m d"]], Bool[np.ndarray, " m"]]


@dataclass(frozen=True, eq=False)
class Trees:
    """The leaves of all trees: on the features of its path a leaf is lower < x ≤ upper, and adds `values` to the scores.

    Paths are filled up with sides that are infinite; the leaves of a tree stand together, `tree` says which.
    """

    feature: Int[np.ndarray, "l m"]
    lower: Float[np.ndarray, "l m"]
    upper: Float[np.ndarray, "l m"]
    values: Float[np.ndarray, "l k"]
    tree: Int[np.ndarray, " l"]
    start: Float[np.ndarray, " k"]

    def scores(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """The sum of the leaves that hold each point."""
        return np.stack([self.start + self.values[self.holds(point)].sum(axis=0) for point in x])

    def holds(self, x: Float[np.ndarray, " d"]) -> Bool[np.ndarray, " l"]:
        """Which leaves hold a point."""
        along = x[self.feature]
        return np.asarray(((self.lower < along) & (along <= self.upper)).all(axis=1))


@dataclass(frozen=True, eq=False)
class _Measure:
    """Norms of weighted changes, from gaps of single features."""

    norm: float
    weights: Float[np.ndarray, " d"]

    def gap(self, x: np.ndarray, lower: np.ndarray, upper: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """What x has to change to reach (lower, upper], a little too short for the rounding to float32; to the norm's power."""
        sides = [np.where(np.isfinite(side), side, 0.0) for side in (lower, upper)]
        below = lower - x - SINGLE * (np.abs(x) + np.abs(sides[0]))
        above = x - upper - SINGLE * (np.abs(x) + np.abs(sides[1]))
        gap = np.maximum(np.maximum(below, above), 0.0)
        scaled = np.where(gap > 0, gap * np.minimum(weights, 1e150), 0.0)
        return scaled if self.norm == inf else scaled**self.norm

    def together(self, gaps: np.ndarray) -> Any:
        """Of several features, still to the norm's power."""
        return gaps.max(axis=-1, initial=0.0) if self.norm == inf else gaps.sum(axis=-1)

    def grown(self, total: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """The total after one feature's gap grew."""
        return np.maximum(total, after) if self.norm == inf else total + (after - before)

    def radius(self, total: float) -> float:
        """The norm."""
        return float(total) if self.norm == inf else float(total) ** (1 / self.norm)

    def power(self, radius: float) -> float:
        """A norm as totals are."""
        return radius if self.norm == inf else radius**self.norm


@dataclass(frozen=True, eq=False)
class _Box:
    """A part of the space: its sides, the gap of every feature, and the leaves that it meets with their distances."""

    lower: np.ndarray
    upper: np.ndarray
    gaps: np.ndarray
    leaves: np.ndarray
    totals: np.ndarray


class Nearest:
    """The search for the nearest point of another class, from one point."""

    def __init__(
        self,
        trees: Trees,
        x: Float[np.ndarray, " d"],
        norm: float,
        weights: Float[np.ndarray, " d"],
        bounds: tuple[np.ndarray, np.ndarray],
        flips: Flips,
        limits: Limits,
    ) -> None:
        self.trees, self.x, self.flips, self.limits = trees, x, flips, limits
        self.measure, self.bounds = _Measure(norm, weights), bounds
        along = x[trees.feature]
        self.gaps = self.measure.gap(along, trees.lower, trees.upper, weights[trees.feature])
        self.reach, self.delta = inf, None  # of the shortest flip, to the norm's power

    def radius(self, label: int, attacked: float, delta: Float[np.ndarray, " d"]) -> float:
        """A radius within which `label` keeps the largest score; δ is the shortest flip that is known, if one is.

        Half of the time is spent at the shortest flip, the rest between what is proven and what is not.
        """
        self.reach = self.measure.power(attacked)
        if np.isfinite(attacked) and delta.any():
            self._shorten(label, self.x + delta)
        proven = self._proven(label, self.limits.share(2))
        above = self.reach
        while (
            proven < above * (1 - CLOSE)
            and above < inf
            and self.limits.allow()
            and self.limits.deadline < inf
        ):
            middle, limits = (proven + above) / 2, self.limits.share(2)
            found = self._proven(label, limits, middle)
            if found < middle:
                above = middle
            proven, above = max(proven, found), min(above, self.reach)
        return self.measure.radius(min(proven, self.reach)) * (1 - ROUNDING)

    def _proven(self, label: int, limits: Limits, within: float = inf) -> float:
        """The least over the other classes, no farther than the shortest flip and `within`."""
        others = [c for c in range(len(self.trees.start)) if c != label]
        proven = inf
        for place, other in enumerate(others):
            share = limits.share(len(others) - place)
            proven = min(proven, self._against(label, other, share, within))
            self.limits.note(share)
            if proven < min(within, self.reach) and within < inf:
                break
        return min(proven, within)

    def _shorten(self, label: int, z: np.ndarray) -> None:
        """From a flip to the nearest point of its leaves, and across single sides of them, as long as it flips and comes nearer.

        Source: Zhang, Zhang & Hsieh, An Efficient Adversarial Attack for Tree Ensembles, 2020.
        """
        trees = self.trees
        for _ in range(MOST_STEPS):
            held = trees.holds(z)
            lower, upper = np.full(len(z), -inf), np.full(len(z), inf)
            np.maximum.at(lower, trees.feature[held].ravel(), trees.lower[held].ravel())
            np.minimum.at(upper, trees.feature[held].ravel(), trees.upper[held].ravel())
            z = self._inside(lower, upper)
            if not self._keep(z):
                return
            moved = np.flatnonzero(z != self.x)
            trials = np.repeat(z[None], len(moved), axis=0)
            at = np.where(self.x[moved] <= lower[moved], lower[moved], upper[moved])
            away = 4 * SINGLE * np.maximum(np.abs(at), 1e-30)
            trials[np.arange(len(moved)), moved] = np.where(
                self.x[moved] <= lower[moved], at - away, at + away
            )
            flips = trees.scores(trials).argmax(axis=1) != label
            if not flips.any():
                return
            lengths = self.measure.together(self._change(trials))
            z = trials[np.where(flips, lengths, inf).argmin()]

    def _against(self, label: int, other: int, limits: Limits, within: float) -> float:
        """The least distance at which `other` may win, to the norm's power; `within` or farther where it is beyond."""
        trees = self.trees
        gain = trees.values[:, label] - trees.values[:, other]
        start = float(trees.start[label] - trees.start[other])
        # sums of whole numbers are exact, and of equal scores the first class wins
        is_exact = bool((trees.values == trees.values.round()).all()) and not start % 1
        needed = ROUNDING * (abs(start) + float(np.abs(gain).max()) * (trees.tree[-1] + 1))
        needed = needed if not is_exact else 0.5 if other < label else -0.5
        whole = np.full(len(self.x), -inf), np.full(len(self.x), inf)
        lower, upper = (np.broadcast_to(side, self.x.shape) for side in self.bounds)
        root = _Box(*whole, np.zeros_like(self.x), np.arange(len(gain)), self.measure.together(self.gaps))
        for j in np.flatnonzero(np.isfinite(lower)).tolist():
            root = self._part(root, j, np.nextafter(lower[j], -inf), root.upper[j])
        for j in np.flatnonzero(np.isfinite(upper)).tolist():
            root = self._part(root, j, root.lower[j], upper[j])
        order, popped, waiting = count(1), count(), [(0.0, 0, root)]
        while waiting:
            distance, _, box = heapq.heappop(waiting)
            if distance >= min(self.reach, within):
                break
            if not limits.allow(next(popped)):
                return distance
            near = box.totals <= min(self.reach, within)
            leaves, totals = box.leaves[near], box.totals[near]
            trees_here = trees.tree[leaves]
            first = np.flatnonzero(np.diff(trees_here, prepend=-1))
            if len(first) <= trees.tree[-1]:
                continue  # no point of the box is within reach
            value = gain[leaves]
            least = np.minimum.reduceat(value, first)
            if start + float(least.sum()) > needed:
                continue
            nearest = np.minimum.reduceat(totals, first)[trees_here] >= totals * (1 - 1e-12)
            here = np.maximum.reduceat(np.where(nearest, value, -inf), first)
            if start + float(here.sum()) <= needed and self._keep(self._inside(box.lower, box.upper)):
                return distance  # boxes that wait are no nearer
            tree = int((here - least).argmax())
            rows = slice(first[tree], first[tree + 1] if tree + 1 < len(first) else None)
            cut = self._cut(box, int(leaves[rows][value[rows].argmin()]))
            if cut is None and self._is_kept(box):
                continue  # the answer is the same in the whole box: scores are equal up to rounding
            if cut is None:
                return distance
            rest = _Box(box.lower, box.upper, box.gaps, leaves, totals)
            for low, high in ((box.lower[cut[0]], cut[1]), (cut[1], box.upper[cut[0]])):
                part = self._part(rest, cut[0], low, high)
                heapq.heappush(waiting, (float(self.measure.together(part.gaps)), next(order), part))
        return min(self.reach, within)

    def _inside(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The point of a box that is nearest to x, a little inside."""
        half, size = (high - low) / 2, np.maximum(1e-6 * np.abs(self.x), 1e-30)
        sides = [
            np.minimum(half, 4 * SINGLE * np.maximum(np.abs(np.where(np.isfinite(s), s, 0.0)), size))
            for s in (low, high)
        ]
        z = np.where(self.x <= low, low + sides[0], np.where(self.x > high, high - sides[1], self.x))
        return np.clip(z, *self.bounds)

    def _is_kept(self, box: _Box) -> bool:
        """Whether the model keeps its answer at a point of a box that lies in one leaf of every tree."""
        z = self._inside(box.lower, box.upper)
        inside = bool(((box.lower < z) & (z <= box.upper)).all())
        return inside and not self.flips(z[None])[0]

    def _change(self, z: Float[np.ndarray, "*m d"]) -> Float[np.ndarray, "*m d"]:
        """Changes of the features, to the norm's power."""
        change = np.abs(z - self.x) * np.where(z == self.x, 0.0, self.measure.weights)
        return change if self.measure.norm == inf else change**self.measure.norm

    def _keep(self, z: np.ndarray) -> bool:
        """Whether a point flips; it is kept where it is the nearest so far."""
        if not self.flips(z[None])[0]:
            return False
        total = float(self.measure.together(self._change(z)))
        if total < self.reach:
            self.delta, self.reach = z - self.x, total
        return True

    def _cut(self, box: _Box, leaf: int) -> tuple[int, float] | None:
        """The side of a leaf that cuts the box and takes it farthest from x."""
        feature = self.trees.feature[leaf]
        sides = [
            (self.trees.lower[leaf], self.trees.lower[leaf] > box.lower[feature]),
            (self.trees.upper[leaf], self.trees.upper[leaf] < box.upper[feature]),
        ]
        away = self.gaps[leaf] - box.gaps[feature]
        best: tuple[float, int, float] | None = None
        for above, (side, cuts) in zip((True, False), sides, strict=True):
            for m in np.flatnonzero(cuts).tolist():
                beyond = self.x[feature[m]] <= side[m] if above else self.x[feature[m]] > side[m]
                score = float(away[m]) if beyond else -1.0
                if best is None or score > best[0]:
                    best = score, int(feature[m]), float(side[m])
        return None if best is None else best[1:]

    def _part(self, box: _Box, j: int, low: float, high: float) -> _Box:
        """The part of a box where low < x_j ≤ high."""
        lower, upper, gaps = box.lower.copy(), box.upper.copy(), box.gaps.copy()
        lower[j], upper[j] = low, high
        at = np.array([self.x[j]])
        gaps[j] = self.measure.gap(at, np.array([low]), np.array([high]), self.measure.weights[[j]])[0]
        is_j = self.trees.feature[box.leaves] == j
        side_low = np.where(is_j, self.trees.lower[box.leaves], -inf).max(axis=1)
        side_high = np.where(is_j, self.trees.upper[box.leaves], inf).min(axis=1)
        own = self.measure.together(np.where(is_j, self.gaps[box.leaves], 0.0))
        before, after = np.maximum(own, box.gaps[j]), np.maximum(own, gaps[j])
        totals = self.measure.grown(box.totals, before, after)
        meets = np.maximum(side_low, low) < np.minimum(side_high, high)
        return _Box(lower, upper, gaps, box.leaves[meets], totals[meets])
