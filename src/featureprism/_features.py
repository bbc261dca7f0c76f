"""Features of tabular points: their names, their spread, and what it costs to change them."""

from collections.abc import Sequence
from difflib import get_close_matches
from math import inf
from typing import Any

import numpy as np

from featureprism.checker.weights import LEAST, MOST

UNITS = ("std",)


def as_weights(weights: Any, fixed: Any, dim: int, names: Sequence[str] | None = None) -> np.ndarray | None:
    """(d,) The weight of every feature, inf for those that are fixed; None where all are 1.

    `fixed` names features by position or by name, or is a mask.
    """
    if weights is None and fixed is None:
        return None
    try:
        found = np.array(
            np.broadcast_to(np.asarray(1.0 if weights is None else weights, dtype=np.float64), (dim,))
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"weights must be one number or {dim} numbers, one for every feature.") from error
    if not ((found >= LEAST) & ((found <= MOST) | (found == inf))).all():
        raise ValueError(
            f"weights must be positive numbers, or math.inf for a feature that is fixed, got {found.min():g} to {found.max():g}."
        )
    for feature in positions_of(fixed, dim, names):
        found[feature] = inf
    if np.isinf(found).all():
        raise ValueError("Every feature is fixed: leave at least one that may move.")
    return found


def positions_of(features: Any, dim: int, names: Sequence[str] | None = None) -> list[int]:
    """Positions of features that are given by position, by name, or as a mask."""
    if features is None:
        return []
    if not isinstance(features, str | int | np.integer) and not hasattr(features, "__iter__"):
        raise ValueError(f"fixed must name features by position or by name, got {features!r}.")
    given = [features] if isinstance(features, str | int | np.integer) else list(features)
    if len(given) == dim and all(isinstance(v, bool | np.bool_) for v in given):
        return np.flatnonzero(np.array(given, dtype=bool)).tolist()
    known = {name: j for j, name in enumerate(names or ())}
    found = []
    for feature in given:
        place = known.get(feature) if isinstance(feature, str) else feature
        if isinstance(place, bool) or not isinstance(place, int | np.integer) or not 0 <= place < dim:
            near = get_close_matches(str(feature), known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else f" Features are numbered from 0 to {dim - 1}."
            raise ValueError(f"There is no feature {feature!r}.{hint}")
        found.append(int(place))
    return found


def spread_of(x: np.ndarray, reference: np.ndarray | None) -> np.ndarray:
    """(d,) Standard deviations of all features, over the reference where there is one."""
    data = x if reference is None else reference
    if data.shape[1] != x.shape[1]:
        raise ValueError(f"The reference has {data.shape[1]} features, the points have {x.shape[1]}.")
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # points that overflow are refused where they are measured
        return data.std(axis=0)


def query_weights(
    unit: str | None,
    weights: Any,
    fixed: Any,
    spread: np.ndarray,
    names: Sequence[str] | None = None,
) -> np.ndarray | None:
    """The weights of a question: given, or 1/σ for radii in standard deviations, where features that never vary are fixed."""
    if unit is None:
        return as_weights(weights, fixed, len(spread), names)
    if unit not in UNITS:
        raise ValueError(f'unit must be "std" or None, got {unit!r}; give weights for other units.')
    if weights is not None:
        raise ValueError('Give weights or unit="std", not both.')
    varies = spread > 0
    if not varies.any():
        raise ValueError(
            'unit="std" needs features that vary: give reference=X_train, from which standard deviations are taken.'
        )
    return as_weights(np.where(varies, 1 / np.where(varies, spread, 1.0), inf), fixed, len(spread), names)
