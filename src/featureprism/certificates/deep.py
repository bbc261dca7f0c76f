"""Certificates of deep ReLU networks at one radius: lines alone, then the quadratic proof in ellipsoids that fit better and better."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from featureprism.certificates.record import THREADS
from featureprism.certificates.semidefinite import Solved, solve
from featureprism.checker.certificate import Certificate
from featureprism.checker.deep import Relaxation, proves, relaxation
from featureprism.checker.enclosed import enclosed
from featureprism.checker.layers import Layers, Neurons, Region, below, neuron_bounds
from featureprism.networks import LayeredScores, ScoreNet, Tanh

HALVINGS = 6  # of the radius that lines alone prove
TRIALS = 5  # radii at which a quadratic proof is looked for
FARTHER = 16  # than what norms prove, where no witness says how far to look
EVERYWHERE = (-np.inf, np.inf)
ELLIPSOIDS = 3  # that are tried, each from the force that the one before found
FLOOR = 1e-2  # of the mean weight: no direction of an ellipsoid is free


def as_layers(net: Any) -> Layers | None:
    """A network of layers as the checker reads it; None for others."""
    if isinstance(net, LayeredScores):
        weights, biases = (
            tuple(t.detach().double().numpy().copy() for t in part) for part in (net.weights, net.biases)
        )
        return Layers(weights, biases, "tanh" if isinstance(net.activation, Tanh) else "relu")
    if isinstance(net, ScoreNet) and isinstance(net.activation, Tanh):
        W, V, b, c = (t.detach().double().numpy() for t in (net.W, net.V.T, net.b, net.c))
        return Layers((W.copy(), np.ascontiguousarray(V)), (b.copy(), c.copy()), "tanh")
    return None


@dataclass(frozen=True, eq=False)
class Around:
    """A point, a region around it, and where the neurons lie in it: what all rivals share."""

    model: Layers
    x: np.ndarray
    region: Region
    known: list[Neurons]

    @classmethod
    def of(
        cls, model: Layers, x: np.ndarray, radius: float, norm: float, domain: tuple[float, float]
    ) -> "Around":
        """By lines alone."""
        region = Region.around(x, radius, norm, domain)
        c = enclosed(model.weights[0]) @ x + model.biases[0]
        return cls(model, x, region, neuron_bounds(model, c, region, {}))

    def crown(self, own: int) -> np.ndarray:
        """(k,) Proven margins of a class before every other, inf for itself."""
        c = enclosed(self.model.weights[0]) @ self.x + self.model.biases[0]
        rows, offset = self.model.margins(own)
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


def quadratic_proof(
    around: Around, own: int, rival: int, force: np.ndarray, scale: float
) -> dict[str, Any] | None:
    """A tree that the checker grants, or None."""
    for _ in range(1 if around.region.is_ball else ELLIPSOIDS):
        side = side_of(around.region, force)
        relaxed = relaxation(around.model, around.x, (own, rival), around.region, around.known, {}, side)
        if relaxed is None:
            return None
        solved = solve(relaxed, scale)
        if solved.bound > 0:
            tree = {"multipliers": _flat(solved, relaxed, around, side)}
            if proves(tree, around.model, around.x, own, rival, around.region):
                return tree
        force = _force(solved, around, side)
        if not np.isfinite(force).all():
            break
    return None


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


@dataclass(frozen=True, eq=False)
class Asked:
    """A point of a class, and what is asked about it; `first` is the rival that is likely the nearest."""

    model: Layers
    x: np.ndarray
    own: int
    first: int
    norm: float
    domain: tuple[float, float] | None

    def around(self, radius: float) -> Around:
        """The region of a radius."""
        return Around.of(self.model, self.x, radius, self.norm, self.domain or EVERYWHERE)

    def margins(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) f_own - f_r at the point, and (k, d) their gradients."""
        h, slopes = self.x, np.eye(len(self.x))
        for W, b in zip(self.model.weights[:-1], self.model.biases[:-1], strict=True):
            z = W @ h + b
            h, slopes = np.maximum(z, 0), (z > 0)[:, None] * (W @ slopes)
        W, b = self.model.weights[-1], self.model.biases[-1]
        return (W[self.own] - W) @ h + b[self.own] - b, (W[self.own] - W) @ slopes


def proofs_at(asked: Asked, radius: float, linear_only: bool = False) -> dict[int, Certificate] | None:
    """For every rival a certificate at this radius, or None as soon as one has none."""
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"):
        try:
            around = asked.around(radius)
            bounds = around.crown(asked.own)
            proofs = {
                r: _certificate(asked, radius, "crown")
                for r in np.flatnonzero(bounds > 0).tolist()
                if r != asked.own
            }
            rest = sorted(
                set(range(len(bounds))) - {asked.own, *proofs}, key=lambda r: (r != asked.first, bounds[r])
            )
            if linear_only and rest:
                return None
            values, gradients = asked.margins()
            for r in rest:
                tree = quadratic_proof(around, asked.own, r, gradients[r], float(values[r]))
                if tree is None:
                    return None
                proofs[r] = _certificate(asked, radius, "deep", tree)
        except (ValueError, np.linalg.LinAlgError):  # numbers that no computation survives prove nothing
            return None
    return proofs


def _certificate(asked: Asked, radius: float, kind: str, tree: dict[str, Any] | None = None) -> Certificate:
    return Certificate(radius, kind, asked.norm, 0.0, tree or {}, asked.domain or EVERYWHERE)


def farthest_proofs(
    asked: Asked, attacked: float, gap: float, limits: tuple[float, int], known: float = 0.0
) -> dict[int, Certificate]:
    """Certificates at the largest radius found between `known` and the witness: by lines alone, then by quadratic proofs.

    `limits`: the clock's reading at which to stop, and the most trials. Without a witness radii up to FARTHER times `known` are tried.
    """
    deadline, trials = limits
    low, proofs = known, {}
    high = attacked if np.isfinite(attacked) else FARTHER * known
    for linear_only, most in ((True, HALVINGS), (False, min(TRIALS, trials))):
        top = high
        for _ in range(most):
            if low >= (1 - gap) * top or (time.perf_counter() > deadline and not linear_only):
                break
            radius = 0.5 * (low + top)
            found = proofs_at(asked, radius, linear_only)
            low, top, proofs = (radius, top, found) if found is not None else (low, radius, proofs)
    return proofs
