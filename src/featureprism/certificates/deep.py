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
from featureprism.networks import MLP, LayeredScores, ScoreNet, Tanh, TwoLayerNet

HALVINGS = 6  # of the radius that lines alone prove
MOST_INPUTS = 4096  # of networks that are proven; larger ones have the product of norms
TRIALS = 5  # radii at which a quadratic proof is looked for
FARTHER = 16  # than what norms prove, where no witness says how far to look
EVERYWHERE = (-np.inf, np.inf)
ELLIPSOIDS = 3  # that are tried, each from the moments that the one before found
FLOOR, LEAST = 0.5, 1e-3  # of the mean weight, first and later: no direction of an ellipsoid is free
CAUTION = 0.1  # by how much nearer, in its share, with every failure after the first
LARGEST = 1000  # of the matrix of a quadratic proof; beyond, lines alone
RESOLUTION = 0.01  # relative, of radii: below it no further trial


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
    if isinstance(net, MLP) and len(net.weights) > 1:  # of its output f the two scores 0 and f
        *hidden, last = (W.detach().double().numpy().copy() for W in net.weights)
        weights = (*hidden, np.concatenate([np.zeros_like(last), last]))
        return Layers(weights, tuple(np.zeros(len(W)) for W in weights), "relu")
    if isinstance(net, TwoLayerNet) and isinstance(net.activation, Tanh):
        W, a = (t.detach().double().numpy().copy() for t in (net.W, net.a))
        b = np.zeros(len(W)) if net.b is None else net.b.detach().double().numpy().copy()
        return Layers((W, np.stack([np.zeros_like(a), a])), (b, np.zeros(2)), "tanh")
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
) -> dict[str, Any] | float:
    """A tree that the checker grants, or how far below 0 the proven margin stays, as a share of `scale`."""
    short_by, side = np.inf, side_of(around.region, force)
    for _ in range(1 if around.region.is_ball else ELLIPSOIDS):
        relaxed = relaxation(around.model, around.x, (own, rival), around.region, around.known, {}, side)
        if relaxed is None or len(relaxed.margin.mid) > LARGEST:
            break
        solved = solve(relaxed, scale)
        short_by = min(short_by, max(-solved.likely / scale, 0.0))
        if solved.bound > 0:
            tree = {"multipliers": _flat(solved, relaxed, around, side)}
            if proves(tree, around.model, around.x, own, rival, around.region):
                return tree
        side = following(solved, around, side)
        if not np.isfinite(side).all():
            break
    return short_by


def _flat(solved: Solved, relaxed: Relaxation, around: Around, side: np.ndarray) -> np.ndarray:
    """The multipliers as a leaf holds them."""
    table = np.zeros((3, sum(around.model.widths)))
    table[relaxed.kind, relaxed.neuron] = solved.weights
    return np.concatenate([[solved.ball], side, table.flatten()])


def following(solved: Solved, around: Around, side: np.ndarray) -> np.ndarray:
    """(1 + d,) A better ellipsoid, from the moments of δ where the bound is attained.

    With D(δ - c) = -force the mean says which sides of the box hold δ back. ℓ∞: a coordinate that strays farther than its interval
    needs more weight, E(δ_i - mid_i)² = (width_i/2)² where it has any in the best ellipsoid of all.
    """
    region, used = around.region, np.flatnonzero(around.known[0].high > 0)
    W, D = around.model.weights[0][used], side[0] + side[1:]
    mid = 0.5 * (region.low + region.high)
    c = side[1:] * mid / D
    G = (W / D) @ W.T
    ridge = 1e-10 * np.trace(G) / max(1, len(used)) * np.eye(len(used))
    back = np.linalg.inv(G + ridge) @ W  # D(δ - c) = backᵀ(z - centre)
    centre = W @ (around.x + c) + around.model.biases[0][used]
    mean = solved.moments[0, 1 : 1 + len(used)] - centre
    if region.norm == 2:
        return side_of(region, -mean @ back)
    second = solved.moments[1 : 1 + len(used), 1 : 1 + len(used)]
    spread = second + np.outer(mean, mean) - np.outer(centre + mean, centre + mean)
    off, variance = c - mid, ((spread @ back) * back).sum(axis=0) / D**2
    away = np.sqrt(np.maximum(variance + 2 * off * (mean @ back) / D + off**2, 0))
    s = side[1:] * away / np.maximum(0.5 * (region.high - region.low), 1e-12)
    return np.concatenate([[0.0], s / max(s.mean(), 1e-300) + LEAST])


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


@dataclass(frozen=True)
class Trial:
    """Certificates of all rivals at one radius, or by what share of its margin the first that has none stays below 0."""

    proofs: dict[int, Certificate] | None
    short_by: float = np.inf


def proofs_at(asked: Asked, radius: float, linear_only: bool = False) -> dict[int, Certificate] | None:
    """For every rival a certificate at this radius, or None as soon as one has none."""
    return tried_at(asked, radius, linear_only=linear_only).proofs


def tried_at(asked: Asked, radius: float, deadline: float = np.inf, *, linear_only: bool = False) -> Trial:
    """By lines, then by quadratic proofs, the rival that is likely the nearest first."""
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"):
        try:
            around = asked.around(radius)
            bounds = around.crown(asked.own)
            proofs = {
                r: _certificate(asked, radius, "crown")
                for r in np.flatnonzero(bounds > 0).tolist()
                if r != asked.own
            }
            rest = set(range(len(bounds))) - {asked.own, *proofs}
            if linear_only and rest:
                return Trial(None)
            values, gradients = asked.margins()
            for r in sorted(rest, key=lambda r: (r != asked.first, bounds[r])):
                late = time.perf_counter() > deadline
                found = (
                    None if late else quadratic_proof(around, asked.own, r, gradients[r], float(values[r]))
                )
                if not isinstance(found, dict):
                    return Trial(None, found or np.inf)
                proofs[r] = _certificate(asked, radius, "deep", found)
        except (ValueError, np.linalg.LinAlgError):  # numbers that no computation survives prove nothing
            return Trial(None)
    return Trial(proofs)


def _certificate(asked: Asked, radius: float, kind: str, tree: dict[str, Any] | None = None) -> Certificate:
    return Certificate(radius, kind, asked.norm, 0.0, tree or {}, asked.domain or EVERYWHERE)


def farthest_proofs(
    asked: Asked, attacked: float, gap: float, limits: tuple[float, int], known: float = 0.0
) -> dict[int, Certificate]:
    """Certificates at the largest radius found between `known` and the witness: quadratic ones, or lines alone where there are none.

    The first trial is at the radius that closes the bracket. Where one fails the margin falls about in a line from the point to there,
    or faster later on: the next trial is where that line is 0, and nearer after every further failure. `limits`: the clock's reading
    at which to stop, and the most trials. Without a witness radii up to FARTHER times `known` are tried.
    """
    deadline, trials = limits
    top = attacked if np.isfinite(attacked) else FARTHER * known
    low, proofs, radius, goal = known, {}, (1 - gap) * top * (1 + 1e-9), (1 - gap) * attacked
    caution = 1.0
    for _ in range(min(TRIALS, trials)):
        if low >= goal or top - low < RESOLUTION * top or time.perf_counter() > deadline:
            break
        trial = tried_at(asked, radius, deadline)
        if trial.proofs is not None:
            low, proofs, radius = radius, trial.proofs, 0.5 * (radius + top)
        else:
            top, line = radius, min(radius / (1 + trial.short_by), caution * radius)
            caution -= CAUTION
            radius = line if line > low + RESOLUTION * top else 0.5 * (low + top)
    for _ in range(0 if proofs else HALVINGS):
        if low >= (1 - gap) * top:
            break
        radius = 0.5 * (low + top)
        found = proofs_at(asked, radius, linear_only=True)
        low, top, proofs = (radius, top, found) if found is not None else (low, radius, proofs)
    return proofs
