"""Branch and bound: cells are cut at the neuron whose bound is worst until the proven radius meets the attacked one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.certificates import hinges, lines, newton
from featureprism.certificates.cells import (
    Cells,
    Problem,
    Proof,
    evaluate,
    first_proof,
    improve,
    overestimate,
    restricted,
    whole_space,
)
from featureprism.certificates.interior import Space, solve
from featureprism.certificates.strong import Strong
from featureprism.certificates.units import Units
from featureprism.threads import one_thread

ROOT_STEPS, CHILD_STEPS = 30, 16
NEWTON_STEPS = 25  # where all neurons are ReLUs
LINE_STEPS, CHILD_LINE_STEPS = 30, 6  # of ascent for ℓ∞
NEARER = (
    0.98,
    0.95,
    0.92,
    0.88,
    0.84,
    0.8,
    0.75,
    0.7,
)  # shares of the reach at which an open ℓ∞ tree is looked at again
FEW_NEURONS = 64  # up to here Newton's method is worth its matrices
INSIDE = 0.1  # a cut stays this share of the interval away from its ends
AT_ONCE = 8  # leaves of one tree that are cut together: all of them have to be, if the tree is to close


@dataclass(eq=False)
class Node:
    """A cell with its proof, or a cut at t_neuron = value with the two cells beside it."""

    cells: Cells
    proof: Proof
    neuron: int = -1
    value: float = 0.0
    below: "Node | None" = None
    above: "Node | None" = None

    def leaves(self) -> list["Node"]:
        """The cells that together cover everything."""
        if self.below is None or self.above is None:
            return [self]
        return self.below.leaves() + self.above.leaves()

    @property
    def bound(self) -> float:
        """The radius this part of the tree proves."""
        return min(float(leaf.proof.bound) for leaf in self.leaves())

    def prune(self) -> float:
        """Take back the cuts that prove no more than the cell did without them: more cells never prove less. Returns the bound."""
        own = float(self.proof.bound)
        if self.below is None or self.above is None:
            return own
        best = min(self.below.prune(), self.above.prune())
        if best <= own:
            self.below = self.above = None
        return max(own, best)


@one_thread()
def prove(
    problem: Problem,
    t: Float[Tensor, "m h"],
    tau: Float[Tensor, " m"],
    goal: Float[Tensor, " m"],
    *,
    max_cells: int,
    deadline: float,
) -> list[Node]:
    """A tree of ℓ2 cells for every point, grown until its bound reaches `goal`, `max_cells` leaves or the deadline.

    `t`, `tau`: pre-activations and multiplier at the attack's witness. All points advance together, each cutting its worst cells.
    """
    units = Units.of(problem)
    problem, t, goal = units.scaled(problem), t / units.t, goal / units.reach
    strong = _few_of(problem, t)
    if strong is not None:
        problem, t = strong.problem(), strong.taken(t)
    solver = Solver.of(problem)
    cells = whole_space(problem)
    start = first_proof(problem, cells, t, tau * units.height / units.reach**2) if problem.p > 1 else None
    proof = solver.best(problem, cells, start, goal, ROOT_STEPS)
    trees = _grown(
        cells, proof, goal, max_cells, deadline, lambda leaves, i: _cut(problem, leaves, i, goal, solver)
    )
    for row, tree in enumerate(trees):
        if strong is not None:
            _lift(tree, strong, row)
        _unscale(tree, units, row, problem.p)
    return trees


def _few_of(problem: Problem, t: Float[Tensor, "m h"]) -> Strong | None:
    """The neurons that decide, where only without the others Newton's method is worth its matrices."""
    if problem.p == 1 or len(problem.gram) <= FEW_NEURONS:
        return None
    strong = Strong.of(problem, t)
    return strong if len(strong.neuron) < FEW_NEURONS else None


@dataclass(frozen=True)
class Solver:
    """How the multipliers of cells are found: by Newton's method for ReLUs and for few neurons of any power, else by ascent."""

    space: Space | None

    @classmethod
    def of(cls, problem: Problem) -> "Solver":
        """The one for a problem."""
        few = problem.p > 1 and len(problem.gram) <= FEW_NEURONS
        return cls(Space.of(problem.gram) if few else None)

    def best(self, problem: Problem, cells: Cells, start: Proof | None, goal: Tensor, steps: int) -> Proof:
        """The best proof that is found from a start; ReLUs need none."""
        if problem.p == 1:
            return newton.improve(problem, cells, start, goal, NEWTON_STEPS)
        assert start is not None
        if self.space is None:
            return improve(problem, cells, start, goal, steps)
        return solve(problem, cells, start, goal, self.space, steps)


def _lift(tree: Node, strong: Strong, row: int) -> None:
    """All nodes of a tree among all neurons."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        node.cells, node.proof = strong.lifted_cells(node.cells, row), strong.lifted_proof(node.proof, row)
        if node.below is not None and node.above is not None:
            node.neuron = int(strong.neuron[node.neuron])
            waiting += [node.below, node.above]


def _unscale(tree: Node, units: Units, row: int, p: float) -> None:
    """All nodes of a tree as they are without units."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        node.cells, node.proof = (
            units.unscaled_cells(node.cells, row),
            units.unscaled_proof(node.proof, row, p),
        )
        if node.below is not None and node.above is not None:
            node.value *= float(units.t[row, node.neuron])
            waiting += [node.below, node.above]


@one_thread()
def prove_box(
    problem: lines.BoxProblem,
    t: Float[Tensor, "m h"],
    goal: Float[Tensor, " m"],
    *,
    max_cells: int,
    deadline: float,
) -> tuple[list[Node], Float[Tensor, " m"]]:
    """The same for ℓ∞, with or without a box, and the reach of each tree; `t`: pre-activations at the attack's witness.

    A tree that does not close speaks of a smaller ball, if it proves more there.
    """
    cells = lines.whole_box(problem)
    proof = lines.improve(problem, cells, lines.first_lines(problem, cells, t), goal, LINE_STEPS)
    trees = _grown(
        cells, proof, goal, max_cells, deadline, lambda leaves, i: _cut_box(problem, leaves, i, goal)
    )
    reach = problem.reach.clone()
    for i, tree in enumerate(trees):
        if tree.bound < float(goal[i]):
            reach[i] = _look_nearer(problem.rows(torch.tensor([i])), tree, float(reach[i]))
    return trees, reach


def _look_nearer(problem: lines.BoxProblem, tree: Node, reach: float) -> float:
    """The reach at which the cuts of a tree prove most: chords are shorter in a smaller ball. Its leaves become those of that reach."""
    leaves = tree.leaves()
    cells, proof = _stacked(leaves)
    many = problem.rows(torch.zeros(len(leaves), dtype=torch.long))
    best, most = (reach, cells, proof), float(proof.bound.min())
    for share in NEARER:
        if share * reach <= most:
            break
        near = replace(many, reach=share * many.reach)
        part = lines.within(cells, lines.whole_box(near))
        again = lines.improve(near, part, lines.evaluate(near, part, proof), near.reach, CHILD_LINE_STEPS)
        if (least := min(share * reach, float(again.bound.min()))) > most:
            best, most = (share * reach, part, again), least
    for i, leaf in enumerate(leaves):
        same = _node(best[1], best[2], i)
        leaf.cells, leaf.proof = same.cells, same.proof
    return best[0]


def _grown(
    cells: Cells,
    proof: Proof,
    goal: Tensor,
    max_cells: int,
    deadline: float,
    cut: Callable[[list[Node], Tensor], None],
) -> list[Node]:
    """Trees from their roots: in every round the worst leaves of every tree that is not finished are cut together."""
    roots = [_node(cells, proof, i) for i in range(len(goal))]
    open_leaves, goals = [[root] for root in roots], goal.tolist()
    while time.perf_counter() < deadline:
        chosen: list[tuple[int, Node]] = []
        for i, leaves in enumerate(open_leaves):
            leaves.sort(key=_bound)
            low = [leaf for leaf in leaves[:AT_ONCE] if _bound(leaf) < goals[i]]
            chosen += [(i, leaf) for leaf in low[: max(0, max_cells - len(leaves))]]
        if not chosen:
            break
        cut([leaf for _, leaf in chosen], torch.tensor([i for i, _ in chosen]))
        for i, leaf in chosen:
            assert leaf.below is not None
            assert leaf.above is not None
            open_leaves[i].remove(leaf)
            open_leaves[i] += [leaf.below, leaf.above]
    for root in roots:
        root.prune()
    return roots


def _node(cells: Cells, proof: Proof, i: int) -> Node:
    row = torch.tensor([i])
    return Node(cells.rows(row), proof.rows(row))


def _cut_value(low: Tensor, high: Tensor, t: Tensor, p: float) -> Tensor:
    """Where to cut an interval: at the kink for p ≤ 2, halfway up a neuron's first rise for p > 2; then at t, well inside."""
    if p == 1:
        return torch.zeros_like(low)
    inset = INSIDE * (high - low)
    inside = torch.minimum(torch.maximum(t, low + inset), high - inset)
    if p <= 2:
        return torch.where((low < 0) & (high > 0), torch.zeros_like(low), inside)
    return torch.where(low <= 0, high / 2, inside)


def _bound(leaf: Node) -> float:
    return float(leaf.proof.bound)


def _stacked(leaves: Sequence[Node]) -> tuple[Cells, Proof]:
    cells = {n: torch.cat([getattr(leaf.cells, n) for leaf in leaves]) for n in Cells.__dataclass_fields__}
    proof = {n: torch.cat([getattr(leaf.proof, n) for leaf in leaves]) for n in Proof.__dataclass_fields__}
    return Cells(**cells), Proof(**proof)


def _split(leaves: list[Node], neuron: Tensor, value: Tensor, both: Cells, proven: Proof) -> None:
    """Put the proven halves, all lower ones first, below the leaves that were cut."""
    for k, leaf in enumerate(leaves):
        leaf.neuron, leaf.value = int(neuron[k]), float(value[k])
        leaf.below, leaf.above = _node(both, proven, k), _node(both, proven, k + len(leaves))


def _cut(problem: Problem, leaves: list[Node], index: Tensor, goal: Tensor, solver: Solver) -> None:
    """Cut each leaf at its worst neuron and prove the two halves, at least as well as the whole was."""
    part = problem.rows(index)
    cells, proof = _stacked(leaves)
    doubts = hinges.overestimate if problem.p == 1 else overestimate
    neuron = doubts(part, cells, proof).argmax(dim=1)
    rows = torch.arange(len(leaves))
    low, high = cells.low[rows, neuron], cells.high[rows, neuron]
    value = _cut_value(low, high, proof.t[rows, neuron], problem.p)
    halves = [restricted(part, cells, neuron, value, above) for above in (False, True)]
    both = Cells(*(torch.cat([getattr(h, n) for h in halves]) for n in Cells.__dataclass_fields__))
    twice = torch.cat([rows, rows])
    doubled = part.rows(twice)
    start = proof.rows(twice)
    if problem.p > 1:
        start = evaluate(doubled, both, start)
        if solver.space is None:
            start = start.better_of(first_proof(doubled, both, proof.t[twice], proof.tau[twice]))
    proven = solver.best(doubled, both, start, goal[index][twice], CHILD_STEPS)
    _split(leaves, neuron, value, both, proven)


def _cut_box(problem: lines.BoxProblem, leaves: list[Node], index: Tensor, goal: Tensor) -> None:
    """The same for ℓ∞; the halves start from the lines of the whole."""
    part = problem.rows(index)
    cells, proof = _stacked(leaves)
    values = _cut_value(cells.low, cells.high, proof.t, problem.p)
    neuron = lines.cut_at(part, cells, proof, values)
    rows = torch.arange(len(leaves))
    value = values[rows, neuron]
    both, twice = lines.halved(cells, neuron, value), torch.cat([rows, rows])
    doubled = part.rows(twice)
    start = lines.evaluate(doubled, both, proof.rows(twice))
    proven = lines.improve(doubled, both, start, goal[index][twice], CHILD_LINE_STEPS)
    _split(leaves, neuron, value, both, proven)
