"""Branch and bound at the kinks of hidden neurons: where a quadratic proof of a region falls short, it is looked for in parts of it.

A leaf is a part of the region around a point with the quadratic proof that fits it best: its ellipsoid, its multipliers, its doubts.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np

from featureprism.checker.deep import Tree, leaf_proves, proves
from featureprism.checker.enclosed import Enclosed, enclosed, with_room
from featureprism.checker.layers import Layers, Neurons, Region, below, neuron_bounds
from featureprism.checker.lines import Bounds
from featureprism.checker.relaxations import Relaxation, first_values, relaxation
from featureprism.verify.deep.semidefinite import ENOUGH, SIDES, Solved, sampled_moments, solve
from featureprism.verify.query import Limits

ELLIPSOIDS = 3  # that are tried, each from the moments that the one before found
FLOOR, LEAST_WEIGHT = 0.5, 1e-3  # of the mean weight, first and later: no direction of an ellipsoid is free
DAMPED = 0.5  # power of a change of weights, after the first: undamped ones end in swings
MOST_ELLIPSOIDS, TO_BLAME = (
    8,
    0.1,
)  # where all cuts together seem to add less than this share of what is missing
HOPEFUL = 0.25  # of the last gain, the most that may be missing where one more ellipsoid is tried
LARGEST = 1000  # of the matrix of a quadratic proof; beyond, lines alone
MOST, LEAST_GAIN = (
    30,
    0.01,
)  # levels that are counted, and of what is missing the least that a cut is taken to add


@dataclass(frozen=True, eq=False)
class Around:
    """A point, a region around it, cuts of the region, and where the neurons lie: what all targets share."""

    model: Layers
    x: np.ndarray
    region: Region
    signs: dict[int, float]  # of neurons, counted through all layers: z ≥ 0 (+1) or z ≤ 0 (-1)
    known: list[Neurons]

    @classmethod
    def of(cls, model: Layers, x: np.ndarray, radius: float, norm: float, domain: Bounds) -> "Around":
        """The whole region, by lines alone."""
        return cls(model, x, Region.around(x, radius, norm, domain), {}, [])._known()

    def _known(self) -> "Around":
        with with_room():
            return replace(self, known=neuron_bounds(self.model, self._c, self.region, self.signs))

    @property
    def bounds(self) -> np.ndarray:
        """(2H,) Lower bounds of all neurons, then upper ones, as a proof stores them."""
        return np.concatenate([layer.low for layer in self.known] + [layer.high for layer in self.known])

    @cached_property
    def _c(self):
        return enclosed(self.model.weights[0]) @ self.x + self.model.biases[0]

    def cut(self, neuron: int, sign: float) -> "Around":
        """The part on one side of a neuron's kink."""
        return replace(self, signs={**self.signs, neuron: sign})._known()

    @property
    def is_empty(self) -> bool:
        """Whether no perturbation is here for sure."""
        return any(bool((layer.low > layer.high).any()) for layer in self.known)

    def crown(self, label: int) -> np.ndarray:
        """(k,) Proven margins of a class before every other, inf for itself."""
        if label not in self._margins:
            rows, offset = self.model.margins(label)
            bounds = below(rows, offset, self.known, self.model, self._c, self.region)
            bounds[label] = np.inf
            self._margins[label] = bounds
        return self._margins[label]

    @cached_property
    def _margins(self) -> dict[int, np.ndarray]:
        return {}

    @cached_property
    def _moments(self) -> dict[bytes, np.ndarray]:
        return {}

    def moments(self, relaxed: Relaxation, side: np.ndarray) -> np.ndarray:
        """Where to start solving: all targets share the moments of an ellipsoid; those of the last one are kept."""
        key = side.tobytes()
        if key not in self._moments:
            self._moments.clear()
            self._moments[key] = sampled_moments(relaxed)
        return self._moments[key]

    def relaxed(self, pair: tuple[int, int], side: np.ndarray) -> Relaxation | None:
        """The relaxation of f_label - f_target; None where there is none, or its matrix is too large."""
        relaxed = relaxation(self.model, self.x, pair, self.region, self.known, self.signs, side)
        if relaxed is None or len(relaxed.margin.mid) > LARGEST:
            return None
        few_inputs = first_values(self.model, self.known, self.signs) is None
        return _with_sides(relaxed, self.region) if few_inputs and not self.region.is_ball else relaxed


def _with_sides(relaxed: Relaxation, region: Region) -> Relaxation:
    """With (δ_i - low_i)(high_i - δ_i) ≥ 0 of every coordinate: where y holds δ, its multipliers are part of the solution."""
    d = len(region.low)
    rows = np.zeros((d, len(relaxed.margin.mid)))
    rows[np.arange(d), 1 + np.arange(d)] = 1.0
    low, high = rows.copy(), -rows
    low[:, 0], high[:, 0] = -region.low, region.high
    left, right = (
        Enclosed(np.concatenate([part.mid, more]), np.concatenate([part.rad, 0 * more]))
        for part, more in ((relaxed.left, low), (relaxed.right, high))
    )
    kind = np.concatenate([relaxed.kind, np.full(d, SIDES)])
    return replace(
        relaxed, left=left, right=right, kind=kind, neuron=np.concatenate([relaxed.neuron, np.arange(d)])
    )


@dataclass(frozen=True, eq=False)
class Leaf:
    """What one ellipsoid proves of a part of the region."""

    around: Around
    side: np.ndarray  # (1 + d,) the ellipsoid
    relaxed: Relaxation
    solved: Solved

    @property
    def has_best_ellipsoid(self) -> bool:
        """Whether it is the ball itself, or part of the solution."""
        return self.around.region.is_ball or bool((self.relaxed.kind == SIDES).any())

    @property
    def multipliers(self) -> np.ndarray:
        """As the checker reads them."""
        kind, neuron, weights = self.relaxed.kind, self.relaxed.neuron, self.solved.weights
        table, sides = np.zeros((3, sum(self.around.model.widths))), kind == SIDES
        table[kind[~sides], neuron[~sides]] = weights[~sides]
        if not sides.any():
            return np.concatenate([[self.solved.ball], self.side, table.flatten()])
        side = self.solved.ball * self.side
        side[1:] += weights[sides]
        return np.concatenate([[1.0], side, table.flatten()])

    @cached_property
    def doubts(self) -> tuple[np.ndarray, np.ndarray]:
        """Neurons that may be on or off, and about what a cut of each adds to the margin, the most first.

        In the worst case of the relaxation a neuron may be both a little, E h > 0 and E n > 0, although E h n = 0, which is worth κ.
        """
        hinge = np.flatnonzero(self.relaxed.kind == 0)
        h, n = (part.mid[hinge] @ self.solved.moments[0] for part in (self.relaxed.left, self.relaxed.right))
        gain = np.abs(self.solved.weights[hinge]) * np.maximum(np.minimum(h, n), 0) ** 2
        order = np.argsort(-np.nan_to_num(gain), kind="stable")
        return self.relaxed.neuron[hinge][order], np.nan_to_num(gain)[order]


def tried_ellipsoids(
    around: Around, pair: tuple[int, int], side: np.ndarray, scale: float, before: float, *, guessed: bool
) -> Iterator[Leaf]:
    """Leaves in ellipsoids that fit better and better, as long as one more may be enough.

    `before`: what was missing of the margin before this one, which was only `guessed` or was found with a solution.
    """
    for k in range(MOST_ELLIPSOIDS):
        relaxed = around.relaxed(pair, side)
        if relaxed is None:
            return
        leaf = Leaf(around, side, relaxed, solve(relaxed, scale, around.moments(relaxed, side)))
        yield leaf
        if leaf.has_best_ellipsoid:
            return
        missing = -leaf.solved.likely
        hopeful = k + 1 < ELLIPSOIDS and missing < HOPEFUL * (before - missing)
        if not (hopeful or leaf.doubts[1].sum() < TO_BLAME * missing):
            return
        before = missing
        side = following(leaf.solved, around, side, 1.0 if guessed and k == 0 else DAMPED)
        if not np.isfinite(side).all():
            return


def side_of(region: Region, force: np.ndarray) -> np.ndarray:
    """(1 + d,) The ellipsoid around the region in which ⟨force, δ⟩ has the same least value as in the region itself."""
    s = np.zeros_like(force)
    if region.is_ball:
        return np.concatenate([[1.0], s])
    low, high = region.low, region.high
    width = np.maximum(high - low, 1e-12)
    if region.norm == np.inf:
        s = np.abs(force) / width
        return np.concatenate([[0.0], s / max(s.mean(), 1e-300) + FLOOR])
    lam = float(region._multipliers(force[None])[0])
    if lam > 0:
        free = -force / lam
        at = np.clip(free, low, high)
        s = np.where(free != at, 2 * np.abs(free - at) / width, 0.0)
    return np.concatenate([[1.0], s])


def following(solved: Solved, around: Around, side: np.ndarray, power: float) -> np.ndarray:
    """(1 + d,) A better ellipsoid, from the moments of δ where the bound is attained.

    With D(δ - c) = -force the mean says which sides of the box hold δ back. ℓ∞: a coordinate that strays farther than its interval
    needs more weight, E(δ_i - mid_i)² = (width_i/2)² where it has any in the best ellipsoid of all.
    """
    region, D = around.region, side[0] + side[1:]
    mid = 0.5 * (region.low + region.high)
    c = side[1:] * mid / D
    mean, variance = _moments_of_perturbation(solved.moments, around, c, D)
    if region.norm == 2:
        return side_of(region, -D * (mean - c))
    away = np.sqrt(np.maximum(variance + (mean - mid) ** 2, 0))
    s = side[1:] * (away / np.maximum(0.5 * (region.high - region.low), 1e-12)) ** power
    return np.concatenate([[0.0], s / max(s.mean(), 1e-300) + LEAST_WEIGHT])


def _moments_of_perturbation(
    moments: np.ndarray, around: Around, c: np.ndarray, D: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(d,) Mean and variance of every coordinate of δ: where y has the first layer's values, of the δ with the least Σ D(δ - c)²."""
    used = first_values(around.model, around.known, around.signs)
    size = len(D) if used is None else len(used)
    mean, second = moments[0, 1 : 1 + size], moments[1 : 1 + size, 1 : 1 + size]
    spread = second - np.outer(mean, mean)
    if used is None:
        return mean, np.diagonal(spread)
    W = around.model.weights[0][used]
    G = (W / D) @ W.T
    ridge = 1e-10 * np.trace(G) / max(1, size) * np.eye(size)
    back = np.linalg.inv(G + ridge) @ W / D  # δ - c = backᵀ(z - centre)
    centre = W @ (around.x + c) + around.model.biases[0][used]
    return c + (mean - centre) @ back, ((spread @ back) * back).sum(axis=0)


@dataclass(frozen=True, eq=False)
class Pair:
    """Whether the true class stays ahead of a target class in a region; `scale` is its margin at the point."""

    label: int
    target: int
    scale: float


@dataclass(frozen=True)
class Patience:
    """Of the branches that are left, the most that a tree may seem to need: before its first cut, and after `tried` branches."""

    begun: float
    grown: float
    tried: int = 0


HASTY = Patience(0.125, 0.5)  # where another radius can be tried
PATIENT = Patience(
    inf, 8.0, 32
)  # at the radius that closes a bracket: what the first cuts added is known better than what they seem to
ENDLESS = Patience(inf, inf)  # where one radius is asked about


@dataclass(frozen=True, eq=False)
class Tried:
    """A tree that the checker grants, or None; what share of the margin the region without cuts stays below 0; the last ellipsoid."""

    tree: Tree | None
    short_by: float
    side: np.ndarray


@dataclass(order=True)
class _Open:
    """A node without a proof, the worst first."""

    likely: float
    number: int
    node: Tree = field(compare=False)
    leaf: Leaf = field(compare=False)


def quadratic_proof(
    around: Around, pair: Pair, side: np.ndarray, limits: Limits, patience: Patience, *, guessed: bool
) -> Tried:
    """By one leaf, or by a tree that grows until the limits end it or it seems to need too many branches."""
    began = time.thread_time()
    root: Tree = {}
    best = _settle(root, around, pair, side, guessed=guessed)
    if "block" in root:
        return Tried(root, 0.0, best.side if best is not None else side)
    if best is None:
        return Tried(None, np.inf, side)
    short_by = max(-best.solved.likely / pair.scale, 0.0)
    grown = _grown(root, best, pair, limits, time.thread_time() - began, patience)
    region = around.region
    with with_room():
        is_proven = grown and proves(root, around.model, around.x, pair.label, pair.target, region)
    return Tried(root if is_proven else None, short_by, best.side)


def _grown(
    root: Tree, best: Leaf, pair: Pair, limits: Limits, seconds_each: float, patience: Patience
) -> bool:
    """Cut the worst leaf again and again until all are proven, or the limits end it, or too many branches seem to be needed."""
    numbers = count()
    waiting = [_Open(best.solved.likely, next(numbers), root, best)]
    used = 0
    while waiting:
        if not limits.allow(2):
            return False
        share = patience.grown if used > patience.tried else patience.begun
        if share < inf:
            left = limits.affordable(seconds_each)
            cuts_alone = patience is PATIENT
            whole = -best.solved.likely
            needed = sum(_branches_needed(one.leaf, whole, pair.scale, cuts_alone) for one in waiting)
            if needed > share * (used + left) - used:
                limits.seemed_too_few = True
                return False
        worst = heappop(waiting)
        if not len(worst.leaf.doubts[0]):  # nothing left to cut: the relaxation itself falls short
            return False
        neuron = int(worst.leaf.doubts[0][0])
        worst.node |= {"cut": neuron, "value": 0.0, "below": {}, "above": {}}
        for name, sign in (("below", -1.0), ("above", 1.0)):
            limits.branches -= 1
            used += 1
            node, part = worst.node[name], worst.leaf.around.cut(neuron, sign)
            left_over = _settle(node, part, pair, worst.leaf.side, -worst.likely)
            if "block" in node:
                continue
            if left_over is None:
                return False
            heappush(waiting, _Open(left_over.solved.likely, next(numbers), node, left_over))
    return True


def _settle(
    node: Tree,
    around: Around,
    pair: Pair,
    side: np.ndarray,
    before: float = np.inf,
    *,
    guessed: bool = False,
) -> Leaf | None:
    """Put the parameters of a leaf that the checker verifies into the node; the best leaf that was tried, if any was."""
    label, target = pair.label, pair.target
    if (around.is_empty or around.crown(label)[target] > 0) and _is_proven(
        around, pair, claim := {"block": around.bounds}
    ):
        node |= claim
        return None
    best = None
    for leaf in tried_ellipsoids(around, (label, target), side, pair.scale, before, guessed=guessed):
        if best is None or leaf.solved.likely > best.solved.likely:
            best = leaf
        if leaf.solved.bound > 0:
            claim = {"block": np.concatenate([around.bounds, leaf.multipliers])}
            if _is_proven(around, pair, claim):
                node |= claim
                return leaf
    return best


def _is_proven(around: Around, pair: Pair, leaf: Tree) -> bool:
    """Whether the checker verifies a leaf, with room for another order of summation."""
    with with_room():
        try:
            return leaf_proves(
                leaf, around.model, around.x, pair.label, pair.target, around.region, around.signs
            )
        except ValueError:
            return False


def _branches_needed(leaf: Leaf, whole: float, scale: float, cuts_alone: bool) -> float:
    """About how many, where every level adds what the best cut seems to add, or the mean of those on the way here if that is more.

    No number is enough where cuts are not what is missing, unless they alone are tried. `whole`: what was missing before any cut.
    """
    gains, depth = leaf.doubts[1], len(leaf.around.signs)
    missing = max(-leaf.solved.likely, ENOUGH * scale)
    helped = cuts_alone or leaf.has_best_ellipsoid or gains.sum() >= TO_BLAME * missing
    if not (len(gains) and helped and np.isfinite(missing)):
        return np.inf
    gain = max(gains[0], (whole - missing) / depth if depth else 0.0, LEAST_GAIN * missing)
    return 2.0 ** min(np.floor(missing / gain) + 1, len(gains), MOST) * 2 - 2
