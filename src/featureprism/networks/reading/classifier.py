"""A model that was read: scores of points, and the labels they are for."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Classifier:
    """`net` gives points (n, d) scores (n, k) in float64; the largest wins. `classes` are the labels in the order of the scores.

    `classes` is None where the model does not know them. `reason` says why the network could not be read as a chain of layers, so
    that only attacks can measure it; it is empty for a network that was read.
    """

    net: nn.Module
    classes: np.ndarray | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise ValueError(f"A classifier needs at least two classes, got {self.num_classes}.")
        if self.classes is None:
            return
        classes = self.classes
        if classes.ndim != 1 or len(classes) != self.num_classes:
            raise ValueError(
                f"The model has {self.num_classes} scores, classes name {classes.size} of shape {classes.shape}."
            )
        if len(set(classes.tolist())) < len(classes):
            raise ValueError(f"classes must name every class once, got {classes.tolist()[:20]}.")

    @property
    def num_classes(self) -> int:
        """k."""
        return int(self.net.num_classes)  # pyright: ignore[reportArgumentType]

    def indices(self, y: Any, num_points: int | None = None) -> Int64[Tensor, " n"]:
        """Labels as positions of the scores; refuses labels that the model does not have."""
        labels = as_labels(y)
        if num_points is not None and len(labels) != num_points:
            raise ValueError(f"Need one label per point: {num_points} points, {len(labels)} labels.")
        positions = self._positions(set(labels))
        unknown = sorted({str(v) for v in labels if v not in positions})
        if unknown:
            raise ValueError(f"Unknown labels {', '.join(unknown[:5])}; the model's are {self._wanted()}.")
        return torch.tensor([positions[v] for v in labels], dtype=torch.int64)

    def _positions(self, found: set[Any]) -> dict[Any, int]:
        """Where each label stands. Without classes: of two -1, 0 or False is the first, 1 or True the second; of more 0, 1, ..."""
        if self.classes is not None:
            return {label: i for i, label in enumerate(self.classes.tolist())}
        if self.num_classes > 2:
            if any(isinstance(v, bool) for v in found):
                raise ValueError(f"Labels are True and False, but the model has {self.num_classes} classes.")
            return {i: i for i in range(self.num_classes)}
        if {-1, 0} <= found:
            raise ValueError("Labels -1 and 0 both mean the first of two classes; use 0 and 1, or -1 and +1.")
        return {-1: 0, 0: 0, 1: 1}

    def _wanted(self) -> str:
        if self.classes is not None:
            shown = ", ".join(map(str, self.classes.tolist()[:20]))
            return shown if len(self.classes) <= 20 else f"{shown}, ..."
        return "0 and 1, or -1 and +1" if self.num_classes == 2 else f"0 to {self.num_classes - 1}"


def as_labels(y: Any) -> list[Any]:
    """Labels as Python values, one per point; refuses missing ones."""
    if isinstance(y, Tensor):
        y = y.detach().cpu().numpy()
    elif hasattr(y, "to_numpy"):
        y = y.to_numpy()
    try:
        array = np.asarray(y)
        if array.dtype.kind in "US" and not isinstance(y, np.ndarray):
            array = np.asarray(y, dtype=object)  # numpy would make words of numbers beside words
    except ValueError as error:
        raise ValueError("Labels must be one per point, got rows of different lengths.") from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"Labels must be one per point, of shape (n,), got {array.shape}.")
    if array.dtype.kind == "c":
        raise ValueError(f"Labels must be words or real numbers, got {array.dtype}.")
    if not len(array):
        raise ValueError("Labels are empty: there is nothing to measure.")
    labels = [v.item() if isinstance(v, np.generic | Tensor) else v for v in array.tolist()]
    if any(_is_missing(v) for v in labels):
        raise ValueError("Labels contain missing values (NaN or None); drop those rows first.")
    if strange := [v for v in labels if not isinstance(v, str | bytes | int | float)]:
        raise ValueError(f"Labels must be words or numbers, got {type(strange[0]).__name__}.")
    return labels


def _is_missing(label: Any) -> bool:
    return (
        label is None
        or type(label).__name__ in ("NAType", "NaTType")
        or (isinstance(label, float) and math.isnan(label))
    )
