"""The proof helps the attack: a shorter witness, if there is one, lies in a leaf whose bound is below the goal. Attacks start there."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featureprism.attacks.boundary import flips_near
from featureprism.attacks.gradient import to_span
from featureprism.verify.one_layer.branch_and_bound import Node
from featureprism.verify.one_layer.cells import Problem, relaxed_minimum

LEAVES = 4  # of a tree, those with the least bounds


def towards_leaves(
    problem: Problem, W: Float[Tensor, "h d"], trees: Sequence[Node], goal: Float[Tensor, " m"]
) -> Float[Tensor, "s m d"]:
    """Where the relaxed problems of the worst open leaves of each tree have their minima; 0 where there are fewer."""
    towards = W.new_zeros(LEAVES, len(trees), W.shape[1])
    for i, tree in enumerate(trees):
        part = problem.rows(torch.tensor([i]))
        left = [leaf for leaf in tree.leaves() if float(leaf.proof.bound) < float(goal[i])]
        for k, leaf in enumerate(sorted(left, key=lambda leaf: float(leaf.proof.bound))[:LEAVES]):
            towards[k, i] = (-relaxed_minimum(part, leaf.cells, leaf.proof)[0] @ W).nan_to_num(0.0, 0.0, 0.0)
    return towards


@torch.no_grad()
def attack_from(
    net: nn.Module,
    x: Float[Tensor, "m d"],
    y: Float[Tensor, " m"],
    delta: Float[Tensor, "m d"],
    towards: Float[Tensor, "s m d"],
) -> tuple[Float[Tensor, "m d"], Float[Tensor, " m"]]:
    """The shortest ℓ2 flip near known witnesses and these perturbations, and its norm; inf where none was found."""
    small, z, basis = to_span(net, x)
    best, shortest = delta, delta.new_full((len(x),), torch.inf)
    for start in (delta, *towards):
        near, _ = flips_near(small, z, y, start if basis is None else start @ basis)
        trial = near if basis is None else near @ basis.T
        length = torch.linalg.vector_norm(trial, dim=1)
        better = (y * net(x + trial) <= 0) & (length < shortest)
        best = torch.where(better.unsqueeze(1), trial, best)
        shortest = torch.where(better, length, shortest)
    return best, shortest
