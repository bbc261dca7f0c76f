"""Branch and bound: cells are cut at the neuron whose bound is worst until the proven radius meets the attacked one.

Where a wide network has few neurons that decide, only these are searched: below the others that vote for the label lies 0, above those
that vote against it lie their chords. The chords add up to one line, whose largest value in the ball a search takes for a constant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featureprism._threads import one_thread
from featureprism.models.activations import relu_power
from featureprism.verify.one_layer import linear_cells, newton
from featureprism.verify.one_layer.cells import (
    Cells,
    Problem,
    Proof,
    Units,
    evaluate,
    first_proof,
    improve,
    overestimate,
    restricted,
    whole_space,
)
from featureprism.verify.one_layer.envelopes import Quadratic, end_quadratic
from featureprism.verify.one_layer.interior_point import Space, solve
from featureprism.verify.query import Limits

LOSS = 1e-3  # of the margin at the point, at most: what is given up for a smaller search


@dataclass(frozen=True)
class Strong:
    """Which neurons a search keeps, of a problem in its units."""

    whole: Problem
    neuron: Int[Tensor, " k"]

    @classmethod
    def of(cls, problem: Problem, t: Float[Tensor, "m h"]) -> "Strong":
        """As few neurons as lose at most LOSS of the margin; `t`: pre-activations at the witness."""
        value = problem.size * relu_power(problem.t0, problem.p)
        margin = torch.where(problem.for_label, value, -value).sum(dim=1, keepdim=True)
        lost = problem.size * torch.where(problem.for_label, relu_power(t, problem.p), _chords(problem).at(t))
        lost = lost / margin.clamp_min(1e-300)
        order = lost.amax(dim=0).argsort()
        weak = int((lost[:, order].cumsum(dim=1).amax(dim=0) <= LOSS).sum())
        return cls(problem, order[weak:].sort().values)

    def problem(self) -> Problem:
        """The search's problem: the kept neurons, and last a constant one for all others."""
        whole, kept = self.whole, self.neuron
        q = _chords(whole)
        size = torch.where(whole.for_label, torch.zeros_like(whole.size), whole.size).index_fill(1, kept, 0.0)
        line = size * q.q1
        most = (size * q.at(whole.t0)).sum(dim=1) + ((line @ whole.gram) * line).sum(dim=1).clamp_min(
            0
        ).sqrt()
        gram = torch.zeros(len(kept) + 1, len(kept) + 1, dtype=line.dtype)
        gram[:-1, :-1] = whole.gram[kept][:, kept]
        return replace(
            whole,
            gram=gram,
            t0=self.taken(whole.t0),
            size=torch.cat([whole.size[:, kept], most.unsqueeze(1)], dim=1),
            for_label=torch.cat([whole.for_label[:, kept], torch.zeros_like(whole.for_label[:, :1])], dim=1),
        )

    def taken(self, t: Float[Tensor, "m h"]) -> Float[Tensor, "m k1"]:
        """Pre-activations of the kept neurons and of the constant one."""
        return torch.cat([t[:, self.neuron], torch.ones_like(t[:, :1])], dim=1)

    def lifted(self, row: int) -> Callable[[Cells, Proof], tuple[Cells, Proof]]:
        """How a cell of one row and its proof are written among all neurons: with lines for those that were left out."""
        whole, t0 = whole_space(self.whole.rows(torch.tensor([row]))), self.whole.t0[[row]]
        zero = torch.zeros_like(t0)
        base = dict.fromkeys(("slope", "kappa", "nu_floor", "nu_ceiling"), zero)
        base |= {"centre": torch.full_like(t0, torch.nan), "t": t0}

        def lift(cells: Cells, proof: Proof) -> tuple[Cells, Proof]:
            wide = {n: self._put(value, getattr(cells, n)) for n, value in whole.__dict__.items()}
            return Cells(**wide), replace(
                proof, **{n: self._put(v, getattr(proof, n)) for n, v in base.items()}
            )

        return lift

    def _put(self, base: Tensor, values: Tensor) -> Tensor:
        return base.index_copy(1, self.neuron, values[:, :-1])


def _chords(problem: Problem) -> Quadratic:
    """The lines above all neurons; 0 for those that never open."""
    cells, zero = whole_space(problem), torch.zeros_like(problem.t0)
    chord = end_quadratic(zero, cells.low, cells.high, problem.p)
    return Quadratic(*(torch.where(cells.high > 0, part, zero) for part in chord))


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
CHAIN, ALIKE = (
    16,
    0.5,
)  # cuts of one leaf at once, at neurons whose doubts are at least this share of the worst
AT_ONCE = 8  # leaves of one tree that are cut together: all of them have to be, if the tree is to close
MOST_BRANCHES = 100_000  # of one tree: what a proof file may hold


@dataclass(eq=False)
class Node:
    """A cell with its proof, or a cut at t_neuron = value with the two cells beside it."""

    cells: Cells
    proof: Proof
    neuron: int = -1
    value: float = 0.0
    below: "Node | None" = None
    above: "Node | None" = None

    def nodes(self) -> list["Node"]:
        """This one and all below it, each before its own parts."""
        nodes, waiting = [], [self]
        while waiting:
            node = waiting.pop()
            nodes.append(node)
            if node.below is not None and node.above is not None:
                waiting += [node.above, node.below]
        return nodes

    def leaves(self) -> list["Node"]:
        """The cells that together cover everything."""
        return [node for node in self.nodes() if node.below is None]

    @property
    def bound(self) -> float:
        """The radius this part of the tree proves."""
        return min(float(leaf.proof.bound) for leaf in self.leaves())

    def prune(self) -> float:
        """Take back the cuts that prove no more than the cell did without them: more cells never prove less. Returns the bound."""
        bounds: dict[int, float] = {}
        for node in reversed(self.nodes()):
            bounds[id(node)] = alone = float(node.proof.bound)
            if node.below is not None and node.above is not None:
                best = min(bounds[id(node.below)], bounds[id(node.above)])
                bounds[id(node)] = max(alone, best)
                if best <= alone:
                    node.below = node.above = None
        return bounds[id(self)]


@one_thread()
def prove(
    problem: Problem,
    t: Float[Tensor, "m h"],
    tau: Float[Tensor, " m"],
    goal: Float[Tensor, " m"],
    *,
    limits: Limits,
    whole: Cells | None = None,
) -> list[Node]:
    """A tree of ℓ2 cells for every point, grown until its bound reaches `goal` or the limits are used up.

    `t`, `tau`: pre-activations and multiplier at the attack's witness; `whole`: the cell of everything, where that is not the ball of
    the reach. All points advance together, each cutting its worst cells.
    """
    units = Units.of(problem)
    problem, t, goal = units.scaled(problem), t / units.t, goal / units.reach
    strong = _few_of(problem, t) if whole is None else None
    if strong is not None:
        problem, t = strong.problem(), strong.taken(t)
    solver = Solver.of(problem)
    cells = whole_space(problem) if whole is None else units.scaled_cells(whole)
    start = first_proof(problem, cells, t, tau * units.height / units.reach**2) if problem.p > 1 else None
    proof = solver.best(problem, cells, start, goal, ROOT_STEPS)
    trees = _grown(
        cells,
        proof,
        goal,
        limits,
        lambda leaves, i, most: _cut(problem, leaves, i, most, goal, solver),
    )
    for row, tree in enumerate(trees):
        if strong is not None:
            _lift(tree, strong, row)
        _unscale(tree, units, row, problem.p)
    return trees


@one_thread()
def prove_within(
    problem: Problem,
    cells: Cells,
    proof: Proof,
    goal: Float[Tensor, " m"],
    *,
    limits: Limits,
) -> list[Node]:
    """Trees of ReLU cells that grow from given roots and their proofs, without units."""
    solver = Solver.of(problem)
    return _grown(
        cells,
        proof,
        goal,
        limits,
        lambda leaves, i, most: _cut(problem, leaves, i, most, goal, solver),
    )


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
    lift = strong.lifted(row)
    for node in tree.nodes():
        node.cells, node.proof = lift(node.cells, node.proof)
        if node.below is not None:
            node.neuron = int(strong.neuron[node.neuron])


def _unscale(tree: Node, units: Units, row: int, p: float) -> None:
    """All nodes of a tree as they are without units."""
    for node in tree.nodes():
        node.cells = units.unscaled_cells(node.cells, row)
        node.proof = units.unscaled_proof(node.proof, row, p)
        if node.below is not None:
            node.value *= float(units.t[row, node.neuron])


@one_thread()
def prove_box(
    problem: linear_cells.BoxProblem,
    t: Float[Tensor, "m h"],
    goal: Float[Tensor, " m"],
    known: Float[Tensor, " m"],
    *,
    limits: Limits,
) -> tuple[list[Node], Float[Tensor, " m"]]:
    """The same for ℓ∞, with or without a box, and the reach of each tree; `t`: pre-activations at the attack's witness.

    A tree that does not close speaks of a smaller ball, if it proves more there, and more than is `known`.
    """
    cells = linear_cells.whole_box(problem)
    proof = linear_cells.improve(
        problem, cells, linear_cells.first_lines(problem, cells, t), goal, LINE_STEPS
    )
    trees = _grown(cells, proof, goal, limits, lambda leaves, i, _: _cut_box(problem, leaves, i, goal))
    reach = problem.reach.clone()
    for i, tree in enumerate(trees):
        if tree.bound < float(goal[i]):
            reach[i] = _look_nearer(problem.rows(torch.tensor([i])), tree, float(reach[i]), float(known[i]))
    return trees, reach


def _look_nearer(problem: linear_cells.BoxProblem, tree: Node, reach: float, known: float) -> float:
    """The reach at which the cuts of a tree prove most: chords are shorter in a smaller ball. Its leaves become those of that reach."""
    leaves = tree.leaves()
    cells, proof = _stacked(leaves)
    many = problem.rows(torch.zeros(len(leaves), dtype=torch.long))
    best, most = (reach, cells, proof), max(known, float(proof.bound.min()))
    for share in NEARER:
        if share * reach <= most:
            break
        near = replace(many, reach=share * many.reach)
        part = linear_cells.within(cells, linear_cells.whole_box(near))
        again = linear_cells.improve(
            near, part, linear_cells.evaluate(near, part, proof), near.reach, CHILD_LINE_STEPS
        )
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
    limits: Limits,
    cut: Callable[[list[Node], Tensor, Tensor], None],
) -> list[Node]:
    """Trees from their roots: in every round the worst leaves of every tree that is not finished are cut together.

    `cut` gets them, the row of each, and how many cuts each may have.
    """
    roots = [_node(cells, proof, i) for i in range(len(goal))]
    open_leaves, goals = [[root] for root in roots], goal.tolist()
    most_leaves = int(min(limits.branches, MOST_BRANCHES))
    while limits.allow():
        chosen: list[tuple[int, Node, int]] = []
        for i, leaves in enumerate(open_leaves):
            leaves.sort(key=_bound)
            left = max(0, most_leaves - len(leaves))
            low = [leaf for leaf in leaves[: min(AT_ONCE, left)] if _bound(leaf) < goals[i]]
            chosen += [(i, leaf, left // len(low)) for leaf in low]
        if not chosen:
            break
        rows, cut_leaves, most = zip(*chosen, strict=True)
        cut(list(cut_leaves), torch.tensor(rows), torch.tensor(most))
        for i, leaf, _ in chosen:
            open_leaves[i].remove(leaf)
            open_leaves[i] += leaf.leaves()
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


def _cut(
    problem: Problem, leaves: list[Node], index: Tensor, most: Tensor, goal: Tensor, solver: Solver
) -> None:
    """Cut pieces off each leaf, and prove them and the rest at least as well as the whole was."""
    part = problem.rows(index)
    cells, proof = _stacked(leaves)
    cuts, pieces = _pieces(part, cells, proof, most)
    of_leaf = torch.cat([rows for rows, _ in pieces])
    many = Cells(*(torch.cat([getattr(c, n) for _, c in pieces]) for n in Cells.__dataclass_fields__))
    wider, start = part.rows(of_leaf), proof.rows(of_leaf)
    if problem.p > 1:
        start = evaluate(wider, many, start)
        if solver.space is None:
            start = start.better_of(first_proof(wider, many, proof.t[of_leaf], proof.tau[of_leaf]))
    proven = solver.best(wider, many, start, goal[index][of_leaf], CHILD_STEPS)
    nodes = [_node(many, proven, k) for k in range(len(of_leaf))]
    above, rest, last = iter(nodes), nodes[-len(leaves) :], list(leaves)
    for rows, neuron, value in cuts:
        for i, j, v in zip(rows.tolist(), neuron.tolist(), value.tolist(), strict=True):
            last[i].neuron, last[i].value = j, v
            last[i].above, last[i].below = next(above), Node(leaves[i].cells, leaves[i].proof)
            last[i] = last[i].below
    for node, end in zip(last, rest, strict=True):
        node.cells, node.proof = end.cells, end.proof


def _pieces(
    problem: Problem, cells: Cells, proof: Proof, most: Tensor
) -> tuple[list[tuple[Tensor, Tensor, Tensor]], list[tuple[Tensor, Cells]]]:
    """Cuts, one after the other: the rows each is made in, their neurons and values; the pieces above them, and last what is left."""
    neurons, made = _to_cut(problem, cells, proof)
    made = made & (torch.arange(made.shape[1]) < most.unsqueeze(1))
    cuts, pieces = [], []
    for column, chosen in zip(neurons.unbind(dim=1), made.unbind(dim=1), strict=True):
        rows = torch.nonzero(chosen)[:, 0]
        here, rest, neuron, every = (
            problem.rows(rows),
            cells.rows(rows),
            column[rows],
            torch.arange(len(rows)),
        )
        ends = rest.low[every, neuron], rest.high[every, neuron]
        value = _cut_value(*ends, proof.t[rows, neuron], problem.p)
        cuts.append((rows, neuron, value))
        pieces.append((rows, restricted(here, rest, neuron, value, above=True)))
        cells = cells.with_rows(rows, restricted(here, rest, neuron, value, above=False))
    return cuts, [*pieces, (torch.arange(len(made)), cells)]


def _to_cut(problem: Problem, cells: Cells, proof: Proof) -> tuple[Int[Tensor, "m k"], Bool[Tensor, "m k"]]:
    """At which neurons each cell is cut (where the second says so): the one in most doubt comes first.

    p > 2: where it was never cut, those follow that were not either and whose chords are about as far from them: each may be a way to
    flip of its own, which the relaxed problem shows only once the others are gone.
    """
    doubt = (newton.overestimate if problem.p == 1 else overestimate)(problem, cells, proof)
    worst = doubt.argmax(dim=1, keepdim=True)
    if problem.p <= 2:
        return worst, torch.ones_like(worst, dtype=torch.bool)
    uncut = torch.isinf(cells.floor) & torch.isinf(cells.ceiling) & ~problem.for_label
    ends, middle = (
        relu_power(t, problem.p) for t in (torch.stack([cells.low, cells.high]), (cells.low + cells.high) / 2)
    )
    apart = problem.size * (ends.mean(dim=0) - middle)
    alike = uncut & uncut.gather(1, worst) & (apart >= ALIKE * apart.gather(1, worst))
    order = torch.where(alike, apart, -1.0).scatter(1, worst, torch.inf)
    most, neurons = order.topk(min(CHAIN, order.shape[1]), dim=1)
    return neurons, most >= 0


def _cut_box(problem: linear_cells.BoxProblem, leaves: list[Node], index: Tensor, goal: Tensor) -> None:
    """The same for ℓ∞; the halves start from the lines of the whole."""
    part = problem.rows(index)
    cells, proof = _stacked(leaves)
    values = _cut_value(cells.low, cells.high, proof.t, problem.p)
    neuron = linear_cells.cut_at(part, cells, proof, values)
    rows = torch.arange(len(leaves))
    value = values[rows, neuron]
    both, twice = linear_cells.halved(cells, neuron, value), torch.cat([rows, rows])
    doubled = part.rows(twice)
    start = linear_cells.evaluate(doubled, both, proof.rows(twice))
    proven = linear_cells.improve(doubled, both, start, goal[index][twice], CHILD_LINE_STEPS)
    _split(leaves, neuron, value, both, proven)
