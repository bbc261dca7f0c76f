"""Certificates of deep ReLU networks at one radius: lines alone, then the quadratic proof in ellipsoids that fit the region better and better."""

from dataclasses import dataclass

import numpy as np

from featureprism.certificates.quadratic import Solved, solve
from featureprism.checker.deep import Relaxation, proves, relaxation
from featureprism.checker.enclosed import enclosed
from featureprism.checker.layers import Layers, Neurons, Region, below, neuron_bounds

ELLIPSOIDS = 3  # that are tried, each from the force that the one before found
FLOOR = 1e-2  # of the mean weight: no direction of an ellipsoid is free


@dataclass(frozen=True, eq=False)
class Around:
    """A point, a region around it, and where the neurons lie in it: what all rivals share."""

    model: Layers
    x: np.ndarray
    region: Region
    known: list[Neurons]

    @classmethod
    def of(cls, model: Layers, x: np.ndarray, radius: float, norm: float, domain: tuple[float, float]) -> "Around":
        """By lines alone."""
        region = Region.around(x, radius, norm, domain)
        c = enclosed(model.weights[0]) @ x + model.biases[0]
        return cls(model, x, region, neuron_bounds(model, c, region, {}))

    def crown(self, own: int) -> np.ndarray:
        """(k,) Proven margins of a class before every other, inf for itself."""
        c = enclosed(self.model.weights[0]) @ self.x + self.model.biases[0]
        W, b = self.model.weights[-1], self.model.biases[-1]
        rows, offset = enclosed(W[own] - W), enclosed(b[own] - b)
        bounds = below(rows, offset, self.known, self.model, c, self.region)
        bounds[own] = np.inf
        return bounds


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


def quadratic_proof(around: Around, own: int, rival: int, force: np.ndarray, scale: float) -> tuple[dict | None, float]:
    """A tree that the checker grants, or None; and a margin that this kind of proof seems unable to exceed."""
    best = -np.inf
    for _ in range(1 if around.region.is_ball else ELLIPSOIDS):
        side = side_of(around.region, force)
        relaxed = relaxation(around.model, around.x, (own, rival), around.region, around.known, {}, side)
        if relaxed is None:
            return None, -np.inf
        solved = solve(relaxed, scale)
        best = max(best, solved.best)
        if solved.bound > 0:
            tree = {"multipliers": _flat(solved, relaxed, around, side)}
            if proves(tree, around.model, around.x, own, rival, around.region):
                return tree, solved.bound
        force = _force(solved, around, side)
        if not np.isfinite(force).all():
            break
    return None, best


def _flat(solved: Solved, relaxed: Relaxation, around: Around, side: np.ndarray) -> np.ndarray:
    """The multipliers as a leaf holds them."""
    table = np.zeros((3, sum(around.model.widths)))
    table[relaxed.kind, relaxed.neuron] = solved.weights
    return np.concatenate([[solved.ball], side, table.flatten()])


def _force(solved: Solved, around: Around, side: np.ndarray) -> np.ndarray:
    """(d,) The gradient in δ of all that pulls against the ellipsoid, where the bound is attained: D(δ - c) = -force."""
    used = np.flatnonzero(around.known[0].high > 0)
    W = around.model.weights[0][used]
    D = side[0] + side[1:]
    c = side[1:] * (around.region.low + around.region.high) / (2 * D)
    z = solved.mean[1 : 1 + len(used)]
    centre = W @ (around.x + c) + around.model.biases[0][used]
    G = (W / D) @ W.T
    ridge = 1e-10 * np.trace(G) / max(1, len(used)) * np.eye(len(used))
    return -W.T @ np.linalg.solve(G + ridge, z - centre)
