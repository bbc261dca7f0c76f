"""Branch and bound on the inputs: boxes are halved until linear bounds prove each of them. For networks with few inputs."""

from collections import deque

import numpy as np

from featureprism.checker.layers import Layers
from featureprism.checker.linear_bounds import Boxes, bounded_layers, least_outputs
from featureprism.checker.vnnlib import Case
from featureprism.verify.properties.trees import Trees
from featureprism.verify.query import Limits

AT_ONCE = 32  # boxes whose bounds fit into the cache together


def prove_by_inputs(case: Case, model: Layers, trees: Trees, limits: Limits) -> np.ndarray | bool:
    """True once the tree of the case is complete, False where the limits ended it; or a point that violates the property."""
    root = trees.new()[0]
    trees.case_root.append(root)
    waiting = deque([(np.array([root]), case.lower[None], case.upper[None])])
    while waiting:
        nodes, lower, upper = _some(waiting)
        if not limits.allow(len(nodes)):
            return False
        limits.branches -= len(nodes)
        inputs = Boxes(lower, upper)
        known = bounded_layers(model, inputs)
        every = np.broadcast_to(np.eye(len(case.b)), (len(nodes), len(case.b), len(case.b)))
        least, c = least_outputs(every, case.A, case.b, known, model, inputs)
        is_open = ~(least > 0).any(axis=1)
        if not is_open.any():
            continue
        lower, upper = lower[is_open], upper[is_open]
        middle = lower + (upper - lower) / 2
        if len(wrong := np.flatnonzero(violates(case, model, middle))):
            return middle[wrong[0]]
        width = upper - lower
        at = (np.abs(c[is_open]).sum(axis=1) * width).argmax(axis=1)
        row = np.arange(len(at))
        if not ((lower < middle) & (middle < upper))[row, at].all():
            return False  # boxes of the size of a rounding
        less, more = upper.copy(), lower.copy()
        less[row, at] = more[row, at] = middle[row, at]
        where = zip(nodes[is_open].tolist(), at.tolist(), middle[row, at].tolist(), strict=True)
        parts = [trees.split(*cut) for cut in where]
        below, above = np.array(parts).T
        waiting += [(below, lower, less), (above, more, upper)]
    return True


def _some(waiting: "deque[tuple[np.ndarray, ...]]") -> tuple[np.ndarray, ...]:
    """The largest boxes, at most AT_ONCE: a counterexample among them is found before its surface is followed in small steps."""
    parts, count = [], 0
    while waiting and count < AT_ONCE:
        part = waiting.popleft()
        if (left := AT_ONCE - count) < len(part[0]):
            waiting.appendleft(tuple(v[left:] for v in part))
            part = tuple(v[:left] for v in part)
        parts.append(part)
        count += len(part[0])
    return tuple(np.concatenate([part[i] for part in parts]) for i in range(3))


def outputs(model: Layers, x: np.ndarray) -> np.ndarray:
    """(n, k) Of points (n, d)."""
    for W, b in zip(model.weights[:-1], model.biases[:-1], strict=True):
        x = np.maximum(x @ W.T + b, 0)
    return x @ model.weights[-1].T + model.biases[-1]


def violates(case: Case, model: Layers, x: np.ndarray) -> np.ndarray:
    """(n,) Which points realise the case."""
    return np.all(outputs(model, x) @ case.A.T <= case.b, axis=1)
