"""Certificates of deep ReLU networks: at which radius lines, quadratic proofs and trees of them are looked for."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from featureprism.certificates.deep_trees import Effort, Question, quadratic_proof
from featureprism.certificates.quadratic_leaves import Around, side_of
from featureprism.certificates.record import THREADS
from featureprism.checker.certificate import EVERYWHERE, Certificate
from featureprism.checker.deep import spectral_norm, verified
from featureprism.checker.enclosed import SLACK, with_room
from featureprism.checker.layers import Layers
from featureprism.networks import MLP, LayeredScores, ScoreNet, Tanh, TwoLayerNet

HALVINGS = 6  # of the radius that lines alone prove
MOST_INPUTS = 4096  # of networks that are proven; larger ones have the product of norms
TRIALS = 5  # radii at which a quadratic proof is looked for
FARTHER = 16  # than what norms prove, where no witness says how far to look
OVERSHOT = 1.2  # times the step to where nothing is missing on a line through two trials
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


def norm_certificates(
    model: Layers, points: np.ndarray, own: list[int], rivals: list[int], norm: float
) -> list[Certificate]:
    """The product of the layers' norms, for points (n, d) of some classes against others."""
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"), with_room():
        norms = np.array([spectral_norm(W) for W in model.weights[:-1]])
        found = []
        for x, o, r in zip(points, own, rivals, strict=True):
            claim = Certificate(1.0, "norm product", norm, tree={"numbers": norms})
            found.append(replace(claim, radius=verified(claim, model, x, o, r) * (1 - SLACK)))
    return found


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


class Proving:
    """The search for proofs of one point: what was computed of regions, and the ellipsoid that fitted each rival best."""

    def __init__(self, asked: Asked, deadline: float, cells: int) -> None:
        self.asked, self.deadline, self.effort = asked, deadline, Effort(cells, deadline)
        self.values, self.gradients = asked.margins()
        self.regions: dict[float, tuple[Around, np.ndarray]] = {}
        self.sides: dict[int, np.ndarray] = {}

    def region(self, radius: float) -> tuple[Around, np.ndarray]:
        """The region of a radius, and what lines prove there."""
        if radius not in self.regions:
            around = self.asked.around(radius)
            self.regions = {radius: (around, around.crown(self.asked.own))}
        return self.regions[radius]

    def at(self, radius: float, rival: int) -> tuple[Certificate | None, float]:
        """A certificate by lines or by a quadratic proof, or None and what share of the margin is missing."""
        try:
            around, bounds = self.region(radius)
            if bounds[rival] > 0 and (proof := _by_crown(self.asked, around, rival)) is not None:
                return proof, 0.0
            guessed = rival not in self.sides
            side = side_of(around.region, self.gradients[rival]) if guessed else self.sides[rival]
            question = Question(self.asked.own, rival, float(self.values[rival]))
            found = quadratic_proof(around, question, side, self.effort, guessed=guessed)
        except (ValueError, np.linalg.LinAlgError):  # numbers that no computation survives prove nothing
            return None, np.inf
        self.sides[rival] = found.side
        proof = None if found.tree is None else _certificate(self.asked, radius, "deep", found.tree)
        return proof, found.short_by

    def farthest(self, rival: int, known: float, reach: float, trials: int) -> Certificate | None:
        """At the largest radius found between `known` and `reach`.

        Where a trial fails the margin falls about in a line from the point to there, or faster later on: the next trial is where
        that line is 0, and after a second failure where the line through both is.
        """
        low, top, radius, best = known, reach, reach, None
        before = 0.0, -1.0  # a radius, and what share of the margin is missing there
        for _ in range(trials):
            if time.perf_counter() > (self.deadline if best is None else self.effort.deadline):
                break
            proof, short_by = self.at(radius, rival)
            if proof is not None:
                low, best, radius = radius, proof, 0.5 * (radius + top)
            else:
                top, line = radius, _zero(before, (radius, short_by))
                before = top, short_by
                radius = line if low + RESOLUTION * top < line < top else 0.5 * (low + top)
            if low >= reach or top - low < RESOLUTION * top:
                break
        return best

    def rivals(self, radius: float) -> list[int]:
        """The one that is likely the nearest, then those of which lines prove least."""
        try:
            bounds = self.region(radius)[1]
        except (ValueError, np.linalg.LinAlgError):
            bounds = np.zeros(self.asked.model.num_classes)
        others = set(range(len(bounds))) - {self.asked.own}
        return sorted(others, key=lambda r: (r != self.asked.first, bounds[r], r))

    def farthest_of_all(self, known: float, reach: float, trials: int) -> dict[int, Certificate]:
        """Of every rival in turn, as far as those before it hold; nothing where one has none."""
        proofs: dict[int, Certificate] = {}
        self.effort.deadline = 0.5 * (time.perf_counter() + self.deadline)  # the others need time too
        for rival in (self.asked.first, *self.rivals(reach)):
            if rival in proofs:
                continue
            found = self.farthest(rival, known, reach, trials)
            if found is None:
                return {}
            proofs[rival], reach = found, min(reach, found.radius)
            self.effort.deadline = self.deadline
        return proofs


def _zero(before: tuple[float, float], last: tuple[float, float]) -> float:
    """The radius at which nothing is missing, on the line through two trials, or a little nearer."""
    slope = (last[1] - before[1]) / (last[0] - before[0])
    return last[0] - OVERSHOT * last[1] / slope if slope > 0 else np.nan


def _certificate(asked: Asked, reach: float, kind: str, tree: dict[str, Any]) -> Certificate:
    return Certificate(reach * (1 - SLACK), kind, asked.norm, reach, tree, asked.domain or EVERYWHERE)


def _by_crown(asked: Asked, around: Around, rival: int) -> Certificate | None:
    """A certificate by lines alone, as the checker verifies it."""
    certificate = _certificate(asked, around.region.radius, "crown", {"block": around.bounds})
    with with_room():
        found = verified(certificate, asked.model, asked.x, asked.own, rival)
    return certificate if found >= certificate.radius else None


def proofs_at(
    asked: Asked, radius: float, limits: tuple[float, int] = (np.inf, 0)
) -> dict[int, Certificate] | None:
    """For every rival a certificate at this radius, or None as soon as one has none: by lines, then by quadratic proofs.

    `limits`: the clock's reading at which no more cuts are made, and the most parts of the region that cuts may make.
    """
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"):
        search = Proving(asked, *limits)
        proofs = {}
        for rival in search.rivals(radius):
            found, _ = search.at(radius, rival)
            if found is None:
                return None
            proofs[rival] = found
    return proofs


def farthest_proofs(
    asked: Asked, attacked: float, gap: float, limits: tuple[float, int], known: float = 0.0
) -> dict[int, Certificate]:
    """Certificates at the largest radii found between `known` and the witness: quadratic ones, or lines alone where there are none.

    The rival that is likely the nearest is proven as far as it can be, but no farther than what closes the bracket; then the others,
    each up to there. `limits`: the clock's reading at which to stop, and the most parts of regions that cuts may make; it also limits
    the trials. Without a witness radii up to FARTHER times `known` are tried.
    """
    deadline, cells = limits
    top = attacked if np.isfinite(attacked) else FARTHER * known
    with np.errstate(all="ignore"), THREADS.limit(limits=1, user_api="blas"):
        search = Proving(asked, deadline, cells)
        proofs = search.farthest_of_all(known, (1 - gap) * top * (1 + 1e-9), min(TRIALS, cells))
        return proofs or _by_lines(asked, known, top, gap)


def _by_lines(asked: Asked, low: float, top: float, gap: float) -> dict[int, Certificate]:
    """Certificates of all rivals by lines alone, at a radius that a few halvings find."""
    proofs = {}
    for _ in range(HALVINGS):
        if low >= (1 - gap) * top:
            break
        radius = 0.5 * (low + top)
        found: dict[int, Certificate | None] = {}
        try:
            around = asked.around(radius)
            bounds = around.crown(asked.own)
            others = [r for r in range(len(bounds)) if r != asked.own]
            found = {r: _by_crown(asked, around, r) for r in others} if (bounds > 0).all() else {}
        except (ValueError, np.linalg.LinAlgError):
            pass  # numbers that no computation survives prove nothing
        if found and None not in found.values():
            low, proofs = radius, {r: proof for r, proof in found.items() if proof is not None}
        else:
            top = radius
    return proofs
