"""Brackets of models that are no networks: bounds where the kind of model has one, and an attack by answers alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float

from featureprism._labels import as_labels, class_positions
from featureprism._next_steps import BY_BRANCHES, BY_SECONDS
from featureprism.brackets import NOT_CERTIFIED, RadiusBracket
from featureprism.models.reading.estimators import affine_steps
from featureprism.verify.called.bounds import nearest_neighbour_radius
from featureprism.verify.called.decision_attack import Region, shortest_flips
from featureprism.verify.called.ensembles import trees_of
from featureprism.verify.called.trees import Nearest, Trees
from featureprism.verify.driver import CLOSED, MISCLASSIFIED
from featureprism.verify.query import REACH_MARGIN, Budget, Limits, Query

OPEN = "no method proves more about this kind of model"
MOST_NEIGHBOURS = 20_000  # training points up to which 1-nearest neighbour is solved exactly
Answers = Callable[[Float[np.ndarray, "m d"]], np.ndarray]
Bound = Callable[["Asked"], "Bounded"]


@dataclass(frozen=True, eq=False)
class Asked:
    """Points that are classified correctly, and what is known of them: the shortest flips, the answers, how much work is left."""

    x: Float[np.ndarray, "n d"]
    label: np.ndarray
    query: Query
    attacked: Float[np.ndarray, " n"]
    delta: Float[np.ndarray, "n d"]
    answers: Answers
    limits: Limits

    @property
    def weights(self) -> Float[np.ndarray, " d"]:
        """Of the features, 1 where the query has none."""
        return np.ones(self.x.shape[1]) if self.query.weights is None else self.query.weights

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(d,) and (d,), infinite where the query has none."""
        lower, upper = (-inf, inf) if self.query.bounds is None else self.query.bounds
        return np.broadcast_to(lower, self.x.shape[1:]), np.broadcast_to(upper, self.x.shape[1:])


@dataclass(frozen=True, eq=False)
class Bounded:
    """Proven radii, how they were proven, and perturbations that are as short, where the bound knows them."""

    radii: Float[np.ndarray, " n"]
    kind: str
    delta: Float[np.ndarray, "n d"] | None = None
    stopped: str = OPEN


@dataclass(frozen=True, eq=False)
class Called:
    """A model that gives points (m, d) the positions of their classes, and perhaps a bound of radii."""

    answers: Answers
    classes: np.ndarray | None
    num_classes: int
    reason: str
    bound: Bound | None = None
    starts: Float[np.ndarray, "m d"] | None = None


def called_model(
    model: Any, classes: Any, x: Float[np.ndarray, "n d"], given: Any, y: Any, reason: str
) -> Called:
    """An estimator with `predict`, or a function that gives labels (n,) or scores (n, k)."""
    names = None if classes is None else np.asarray(classes)
    if hasattr(model, "predict"):
        names = np.asarray(getattr(model, "classes_", names)) if names is None else names
        answers = _predictions(model, names, given)
        if names is None:
            names = _every_label(answers.labels(x), y)
        return Called(answers, names, len(names), reason, *_bound_of(model))
    answers = _Function(model)
    first = answers.raw(x[: min(len(x), 64)])
    if first.ndim == 2:
        return Called(answers, names, first.shape[1], reason)
    names = _every_label(answers.raw(x), y) if names is None else names
    return Called(_Labels(answers.raw, names), names, len(names), reason)


def _every_label(answers: np.ndarray, y: Any) -> np.ndarray:
    """The labels that a model gives, and those that it should have given, unless it gives none of them."""
    given, wanted = set(answers.tolist()), set(as_labels(y))
    every = sorted(given | wanted if given & wanted else given, key=lambda v: (isinstance(v, str), v))
    return np.array(every, dtype=object if len({isinstance(v, str) for v in every}) > 1 else None)


class _Labels:
    """Labels by name as positions; labels that have no name are a position of their own."""

    def __init__(self, labels: Callable[[np.ndarray], np.ndarray], names: np.ndarray | None) -> None:
        self.labels, self.names = labels, names

    def __call__(self, z: np.ndarray) -> np.ndarray:
        found = self.labels(z)
        assert self.names is not None
        places = {name: i for i, name in enumerate(self.names.tolist())}
        return np.array([places.get(label, len(places)) for label in found.tolist()])


def _predictions(model: Any, names: np.ndarray | None, given: Any) -> _Labels:
    """`predict` on arrays, or on tables with the columns that it was fitted on."""
    columns = (
        list(given.columns) if hasattr(given, "columns") and hasattr(model, "feature_names_in_") else None
    )

    def labels(z: np.ndarray) -> np.ndarray:
        rows: Any = z
        if columns is not None:
            import pandas

            rows = pandas.DataFrame(z, columns=columns)
        try:
            found = np.asarray(model.predict(rows))
        except Exception as error:  # whatever a model says to points that it does not take
            said = (str(error) or type(error).__name__).splitlines()[0]
            raise ValueError(f"The {type(model).__name__} does not predict these points: {said}") from error
        return found.reshape(len(z), -1)[:, 0] if found.ndim > 1 else found

    return _Labels(labels, names)


class _Function:
    """A function of points as the position of its largest score."""

    def __init__(self, function: Callable[[np.ndarray], Any]) -> None:
        self.function = function

    def raw(self, z: np.ndarray) -> np.ndarray:
        """What it returns, as an array."""
        try:
            out = self.function(z)
            found = np.asarray(out.detach().numpy() if hasattr(out, "detach") else out)
        except Exception as error:  # whatever a function says to an array
            said = (str(error) or type(error).__name__).splitlines()[0]
            raise ValueError(f"The function does not take an array of points {z.shape}: {said}") from error
        if found.ndim not in (1, 2) or len(found) != len(z):
            raise ValueError(
                f"A function must return labels of shape (n,) or scores of shape (n, k) for n = {len(z)} points, got {found.shape}."
            )
        return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found

    def __call__(self, z: np.ndarray) -> np.ndarray:
        return self.raw(z).argmax(axis=1)


def bracket_called(
    called: Called, x: Float[np.ndarray, "n d"], y: Any, query: Query, budget: Budget
) -> RadiusBracket:
    """Brackets of a model that is only called; in units of the query's weights."""
    began, limits = time.thread_time(), Limits.of(budget, budget.seconds)
    label = class_positions(y, called.classes, called.num_classes)
    if len(label) != len(x):
        raise ValueError(f"Need one label per point: {len(x)} points, {len(label)} labels.")
    predicted = called.answers(x)
    right = predicted == label
    weights = np.ones(x.shape[1]) if query.weights is None else query.weights
    moves = np.isfinite(weights)
    scale = np.where(moves, weights, 1.0)
    low, high = (-inf, inf) if query.bounds is None else query.bounds
    region = Region(query.norm, low * scale, high * scale, moves)
    starts = np.concatenate([x] if called.starts is None else [x, called.starts[:2000]])
    rows = np.flatnonzero(right)
    attacked, delta = np.where(right, inf, 0.0), np.zeros_like(x)
    if len(rows):
        flips = lambda u, i: called.answers(u / scale) != label[rows[i]]  # noqa: E731
        found, step = shortest_flips(flips, x[rows] * scale, starts * scale, region)
        attacked[rows], delta[rows] = found, step / scale
    certified, kind = np.zeros(len(x)), f"{NOT_CERTIFIED}: {called.reason}"
    no_proof = "no method of proof applies to this model"
    if called.bound is not None and len(rows):
        bounded = called.bound(
            Asked(x[rows], label[rows], query, attacked[rows], delta[rows], called.answers, limits)
        )
        certified[rows], kind, no_proof = bounded.radii, bounded.kind, bounded.stopped
        if bounded.delta is not None:
            size = region.length(bounded.delta * scale)
            shorter = (size < attacked[rows]) & (called.answers(x[rows] + bounded.delta) != label[rows])
            shorter &= (
                region.inside((x[rows] + bounded.delta) * scale) == (x[rows] + bounded.delta) * scale
            ).all(axis=1)
            attacked[rows[shorter]], delta[rows[shorter]] = size[shorter], bounded.delta[shorter]
        certified = np.minimum(certified, attacked)
    if query.eps is not None:
        attacked = np.where(attacked <= query.eps, attacked, np.where(right, inf, 0.0))
    target = np.where(predicted == label, label, predicted)
    moved = np.isfinite(attacked) & right
    if moved.any():
        target[moved] = called.answers(x[moved] + delta[moved])
    target = np.minimum(target, called.num_classes - 1)
    closed = (
        certified >= (1 - query.gap) * attacked if query.eps is None else (certified >= query.eps) | moved
    )
    stopped = [
        MISCLASSIFIED if not r else CLOSED if c else no_proof for r, c in zip(right, closed, strict=True)
    ]
    return RadiusBracket(
        certified,
        attacked,
        tuple(kind if r else MISCLASSIFIED for r in right),
        delta,
        tuple({} for _ in x),
        seconds=(time.thread_time() - began) / max(1, len(x)),
        label=label,
        predicted=np.minimum(predicted, called.num_classes - 1),
        target=target,
        classes=called.classes,
        stopped_because=tuple(stopped),
    )


def _bound_of(model: Any) -> tuple[Bound | None, np.ndarray | None]:
    """What can be proven of this kind of model, and points to start attacks towards."""
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import Pipeline
    from sklearn.svm import SVC

    if isinstance(model, Pipeline):
        inner, _ = _bound_of(model.steps[-1][1])
        try:
            W, b = affine_steps(model)
        except ValueError:
            return None, None
        is_diagonal = len(W) == W.shape[1] and not (W - np.diag(np.diag(W))).any()
        return (None if inner is None or not is_diagonal else _after_scaling(inner, np.diag(W), b)), None

    if (trees := trees_of(model)) is not None:
        return partial(_by_leaves, trees), None
    if isinstance(model, KNeighborsClassifier):
        train = np.asarray(getattr(model, "_fit_X", None))
        plain = (
            model.effective_metric_ == "euclidean" and model.weights == "uniform" and train.dtype.kind == "f"
        )
        return (partial(_neighbours, model, train), train) if plain else (None, None)
    if isinstance(model, SVC) and model.kernel == "rbf":

        def by_kernel(asked: Asked) -> Bounded:
            from featureprism.verify.called.bounds import kernel_flips, kernel_radii

            x, label, query = asked.x, asked.label, asked.query
            radii = kernel_radii(model, x, label) / _stretch(asked)
            by_gradient = len(model.classes_) == 2 and query.weights is None and query.norm != 1
            delta = kernel_flips(model, x, label, query.norm, query.bounds) if by_gradient else None
            return Bounded(radii, "norm in the kernel's space", delta)

        return by_kernel, np.asarray(model.support_vectors_)
    return None, None


def _after_scaling(inner: Bound, scale: np.ndarray, shift: np.ndarray) -> Bound:
    """The bound of a model after every feature was scaled: weights are divided by the scale, changes too."""
    moves = np.abs(scale) > 0
    size = np.where(moves, scale, 1.0)

    def bound(asked: Asked) -> Bounded:
        sides = [np.where(moves, side * size + shift, shift) for side in asked.bounds]
        query = replace(
            asked.query,
            weights=np.where(moves, asked.weights / np.abs(size), inf),
            bounds=(np.minimum(*sides), np.maximum(*sides)),
        )
        found = inner(
            replace(
                asked,
                x=asked.x * scale + shift,
                delta=asked.delta * scale,
                query=query,
                answers=lambda z: asked.answers((z - shift) / size),
            )
        )
        step = None if found.delta is None else found.delta / size
        return replace(found, radii=found.radii * (1 - 1e-9), delta=step)

    return bound


def _by_leaves(trees: Trees, asked: Asked) -> Bounded:
    """Point by point a search over the leaves, each with its share of the time that is left."""
    radii, delta, limits = np.zeros(len(asked.x)), np.zeros_like(asked.x), asked.limits
    if not _agree(trees, asked):
        return Bounded(radii, f"{NOT_CERTIFIED}: the trees that were read disagree with the model")
    goal = (
        asked.attacked
        if asked.query.eps is None
        else np.minimum(asked.attacked, REACH_MARGIN * asked.query.eps)
    )
    for i, (x, label) in enumerate(zip(asked.x, asked.label.tolist(), strict=True)):
        share = limits.share(len(asked.x) - i)
        flips = lambda z, own=label: asked.answers(z) != own  # noqa: E731
        search = Nearest(trees, x, asked.query.norm, asked.weights, asked.bounds, flips, share)
        radii[i] = search.radius(label, float(goal[i]), asked.delta[i])
        delta[i] = 0.0 if search.delta is None else search.delta
        limits.note(share)
    why = BY_SECONDS if limits.out_of_seconds else BY_BRANCHES if limits.out_of_branches else OPEN
    return Bounded(radii, "search over the leaves", delta, why)


def _agree(trees: Trees, asked: Asked) -> bool:
    """Whether the trees say what the model says, at the points and beside them."""
    rng = np.random.default_rng(0)
    spread = asked.x.std(axis=0) + 0.1 * np.abs(asked.x).mean(axis=0)
    beside = np.clip(asked.x[:32] + spread * rng.normal(size=asked.x[:32].shape), *asked.bounds)
    at = np.concatenate([asked.x[:64], beside])
    scores = trees.scores(at)
    said = scores[np.arange(len(at)), np.minimum(asked.answers(at), scores.shape[1] - 1)]
    return bool((said >= scores.max(axis=1) - 1e-5 * (1 + np.abs(scores).max(axis=1))).all())


def _stretch(asked: Asked) -> float:
    """The largest ℓ2 norm of δ with ‖w ∘ δ‖ ≤ 1."""
    longest = 1 / asked.weights
    return float(np.linalg.norm(longest) if asked.query.norm == inf else longest.max())


def _neighbours(model: Any, train: np.ndarray, asked: Asked) -> Bounded:
    """k-nearest neighbours: own points come r farther and others r nearer at most; one neighbour alone exactly."""
    x, label, query = asked.x, asked.label, asked.query
    k, own_class = model.n_neighbors, model._y
    stretch, radii, delta = _stretch(asked), np.zeros(len(x)), np.zeros_like(x)
    exact = k == 1 and query.norm == 2 and query.weights is None and len(train) <= MOST_NEIGHBOURS
    need = k // 2 + 1
    for i, (point, o) in enumerate(zip(x, label, strict=True)):
        if exact:
            radius, step = nearest_neighbour_radius(train, own_class, point, o)
            radii[i], delta[i] = radius * (1 - 1e-9), 0.0 if step is None else step
            continue
        distance = np.linalg.norm(train - point, axis=1)
        near, others = np.sort(distance[own_class == o]), np.sort(distance[own_class != o])
        if len(near) >= need:
            far = others[k - need] if len(others) > k - need else inf
            radii[i] = max(0.0, (far - near[need - 1]) / 2 * (1 - 1e-9)) / stretch
    return Bounded(radii, "exact" if exact else "distances to neighbours", delta if exact else None)
