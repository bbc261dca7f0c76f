"""Branch and bound: cells are cut at the neuron whose quadratic is worst until the proven radius meets the attacked one."""

import time
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.certificates.cells import (
    Cells,
    Problem,
    Proof,
    first_proof,
    improve,
    overestimate,
    restricted,
    whole_space,
)
from featureprism.threads import one_thread

ROOT_STEPS, CHILD_STEPS = 30, 25
INSIDE = 0.1  # a cut stays this share of the interval away from its ends


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
    """A tree of cells for every point, grown until its bound reaches `goal`, `max_cells` leaves or the deadline.

    `t`, `tau`: pre-activations and multiplier at the attack's witness. All points advance together, each cutting its worst cell.
    """
    cells = whole_space(problem)
    roots_proof = improve(problem, cells, first_proof(problem, cells, t, tau), goal, ROOT_STEPS)
    every = [torch.tensor([i]) for i in range(len(t))]
    roots = [Node(cells.rows(i), roots_proof.rows(i)) for i in every]
    open_leaves = [[root] for root in roots]
    while time.perf_counter() < deadline:
        worst = [min(leaves, key=_bound) for leaves in open_leaves]
        active = [
            i
            for i, leaf in enumerate(worst)
            if _bound(leaf) < float(goal[i]) and len(open_leaves[i]) < max_cells
        ]
        if not active:
            break
        _cut(problem, [worst[i] for i in active], torch.tensor(active), goal)
        for i in active:
            leaf = worst[i]
            assert leaf.below is not None
            assert leaf.above is not None
            open_leaves[i].remove(leaf)
            open_leaves[i] += [leaf.below, leaf.above]
    return roots


def _cut_value(low: Tensor, high: Tensor, t: Tensor, p: float) -> Tensor:
    """Where to cut an interval: at the kink for p = 1; halfway up a neuron's first rise for p > 1; then at t, well inside."""
    if p == 1:
        return torch.zeros_like(low)
    inset = INSIDE * (high - low)
    inside = torch.minimum(torch.maximum(t, low + inset), high - inset)
    return torch.where(low <= 0, high / 2, inside)


def _bound(leaf: Node) -> float:
    return float(leaf.proof.bound)


def _cut(problem: Problem, leaves: list[Node], index: Tensor, goal: Tensor) -> None:
    """Cut each leaf at its worst neuron and prove the two halves."""
    part = problem.rows(index)
    cells = Cells(
        *(torch.cat([getattr(leaf.cells, n) for leaf in leaves]) for n in Cells.__dataclass_fields__)
    )
    proof = Proof(
        **{n: torch.cat([getattr(leaf.proof, n) for leaf in leaves]) for n in Proof.__dataclass_fields__}
    )
    neuron = overestimate(part, cells, proof).argmax(dim=1)
    rows = torch.arange(len(leaves))
    low, high = cells.low[rows, neuron], cells.high[rows, neuron]
    value = _cut_value(low, high, proof.t[rows, neuron], problem.p)
    halves = [restricted(part, cells, neuron, value, above) for above in (False, True)]
    both = Cells(*(torch.cat([getattr(h, n) for h in halves]) for n in Cells.__dataclass_fields__))
    twice = torch.cat([rows, rows])
    doubled = part.rows(twice)
    start = first_proof(doubled, both, proof.t[twice], proof.tau[twice])
    proven = improve(doubled, both, start, goal[index][twice], CHILD_STEPS)
    for k, leaf in enumerate(leaves):
        leaf.neuron, leaf.value = int(neuron[k]), float(value[k])
        lower, upper = torch.tensor([k]), torch.tensor([k + len(leaves)])
        leaf.below = Node(both.rows(lower), proven.rows(lower))
        leaf.above = Node(both.rows(upper), proven.rows(upper))
