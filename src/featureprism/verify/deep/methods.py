"""Proofs about several layers: the product of norms, and linear and semidefinite relaxations with branch and bound."""

import time
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from featureprism._threads import one_blas_thread
from featureprism.checker.certificate import EVERYWHERE, Certificate
from featureprism.checker.deep import spectral_norm, verified
from featureprism.checker.enclosed import SLACK, with_room
from featureprism.checker.layers import Layers
from featureprism.geometry import Sides
from featureprism.models.model import Model
from featureprism.verify.deep.balls import ball_multipliers
from featureprism.verify.deep.branch_and_bound import (
    ENDLESS,
    HASTY,
    PATIENT,
    Around,
    Pair,
    Patience,
    quadratic_proof,
    side_of,
)
from featureprism.verify.pairs import Method, Pairs
from featureprism.verify.query import OVERSHOOT, Limits, Query

FLOPS = 1e10  # multiplications and additions of one core in a second
NOT_ASKED = 5.0  # seconds: what takes less is tried whatever is left
MOST_INPUTS = 4096  # of networks that are proven; larger ones have the product of norms
TRIALS = 5  # radii at which a semidefinite proof is tried
OVERSHOT = 1.2  # times the step to where nothing is missing on a line through two trials
RESOLUTION = 0.01  # relative, of radii: below it no further trial
RENEWED = (
    1.0,
    0.8,
    0.5,
    0.0,
)  # from the radius in question to the old one: where old proofs are tried on new weights
HALVINGS, DOUBLINGS = 6, 60  # of the radius that linear relaxations alone prove


def norm_certificates(
    model: Layers, points: np.ndarray, labels: list[int], targets: list[int], norm: float
) -> list[Certificate]:
    """The product of the layers' norms, for points (n, d) of some classes against others."""
    with np.errstate(all="ignore"), one_blas_thread(), with_room():
        norms = np.array([spectral_norm(W) for W in model.weights[:-1]])
        claim = Certificate(1.0, "norm product", norm, tree={"numbers": norms})
        return [
            replace(claim, radius=verified(claim, model, x, o, r) * (1 - SLACK))
            for x, o, r in zip(points, labels, targets, strict=True)
        ]


def renewed_certificates(
    old: dict[int, Certificate], model: Layers, x: np.ndarray, label: int, least: float
) -> dict[int, Certificate]:
    """Certificates of another network against its targets, tried on these weights; nothing is searched.

    Multipliers and cuts stay; norms of layers and bounds of neurons are computed anew. Of a few radii from the old one down to `least`
    the largest that the checker verifies.
    """
    arounds: dict[float, Around] = {}
    proofs = {}
    with np.errstate(all="ignore"), one_blas_thread(), with_room():
        norms = np.array([spectral_norm(W) for W in model.weights[:-1]])
        for target, claim in old.items():
            for share in RENEWED:
                radius = least + share * max(claim.radius - least, 0.0)
                trial = _on_weights(claim, model, x, radius, norms, arounds)
                radius_here = verified(trial, model, x, label, target) if trial is not None else 0.0
                if claim.kind == "norm product":
                    radius_here *= 1 - SLACK
                    trial = replace(claim, radius=radius_here, tree={"numbers": norms})
                if trial is not None and radius_here >= max(trial.radius, least):
                    proofs[target] = trial
                    break
    return proofs


def _on_weights(
    claim: Certificate,
    model: Layers,
    x: np.ndarray,
    radius: float,
    norms: np.ndarray,
    arounds: dict[float, Around],
) -> Certificate | None:
    """A certificate with the norms and the bounds of these weights; None where it has another shape."""
    if claim.kind == "norm product":
        return replace(claim, tree={"numbers": norms})
    if claim.kind == "balls":
        numbers = claim.tree["numbers"].copy()
        numbers[: len(norms)] = norms
        return replace(claim, radius=radius, tree={"numbers": numbers})
    if claim.kind not in ("crown", "deep"):
        return None
    try:
        if radius not in arounds:
            arounds[radius] = Around.of(model, x, radius * OVERSHOOT, claim.norm, claim.domain)
        tree = _with_bounds(claim.tree, arounds[radius])
    except (ValueError, np.linalg.LinAlgError):
        return None
    return replace(claim, radius=radius, reach=radius * OVERSHOOT, tree=tree)


def _with_bounds(node: dict[str, Any], around: Around) -> dict[str, Any]:
    """A tree with the same cuts and multipliers, and the bounds of neurons of another network."""
    if "cut" in node:
        sides = (("below", -1.0), ("above", 1.0))
        return node | {name: _with_bounds(node[name], around.cut(node["cut"], sign)) for name, sign in sides}
    bounds = around.bounds
    return {"block": np.concatenate([bounds, node["block"][len(bounds) :]])}


@dataclass(frozen=True, eq=False)
class PointQuery:
    """A point of a class, and what is asked about it; `first` is the target class that is likely the nearest."""

    model: Layers
    x: np.ndarray
    label: int
    first: int
    norm: float
    domain: Sides | None

    def around(self, radius: float) -> Around:
        """The region of a radius."""
        return Around.of(self.model, self.x, radius, self.norm, self.domain or (-np.inf, np.inf))

    def margins(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) f_label - f_r at the point, and (k, d) their gradients."""
        h, slopes = self.x, np.eye(len(self.x))
        for W, b in zip(self.model.weights[:-1], self.model.biases[:-1], strict=True):
            z = W @ h + b
            h, slopes = np.maximum(z, 0), (z > 0)[:, None] * (W @ slopes)
        W, b = self.model.weights[-1], self.model.biases[-1]
        return (W[self.label] - W) @ h + b[self.label] - b, (W[self.label] - W) @ slopes


class Proving:
    """The search for proofs of one point: what was computed of regions, and the ellipsoid that fitted each target best."""

    def __init__(self, point: PointQuery, limits: Limits) -> None:
        self.point, self.limits = point, limits
        self.values, self.gradients = point.margins()
        self.regions: dict[float, tuple[Around, np.ndarray]] = {}
        self.sides: dict[int, np.ndarray] = {}

    def region(self, radius: float) -> tuple[Around, np.ndarray]:
        """The region of a radius, and the margins that the linear relaxation proves there."""
        if radius not in self.regions:
            around = self.point.around(radius)
            self.regions = {radius: (around, around.crown(self.point.label))}
        return self.regions[radius]

    def linear_margins(self, radius: float) -> np.ndarray:
        """The margins that the linear relaxation proves; nothing where a computation fails."""
        try:
            return self.region(radius)[1]
        except (ValueError, np.linalg.LinAlgError):
            return np.full(self.point.model.num_classes, -np.inf)

    def at(self, radius: float, target: int, patience: Patience = HASTY) -> tuple[Certificate | None, float]:
        """A certificate by the linear or the semidefinite relaxation, or None and what share of the margin is missing."""
        try:
            around, bounds = self.region(radius)
            if bounds[target] > 0 and (proof := _by_crown(self.point, around, target)) is not None:
                return proof, 0.0
            guessed = target not in self.sides
            side = side_of(around.region, self.gradients[target]) if guessed else self.sides[target]
            pair = Pair(self.point.label, target, float(self.values[target]))
            tried = quadratic_proof(around, pair, side, self.limits, patience, guessed=guessed)
        except (ValueError, np.linalg.LinAlgError):  # numbers that no computation survives prove nothing
            return None, np.inf
        self.sides[target] = tried.side
        proof = None if tried.tree is None else _certificate(self.point, radius, "deep", tried.tree)
        return proof, tried.short_by

    def farthest(self, target: int, known: float, reach: float) -> Certificate | None:
        """At the largest radius between `known` and `reach` that a few trials find.

        Where a trial fails the margin falls about in a line from the point to there, or faster later on: the next trial is where
        that line is 0, and after a second failure where the line through both is.
        """
        low, top, radius, best = known, reach, reach, None
        before = 0.0, -1.0  # a radius, and what share of the margin is missing there
        for _ in range(TRIALS):
            if not self.limits.allow():
                break
            proof, short_by = self.at(radius, target)
            if proof is not None:
                low, best, radius = radius, proof, 0.5 * (radius + top)
            else:
                top, line = radius, _zero(before, (radius, short_by))
                before = top, short_by
                radius = line if low + RESOLUTION * top < line < top else 0.5 * (low + top)
            if low >= reach or top - low < RESOLUTION * top:
                break
        return best

    def targets(self, radius: float) -> list[int]:
        """The target that is likely the nearest, then those whose linear margins are smallest."""
        bounds = self.linear_margins(radius)
        others = set(range(len(bounds))) - {self.point.label}
        return sorted(others, key=lambda r: (r != self.point.first, bounds[r], r))

    def all_targets_at(self, radius: float, patience: Patience) -> dict[int, Certificate]:
        """A certificate against every target at one radius; none where one is missing."""
        proofs = {}
        for target in self.targets(radius):
            proof, _ = self.at(radius, target, patience)
            if proof is None:
                return {}
            proofs[target] = proof
        return proofs

    def farthest_of_all(self, known: float, reach: float) -> dict[int, Certificate]:
        """Of every target in turn, as far as those before it hold; nothing where one has none."""
        nearest, *others = self.targets(reach)
        proof = self.farthest(nearest, known, reach)
        if proof is None:
            return {}
        reach = min(reach, proof.radius)
        proofs = {nearest: proof} | self.by_balls(others, reach)
        for target in others:
            if target in proofs:
                continue
            proof = self.farthest(target, known, reach)
            if proof is None:
                return {}
            proofs[target], reach = proof, min(reach, proof.radius)
        return proofs

    def by_balls(self, targets: list[int], radius: float) -> dict[int, Certificate]:
        """Certificates against those targets for which one multiplier for each layer's ball is enough (ℓ2)."""
        point, proofs = self.point, {}
        if point.norm != 2 or not targets:
            return proofs
        weights = [torch.from_numpy(W).float() for W in point.model.weights]
        with with_room():
            norms = np.array([spectral_norm(W) for W in point.model.weights[:-1]])
            x, rows = torch.from_numpy(point.x), torch.tensor(targets)
            blocks = ball_multipliers(point.model, weights, x, point.label, rows, radius, norms)
            for target, numbers in zip(targets, blocks, strict=True):
                claim = Certificate(radius, "balls", 2.0, tree={"numbers": numbers})
                if (
                    numbers is not None
                    and verified(claim, point.model, point.x, point.label, target) >= radius
                ):
                    proofs[target] = replace(claim, radius=radius * (1 - SLACK))
        return proofs

    def by_linear_relaxation(self, low: float, top: float, resolution: float) -> dict[int, Certificate]:
        """Certificates against all targets by the linear relaxation alone, at a radius that a few halvings find."""
        proofs: dict[int, Certificate] = {}
        for _ in range(HALVINGS):
            if low >= (1 - resolution) * top:
                break
            radius = 0.5 * (low + top)
            here = self.linear_proofs(radius)
            if here:
                low, proofs = radius, here
            else:
                top = radius
        return proofs

    def linear_proofs(self, radius: float) -> dict[int, Certificate]:
        """Certificates against all targets at one radius by the linear relaxation; none where one is missing."""
        if not (self.linear_margins(radius) > 0).all():
            return {}
        around, _ = self.region(radius)
        proofs = {r: _by_crown(self.point, around, r) for r in self.targets(radius)}
        return (
            {r: proof for r, proof in proofs.items() if proof is not None}
            if None not in proofs.values()
            else {}
        )

    def first_failure(self, radius: float) -> float:
        """A radius beyond `radius` at which the linear relaxation proves nothing, at most twice the last at which it does."""
        for _ in range(DOUBLINGS):
            radius *= 2
            if not (self.linear_margins(radius) > 0).all():
                break
        return radius


def _zero(before: tuple[float, float], last: tuple[float, float]) -> float:
    """The radius at which nothing is missing, on the line through two trials, or a little nearer."""
    slope = (last[1] - before[1]) / (last[0] - before[0])
    return last[0] - OVERSHOT * last[1] / slope if slope > 0 else np.nan


def _certificate(point: PointQuery, reach: float, kind: str, tree: dict[str, Any]) -> Certificate:
    return Certificate(reach * (1 - SLACK), kind, point.norm, reach, tree, point.domain or EVERYWHERE)


def _by_crown(point: PointQuery, around: Around, target: int) -> Certificate | None:
    """A certificate by the linear relaxation alone, as the checker verifies it."""
    certificate = _certificate(point, around.region.radius, "crown", {"block": around.bounds})
    with with_room():
        radius = verified(certificate, point.model, point.x, point.label, target)
    return certificate if radius >= certificate.radius else None


def linear_proofs(point: PointQuery, radius: float, known: float, query: Query) -> dict[int, Certificate]:
    """Certificates by the linear relaxation: at eps or at the largest radius found below it; else up to the shortest flip.

    Without a flip the radius is doubled until nothing is proven.
    """
    with np.errstate(all="ignore"), one_blas_thread():
        search = Proving(point, Limits(0))
        if query.eps is not None:
            return search.linear_proofs(radius) or search.by_linear_relaxation(known, radius, RESOLUTION)
        top = radius if np.isfinite(radius) else search.first_failure(known)
        return search.by_linear_relaxation(known, top, query.gap)


def proofs_at(point: PointQuery, radius: float, limits: Limits) -> dict[int, Certificate]:
    """Certificates against all targets at this radius, or none."""
    with np.errstate(all="ignore"), one_blas_thread():
        return Proving(point, limits).all_targets_at(radius, ENDLESS)


def farthest_proofs(
    point: PointQuery, attacked: float, gap: float, limits: Limits, known: float = 0.0
) -> dict[int, Certificate]:
    """Certificates at the largest radii found between `known` and the shortest flip.

    The target that is likely the nearest is proven as far as it can be, but no farther than what closes the bracket; then the others,
    each up to there. Where that is not enough, what is left of the limits is spent at the radius that closes the bracket. Without a
    flip radii up to twice what the linear relaxation proves are tried.
    """
    if limits.branches < 1:
        limits.out_of_branches = True
        return {}
    with np.errstate(all="ignore"), one_blas_thread():
        search = Proving(point, limits)
        top = attacked if np.isfinite(attacked) else search.first_failure(known)
        closing = (1 - gap) * top * OVERSHOOT
        proofs = search.farthest_of_all(known, closing)
        if min((c.radius for c in proofs.values()), default=0.0) < (1 - gap) * top and limits.allow():
            proofs = search.all_targets_at(closing, PATIENT) or proofs
        return proofs


class NormProduct(Method):
    """margin/(‖v_y - v_r‖ Π‖W_l‖): activations have slopes between 0 and 1."""

    is_cheap = True

    def applies(self, model: Model, query: Query) -> bool:
        return model.layers is not None and model.layers.activation in ("relu", "tanh")

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        model = pairs.model.layers
        assert model is not None
        labels, targets = pairs.label[pairs.point[rows]].tolist(), pairs.target[rows].tolist()
        certificates = norm_certificates(model, pairs.points(rows).numpy(), labels, targets, pairs.query.norm)
        for j, certificate in zip(rows.tolist(), certificates, strict=True):
            pairs.keep(j, certificate)


def seconds_of_bounds(model: Layers) -> float:
    """About how long it takes to bound all neurons once, by three choices of lines from both sides, roundings counted."""
    inner = [W.size for W in model.weights[:-1]]
    work = sum(len(W) * sum(inner[:k]) for k, W in enumerate(model.weights[:-1]))
    return 24 * work / FLOPS


class _ReluLayers(Method):
    """What both relaxations of layers of ReLU share; abstract."""

    def applies(self, model: Model, query: Query) -> bool:
        layers = model.layers
        return (
            layers is not None and layers.activation == "relu" and layers.weights[0].shape[1] <= MOST_INPUTS
        )

    def prove(self, pairs: Pairs, rows: Int[Tensor, " r"], limits: Limits) -> None:
        model, query = pairs.model.layers, pairs.query
        assert model is not None
        attacked, best = pairs.shortest()
        goal = OVERSHOOT * pairs.goal()
        open_points = torch.unique(pairs.point[rows]).tolist()
        for number, i in enumerate(open_points):
            of_point = torch.nonzero(pairs.point == i)[:, 0]
            known = float(pairs.verified()[of_point].min())
            first = int(pairs.target[best[i]])
            point = PointQuery(
                model, pairs.x[i].numpy(), int(pairs.label[i]), first, query.norm, query.bounds
            )
            share = limits.share(len(open_points) - number)
            seconds = seconds_of_bounds(model)
            if seconds > NOT_ASKED and time.thread_time() + seconds > share.deadline:
                limits.out_of_seconds = True  # a single look would take longer than all that is left
                continue
            radius = float(attacked[i] if query.eps is None else goal[i])
            proofs = self.of_point(point, radius, known, query, share)
            limits.note(share)
            for j in of_point.tolist():
                if (certificate := proofs.get(int(pairs.target[j]))) is not None:
                    pairs.keep(j, certificate)

    @abstractmethod
    def of_point(
        self, point: PointQuery, radius: float, known: float, query: Query, limits: Limits
    ) -> dict[int, Certificate]:
        """Certificates of one point against its targets; `radius`: eps, or the shortest flip."""


class LinearRelaxation(_ReluLayers):
    """Lines below and above every neuron, from the last layer back to the input (CROWN, Zhang et al. 2018)."""

    is_cheap = True

    def of_point(
        self, point: PointQuery, radius: float, known: float, query: Query, limits: Limits
    ) -> dict[int, Certificate]:
        return linear_proofs(point, radius, known, query)


class SemidefiniteRelaxation(_ReluLayers):
    """A semidefinite relaxation of all layers together, with branch and bound at the kinks of neurons."""

    def of_point(
        self, point: PointQuery, radius: float, known: float, query: Query, limits: Limits
    ) -> dict[int, Certificate]:
        if query.eps is not None:
            return proofs_at(point, radius, limits)
        return farthest_proofs(point, radius, query.gap, limits, known)
