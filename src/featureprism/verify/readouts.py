"""The proven end of a read-out: the Lipschitz bound of every point, and boxes of class scores where that is not enough."""

import time
from collections.abc import Sequence
from math import log

import torch
from torch import Tensor

from featureprism.attacks import AttackedRadius
from featureprism.checker.certificate import Certificate
from featureprism.networks import BinaryReadout
from featureprism.records import Progress
from featureprism.verify.one_layer.certify import boxes_certificate, readout_certificate
from featureprism.verify.readout_search import Node, plain_tree, prove, scores_of

BATCH = 128  # points that are proven together
INTERRUPTED = "interrupted"  # the method of points that an interrupt left with the cheap bounds


def proven_readouts(
    net: BinaryReadout,
    x: Tensor,
    y: Tensor,
    attacked: AttackedRadius,
    gap: float,
    effort: tuple[float, int],
    progress: Progress,
) -> tuple[list[Certificate], list[int]]:
    """A certificate for every point, until it reaches (1 - gap)·attacked or the effort (seconds and boxes a point) is used up.

    And the points that an interrupt left untried.
    """
    proofs = [readout_certificate(net, point, float(label)) for point, label in zip(x, y, strict=True)]
    goal = (1 - gap) * attacked.radius
    witnessed = torch.isfinite(attacked.radius) & (attacked.radius > 0)
    left = [i for i, c in enumerate(proofs) if bool(witnessed[i]) and c.radius < float(goal[i])]
    batches = [
        part[first : first + BATCH]
        for part in ([i for i in left if y[i] > 0], [i for i in left if y[i] < 0])
        for first in range(0, len(part), BATCH)
    ]
    for number, batch in enumerate(batches):
        try:
            ways = _ways(net, x, y, batch, gap)
            share = effort[0] / len(ways), effort[1]
            for together, asked in ways:
                left_open = [i for i in asked if proofs[i].radius < float(goal[i])]
                forests = _forests(net, x, y, attacked, goal, left_open, share, together)
                for i, trees in zip(left_open, forests, strict=True):
                    radius = float(attacked.radius[i])
                    found = boxes_certificate([plain_tree(t) for t in trees], net, radius, x[i], float(y[i]))
                    proofs[i] = found if found.radius > proofs[i].radius else proofs[i]
        except KeyboardInterrupt:
            return proofs, [i for part in batches[number:] for i in part]
        progress((number + 1) / len(batches))
    return proofs, []


def _ways(
    net: BinaryReadout, x: Tensor, y: Tensor, batch: Sequence[int], gap: float
) -> list[tuple[bool, list[int]]]:
    """Whether rivals are seen together, and which points are asked so: one at a time first where ln r is small beside the margin."""
    rivals = int((net.labels != y[batch[0]]).sum())
    if net.kind == "max":
        return [(False, list(batch))]
    if rivals == 1:
        return [(True, list(batch))]
    with torch.no_grad():
        margins = (y[list(batch)] * net(x[list(batch)])).tolist()
    large = [i for i, m in zip(batch, margins, strict=True) if log(rivals) <= gap * m]
    small = [i for i in batch if i not in large]
    return [(False, large), (True, list(batch)), (False, small)]


def _forests(
    net: BinaryReadout,
    x: Tensor,
    y: Tensor,
    attacked: AttackedRadius,
    goal: Tensor,
    batch: Sequence[int],
    effort: tuple[float, int],
    together: bool,
) -> list[list[Node]]:
    """The trees of each point: one of all rivals together, or one for each rival."""
    if not batch:
        return []
    index = torch.tensor(batch)
    own = torch.nonzero(net.labels == y[index[0]])[:, 0]
    rivals = torch.nonzero(net.labels != y[index[0]])[:, 0]
    smooth = net.kind == "log-sum-exp"
    parts = [rivals] if together else list(rivals.split(1))
    one_of = 0 if together else len(rivals)
    seconds, max_cells = effort
    end = time.perf_counter() + seconds * len(batch)
    points, W = x[index], net.net.W.detach().double()
    forests: list[list[Node]] = [[] for _ in batch]
    for number, part in enumerate(parts):
        now = time.perf_counter()
        deadline = now + (end - now) / min(2, len(parts) - number)  # one rival does not take all the time
        classes = torch.cat([own, part])
        problem, V = scores_of(W[classes], points, attacked.radius[index], len(own), smooth, one_of)
        witness = (points + attacked.delta[index]) @ V.T
        # prove a hair more than asked, so that rounding in the checker does not reopen the bracket
        trees = prove(problem, witness, goal[index] * (1 + 1e-6), max_cells=max_cells, deadline=deadline)
        for forest, tree in zip(forests, trees, strict=True):
            forest.append(tree)
    return forests
