"""Trees and sums of trees: every leaf is a box, and a point must reach another box before the tree says anything else.

One tree: the distance to the nearest box of another class is the radius. A sum of trees (forests, gradient boosting): at radius r each
tree says at least the least of its leaves within r, so the class is kept while the sum of these is positive; as each tree may choose
its leaf alone, this is a lower bound. Works for ℓ2 and ℓ∞, weights and bounds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

SINGLE = 2.0**-22  # scikit-learn's trees compare in float32: relative rounding of a coordinate, doubled


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of one tree: boxes lower < x ≤ upper, and what each adds to the scores of the classes."""

    lower: Float[np.ndarray, "l d"]
    upper: Float[np.ndarray, "l d"]
    values: Float[np.ndarray, "l k"]

    def nearest(self, x: np.ndarray, weights: np.ndarray) -> Float[np.ndarray, "l d"]:
        """The changes, times the weights, that reach every box; a little too short, for the rounding to float32."""
        slack = SINGLE * np.abs(x)
        below = np.maximum(
            self.lower - x - slack - SINGLE * np.abs(np.where(np.isfinite(self.lower), self.lower, 0)), 0
        )
        above = np.maximum(
            x - self.upper - slack - SINGLE * np.abs(np.where(np.isfinite(self.upper), self.upper, 0)), 0
        )
        gap = below + above
        return np.where(gap > 0, gap * np.where(np.isinf(weights), 1e300, weights), 0.0)

    def way_out(self, x: np.ndarray, own: int, norm: float, weights: np.ndarray) -> Float[np.ndarray, " d"]:
        """The shortest change into a leaf of another class, a little beyond its side."""
        distance = np.linalg.norm(self.nearest(x, weights), ord=norm, axis=1)
        distance[self.values.argmax(axis=1) == own] = np.inf
        leaf = int(distance.argmin())
        lower, upper = self.lower[leaf], self.upper[leaf]
        sides = [
            4 * SINGLE * np.maximum(np.abs(np.where(np.isfinite(s), s, 0.0)), 1e-30) for s in (lower, upper)
        ]
        return np.where(x <= lower, lower + sides[0], np.where(x > upper, upper - sides[1], x)) - x


def leaves_of(tree: Any, values: np.ndarray) -> Leaves:
    """The boxes of a tree of scikit-learn; `values` (nodes, k)."""
    d = tree.n_features
    boxes, rows = [], []
    waiting = [(0, np.full(d, -np.inf), np.full(d, np.inf))]
    while waiting:
        node, lower, upper = waiting.pop()
        if tree.children_left[node] < 0:
            boxes.append((lower, upper))
            rows.append(values[node])
            continue
        j, t = int(tree.feature[node]), float(tree.threshold[node])
        left, right = upper.copy(), lower.copy()
        left[j], right[j] = min(left[j], t), max(right[j], t)
        waiting += [
            (int(tree.children_left[node]), lower, left),
            (int(tree.children_right[node]), right, upper),
        ]
    return Leaves(np.stack([b[0] for b in boxes]), np.stack([b[1] for b in boxes]), np.stack(rows))


def trees_of(model: Any) -> tuple[list[Leaves], Float[np.ndarray, " k"], bool] | None:
    """All trees of a classifier of scikit-learn, the scores at the start, and whether it is a single tree; None for other models."""
    from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    if isinstance(model, DecisionTreeClassifier | RandomForestClassifier | ExtraTreesClassifier):
        if not np.isscalar(getattr(model, "n_outputs_", 1)) or model.n_outputs_ != 1:
            return None
        parts = [model] if isinstance(model, DecisionTreeClassifier) else list(model.estimators_)
        shares = []
        for part in parts:
            counts: np.ndarray = np.asarray(part.tree_.value)[:, 0, :]
            total = np.asarray(counts.sum(axis=1, keepdims=True))
            shares.append(leaves_of(part.tree_, counts / np.maximum(total, 1e-300)))
        return shares, np.zeros(len(model.classes_)), len(parts) == 1
    if isinstance(model, GradientBoostingClassifier):
        boosted: Any = model
        k = len(boosted.classes_)
        if boosted.init is not None or not hasattr(boosted, "_raw_predict_init"):
            return None  # a start that depends on the point
        raw = boosted._raw_predict_init(np.zeros((1, boosted.n_features_in_)))[0]
        start = np.array([0.0, raw[0]]) if k == 2 else np.asarray(raw, dtype=np.float64)
        parts = []
        for stage in model.estimators_:
            for c, regressor in enumerate(stage):
                value = model.learning_rate * regressor.tree_.value[:, 0, 0]
                values = np.zeros((len(value), k))
                values[:, 1 if k == 2 else c] = value
                parts.append(leaves_of(regressor.tree_, values))
        return parts, start, False
    return None


def tree_radius(
    parts: list[Leaves],
    start: np.ndarray,
    x: np.ndarray,
    own: int,
    norm: float,
    weights: np.ndarray,
) -> float:
    """A radius within which the class `own` keeps the largest score; 0 where it has not."""
    k = len(start)
    distances = [np.linalg.norm(part.nearest(x, weights), ord=norm, axis=1) for part in parts]
    radius = np.inf
    for other in (c for c in range(k) if c != own):
        steps, total = [], float(start[own] - start[other])
        for part, distance in zip(parts, distances, strict=True):
            order = np.argsort(distance, kind="stable")
            gain = (part.values[:, own] - part.values[:, other])[order]
            least = np.minimum.accumulate(gain)
            here = int((distance[order] <= 0).sum())
            total += float(least[max(here, 1) - 1])
            falls = np.flatnonzero(np.diff(least, prepend=least[0]) < 0)
            falls = falls[falls >= max(here, 1)]
            steps += [(float(distance[order][j]), float(least[j] - least[j - 1])) for j in falls.tolist()]
        rounding = 1e-9 * (abs(total) + sum(float(np.abs(part.values).max()) for part in parts))
        if total <= rounding:
            return 0.0
        for distance, change in sorted(steps):
            total += change
            if total <= rounding:
                radius = min(radius, distance)
                break
    return float(radius)
