"""The proven end of a read-out: the Lipschitz bound of every point, and boxes of class scores where that is not enough."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, log
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from featureprism._threads import one_blas_thread
from featureprism.checker.certificate import Certificate
from featureprism.checker.cheap import readout_radius
from featureprism.checker.enclosed import SLACK, with_room
from featureprism.checker.readouts import proven_readout
from featureprism.models.model import Model
from featureprism.networks.grouped import BinaryReadout
from featureprism.networks.readout_search import ReadoutNode, plain_tree, prove, scores_of
from featureprism.verify.pairs import Method, Pairs
from featureprism.verify.query import OVERSHOOT, Limits, Query

BATCH = 128  # points that are proven together


class Readout(Method):
    """Two classes read off a network of many: a Lipschitz bound, then boxes of class scores (ℓ2)."""

    def applies(self, model: Model, query: Query) -> bool:
        return query.norm == 2 and isinstance(model.net, BinaryReadout)

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        net: Any = pairs.model.net
        x, label = pairs.points(rows), pairs.label[pairs.point[rows]]
        y = 2.0 * label.double() - 1
        for j, point, sign in zip(rows.tolist(), x, y.tolist(), strict=True):
            pairs.keep(j, readout_certificate(net, point, sign))
        reach, goal = (v[pairs.point[rows]] for v in (pairs.reach(), pairs.goal()))
        left = [i for i, j in enumerate(rows.tolist()) if pairs.certificates[j].radius < float(goal[i]) < inf]
        batches = [
            part[first : first + BATCH]
            for part in ([i for i in left if y[i] > 0], [i for i in left if y[i] < 0])
            for first in range(0, len(part), BATCH)
        ]
        for number, batch in enumerate(batches):
            ways = _ways(net, x, y, batch, pairs.query.gap)
            for way, (together, asked) in enumerate(ways):
                share = limits.share((len(batches) - number) * (len(ways) - way))
                open_ones = [i for i in asked if pairs.certificates[int(rows[i])].radius < float(goal[i])]
                forests = _forests(net, x, y, pairs.delta[rows], reach, goal, open_ones, share, together)
                limits.note(share)
                for i, trees in zip(open_ones, forests, strict=True):
                    plain = [plain_tree(tree) for tree in trees]
                    pairs.keep(
                        int(rows[i]), boxes_certificate(plain, net, float(reach[i]), x[i], float(y[i]))
                    )


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
    delta: Tensor,
    reach: Tensor,
    goal: Tensor,
    batch: Sequence[int],
    limits: Limits,
    together: bool,
) -> list[list[ReadoutNode]]:
    """The trees of each point: one of all target classes together, or one for each of them."""
    if not batch:
        return []
    index = torch.tensor(batch)
    own = torch.nonzero(net.labels == y[index[0]])[:, 0]
    rivals = torch.nonzero(net.labels != y[index[0]])[:, 0]
    smooth = net.kind == "log-sum-exp"
    parts = [rivals] if together else list(rivals.split(1))
    one_of = 0 if together else len(rivals)
    points, W = x[index], net.net.W.detach().double()
    forests: list[list[ReadoutNode]] = [[] for _ in batch]
    for number, part in enumerate(parts):
        share = limits.share(min(2, len(parts) - number))  # one class does not take all the time
        classes = torch.cat([own, part])
        problem, V = scores_of(W[classes], points, reach[index], len(own), smooth, one_of)
        witness = (points + delta[index]) @ V.T
        trees = prove(problem, witness, goal[index] * OVERSHOOT, limits=share)
        limits.note(share)
        for forest, tree in zip(forests, trees, strict=True):
            forest.append(tree)
    return forests


def readout_certificate(net: BinaryReadout, x: Tensor, y: float) -> Certificate:
    """The Lipschitz bound of a read-out, as the checker verifies it, with slack for rounding."""
    with with_room():
        return Certificate(_lipschitz_of_readout(net, x, y) * (1 - SLACK), "readout")


def _lipschitz_of_readout(net: BinaryReadout, x: Tensor, y: float) -> float:
    W, labels = net.net.W.detach().double().numpy(), net.labels.double().numpy()
    with np.errstate(all="ignore"), one_blas_thread():
        try:
            radius = readout_radius(W, labels, x.detach().double().numpy(), float(y), net.kind)
        except ValueError:
            radius = 0.0
    return float(radius) if np.isfinite(radius) else 0.0


def boxes_certificate(
    trees: list[dict[str, Any]], net: BinaryReadout, reach: float, x: Tensor, y: float
) -> Certificate:
    """The certificate of boxes of class scores, claiming what the checker verifies, with slack for rounding."""
    claim = Certificate(reach, "boxes", 2, reach, {"trees": trees})
    with with_room():
        return replace(claim, radius=_in_boxes(claim, net, x, y) * (1 - SLACK))


def _in_boxes(certificate: Certificate, net: BinaryReadout, x: Tensor, y: float) -> float:
    """The radius that boxes prove: 0 for malformed ones, and where a computation fails."""
    W, labels = net.net.W.detach().double().numpy(), net.labels.double().numpy()
    point, trees = x.detach().double().numpy(), certificate.tree.get("trees")
    with np.errstate(all="ignore"), one_blas_thread():
        try:
            return proven_readout(W, labels, point, float(y), net.kind, certificate.reach, trees)
        except (ValueError, ArithmeticError):
            return 0.0


def check_readout(certificate: Certificate, net: BinaryReadout, x: Tensor, y: float) -> bool:
    """Whether the checker, from the weights of the network alone, verifies the radius; a malformed certificate is refused."""
    if certificate.norm != 2 or certificate.kind not in ("readout", "boxes"):
        return False
    found = _lipschitz_of_readout if certificate.kind == "readout" else partial(_in_boxes, certificate)
    return 0 < certificate.radius <= found(net, x, y)
