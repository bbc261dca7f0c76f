"""How far a single feature has to move, all others as they are."""

from collections.abc import Sequence
from math import inf
from typing import Any

from featureprism._inputs import as_points
from featureprism.brackets import RadiusBracket
from featureprism.verify.api import feature_names, robust_radius
from featureprism.verify.query import Budget


def feature_radii(
    model: Any,
    X: Any,
    y: Any,
    *,
    features: Sequence[Any] | None = None,
    bounds: Any = None,
    max_radius: float | None = None,
    budget: Budget | None = None,
    classes: Sequence[Any] | None = None,
) -> dict[Any, RadiusBracket]:
    """Least change of a single feature that changes the answer: proven below, witnessed above.

    Parameters
    ----------
    model, X, y, bounds, max_radius, classes
        As `robust_radius` takes them.
    features : sequence, optional
        Positions or names of the features that are asked about (default: all of them).
    budget : Budget, optional
        What each feature may cost.

    Returns
    -------
    dict
        For each feature, by its name where X has names, the bracket of all points with every other feature fixed, in the
        feature's own units.

    Raises
    ------
    ValueError
        For features that X does not have, and for what `robust_radius` refuses.

    Examples
    --------
    >>> import torch
    >>> from featureprism.verify import feature_radii
    >>> net = torch.nn.Linear(2, 2).double()
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 0.5], [0.0, 0.0]])), net.bias.data.zero_()
    >>> radii = feature_radii(net, [[1.0, 1.0]], [0])
    >>> [round(float(bracket.attacked[0]), 3) for bracket in radii.values()]
    [1.5, 3.0]
    """
    dim, names = as_points(X).shape[1], feature_names(X)
    keys: list[Any] = list(range(dim)) if names is None else list(names)
    found = {}
    for feature in keys if features is None else features:
        if feature not in keys and feature not in range(dim):
            raise ValueError(
                f"{feature!r} is no feature of X; names of its columns or positions below {dim} are wanted."
            )
        at = keys.index(feature) if feature in keys else int(feature)
        found[keys[at]] = robust_radius(
            model,
            X,
            y,
            norm=inf,
            bounds=bounds,
            fixed=[j for j in range(dim) if j != at],
            max_radius=max_radius,
            budget=budget,
            classes=classes,
        )
    return found
