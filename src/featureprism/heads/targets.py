"""What a head is to learn: points, the position of each label among the classes, and how much each point counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.heads.descent import Learned
from featureprism.heads.scaling import is_sparse


@dataclass(frozen=True, eq=False)
class Targets:
    """Points with labels as positions in `classes`, finer labels or None, and weights or None.

    `is_whole`: one batch holds them all. Then equal points are one point that counts more, in an order of their own: k copies of a
    point are a point of weight k, and the order of the rows decides nothing.
    """

    X: Any
    y: Int[Tensor, " n"]
    classes: np.ndarray
    fine: np.ndarray | None
    weight: Float[np.ndarray, " n"] | None
    is_whole: bool

    @property
    def total(self) -> float:
        """How many points they count as."""
        return float(len(self.y) if self.weight is None else self.weight.sum())

    def mean_weight(self, dtype: torch.dtype) -> Float[Tensor, " n"] | None:
        """Weights of mean 1."""
        return None if self.weight is None else torch.tensor(self.weight / self.weight.mean(), dtype=dtype)


def targets(
    X: Any, y: np.ndarray, fine: Any, sample_weight: np.ndarray | None, class_weight: Any, batch_size: int
) -> Targets:
    """Checked labels and weights; points of weight 0 are left out."""
    classes, index = _classes(y)
    fine = None if fine is None else np.asarray(fine)
    if fine is not None and fine.shape != (len(y),):
        raise ValueError(f"Need one fine label per point: {len(y)} points, fine labels {fine.shape}.")
    weight = sample_weight
    if class_weight is not None:
        by_class = class_weights(class_weight, classes, index, sample_weight)[index]
        weight = by_class if sample_weight is None else by_class * sample_weight
    if weight is not None:
        counts = weight > 0
        if len(absent := np.setdiff1d(np.arange(len(classes)), index[counts])):
            raise ValueError(f"The class {classes[absent[0]]!r} has no point of positive weight.")
        X, index, weight = X[counts], index[counts], weight[counts]
        fine = None if fine is None else fine[counts]
    is_whole = len(index) <= batch_size
    if is_whole:
        X, index, fine, weight = _merged(X, index, fine, weight)
    return Targets(X, torch.as_tensor(index), classes, fine, weight, is_whole)


def _classes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    try:
        classes, index = np.unique(y, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            f"Labels of a kind are needed: words and numbers do not compare ({error})."
        ) from error
    if len(classes) < 2:
        raise ValueError(f"A head needs at least two classes, got one class: {classes[0]!r}.")
    return classes, index


def class_weights(
    wish: Any, classes: np.ndarray, index: Int[np.ndarray, " n"], sample_weight: np.ndarray | None
) -> Float[np.ndarray, " c"]:
    """The weight of every class: those of a mapping (1 where it has none), or "balanced": n/(C n_c), as scikit-learn has it."""
    if wish == "balanced":
        counts = np.bincount(index, weights=sample_weight, minlength=len(classes))
        return counts.sum() / (len(classes) * np.maximum(counts, np.finfo(float).tiny))
    if not isinstance(wish, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a mapping from labels, got {wish!r}.")
    if unknown := [label for label in wish if label not in classes.tolist()]:
        raise ValueError(
            f"class_weight names the classes {unknown[:5]}, the labels are {classes[:20].tolist()}."
        )
    found = np.array([float(wish.get(label, 1.0)) for label in classes.tolist()])
    if not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(f"Weights of classes must be finite and at least 0, got {dict(wish)}.")
    return found


def _merged(
    X: Any, index: np.ndarray, fine: np.ndarray | None, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
    """Equal rows with equal labels as one, sorted; the weights of equals are added."""
    X = X.toarray() if is_sparse(X) else X
    finer = np.zeros(len(X)) if fine is None else np.unique(fine, return_inverse=True)[1]
    keys = np.column_stack([index, finer, X])
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    counted = np.bincount(inverse.reshape(-1), weights=weight)
    return X[first], index[first], None if fine is None else fine[first], counted.astype(np.float64)


def split(
    learned: Learned, task: Targets, share: float, generator: torch.Generator
) -> tuple[Learned, Learned | None]:
    """The points to learn from, and a share of each class to watch; None where the share is 0."""
    if share == 0:
        return learned, None
    order = torch.randperm(len(task.y), generator=generator)
    held = torch.zeros(len(order), dtype=torch.bool)
    for c in range(len(task.classes)):
        own = order[task.y[order] == c]
        held[own[: round(share * len(own))]] = True
    if not bool(held.any()) or bool(held.all()):
        raise ValueError(
            f"validation_fraction = {share:g} leaves no points to {'watch' if not bool(held.any()) else 'learn from'}."
        )
    return learned.rows(torch.nonzero(~held)[:, 0]), learned.rows(torch.nonzero(held)[:, 0])
