"""Trees of cuts at the kinks of hidden neurons: where a quadratic proof of a region falls short, it is looked for in parts of it."""

import time
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

import numpy as np

from featureprism.certificates.quadratic_leaves import TO_BLAME, Around, Leaf, tried_ellipsoids
from featureprism.certificates.semidefinite import ENOUGH
from featureprism.checker.deep import Tree, leaf_proves, proves
from featureprism.checker.enclosed import with_room

BEGUN, GROWN = (
    0.125,
    0.5,
)  # of the cells that are left, the most that a tree may seem to need before its first cut, and later
MOST, LEAST = 30, 0.01  # levels that are counted, and of what is missing the least that a cut is taken to add


@dataclass
class Effort:
    """How many more parts of regions may be tried, and until when; a tree that does not close has used them too."""

    cells: int
    deadline: float = np.inf

    def allows(self, cells: float) -> bool:
        """Whether so many may be tried."""
        return cells <= self.cells and time.perf_counter() < self.deadline


@dataclass(frozen=True, eq=False)
class Question:
    """Whether a class stays ahead of a rival in a region; `scale` is its margin at the point."""

    own: int
    rival: int
    scale: float


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
    around: Around, question: Question, side: np.ndarray, effort: Effort, *, guessed: bool
) -> Tried:
    """By one leaf, or by a tree where that seems to take no more cells than are left."""
    root: Tree = {}
    best = _settle(root, around, question, side, guessed=guessed)
    if "block" in root:
        return Tried(root, 0.0, best.side if best is not None else side)
    if best is None:
        return Tried(None, np.inf, side)
    short_by = max(-best.solved.likely / question.scale, 0.0)
    grown = _grown(root, best, question, effort)
    region = around.region
    with with_room():
        is_proven = grown and proves(root, around.model, around.x, question.own, question.rival, region)
    return Tried(root if is_proven else None, short_by, best.side)


def _grown(root: Tree, best: Leaf, question: Question, effort: Effort) -> bool:
    """Cut the worst leaf again and again until all are proven, or too many cells seem to be needed."""
    numbers = count()
    waiting = [_Open(best.solved.likely, next(numbers), root, best)]
    begun = effort.cells
    while waiting:
        needed = sum(_cells_needed(one.leaf, -best.solved.likely, question.scale) for one in waiting)
        used = begun - effort.cells
        if not (effort.allows(2) and used + needed <= (GROWN if used else BEGUN) * begun):
            return False
        worst = heappop(waiting)
        neuron = int(worst.leaf.doubts[0][0])
        worst.node |= {"cut": neuron, "value": 0.0, "below": {}, "above": {}}
        for name, sign in (("below", -1.0), ("above", 1.0)):
            effort.cells -= 1
            node, part = worst.node[name], worst.leaf.around.cut(neuron, sign)
            left = _settle(node, part, question, worst.leaf.side, -worst.likely)
            if "block" in node:
                continue
            if left is None:
                return False
            heappush(waiting, _Open(left.solved.likely, next(numbers), node, left))
    return True


def _settle(
    node: Tree,
    around: Around,
    question: Question,
    side: np.ndarray,
    before: float = np.inf,
    *,
    guessed: bool = False,
) -> Leaf | None:
    """Put the parameters of a leaf that the checker verifies into the node; the best leaf that was tried, if any was."""
    own, rival = question.own, question.rival
    if (around.is_empty or around.crown(own)[rival] > 0) and _is_proven(
        around, question, claim := {"block": around.bounds}
    ):
        node |= claim
        return None
    best = None
    for leaf in tried_ellipsoids(around, (own, rival), side, question.scale, before, guessed=guessed):
        if best is None or leaf.solved.likely > best.solved.likely:
            best = leaf
        if leaf.solved.bound > 0:
            claim = {"block": np.concatenate([around.bounds, leaf.multipliers])}
            if _is_proven(around, question, claim):
                node |= claim
                return leaf
    return best


def _is_proven(around: Around, question: Question, leaf: Tree) -> bool:
    """Whether the checker verifies a leaf, with room for another order of summation."""
    with with_room():
        try:
            return leaf_proves(
                leaf, around.model, around.x, question.own, question.rival, around.region, around.signs
            )
        except ValueError:
            return False


def _cells_needed(leaf: Leaf, whole: float, scale: float) -> float:
    """About how many, where every level adds what the best cut seems to add, or the mean of those on the way here if that is more.

    No number is enough where cuts are not what is missing. `whole`: what was missing before any cut.
    """
    gains, depth = leaf.doubts[1], len(leaf.around.signs)
    missing = max(-leaf.solved.likely, ENOUGH * scale)
    helped = leaf.has_best_ellipsoid or gains.sum() >= TO_BLAME * missing
    if not (len(gains) and helped and np.isfinite(missing)):
        return np.inf
    gain = max(gains[0], (whole - missing) / depth if depth else 0.0, LEAST * missing)
    return 2.0 ** min(np.floor(missing / gain) + 1, len(gains), MOST) * 2 - 2
