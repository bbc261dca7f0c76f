"""Labels as people write them, as positions among the classes."""

import math
from typing import Any

import numpy as np

SHOWN = 20  # classes that a message names


def class_positions(y: Any, classes: np.ndarray | None, num_classes: int) -> np.ndarray:
    """(n,) For each label its position in `classes`; without names -1/+1, 0/1 or booleans of two classes, 0 … k-1 of more."""
    labels = as_labels(y)
    positions = _positions(set(labels), classes, num_classes)
    if unknown := sorted({str(v) for v in labels if v not in positions}):
        wanted = _wanted(classes, num_classes)
        raise ValueError(f"Unknown labels {', '.join(unknown[:5])}; the model's are {wanted}.")
    return np.array([positions[v] for v in labels], dtype=np.int64)


def _positions(found: set[Any], classes: np.ndarray | None, num_classes: int) -> dict[Any, int]:
    """Where each label stands. Without classes: of two -1, 0 or False is the first, 1 or True the second; of more 0, 1, ..."""
    if classes is not None:
        return {label: i for i, label in enumerate(classes.tolist())}
    if num_classes > 2:
        if any(isinstance(v, bool) for v in found):
            raise ValueError(f"Labels are True and False, but the model has {num_classes} classes.")
        return {i: i for i in range(num_classes)}
    if {-1, 0} <= found:
        raise ValueError("Labels -1 and 0 both mean the first of two classes; use 0 and 1, or -1 and +1.")
    return {-1: 0, 0: 0, 1: 1}


def _wanted(classes: np.ndarray | None, num_classes: int) -> str:
    if classes is not None:
        shown = ", ".join(map(str, classes.tolist()[:SHOWN]))
        return shown if len(classes) <= SHOWN else f"{shown}, ..."
    return "0 and 1, or -1 and +1" if num_classes == 2 else f"0 to {num_classes - 1}"


def as_labels(y: Any) -> list[Any]:
    """Labels as Python values, one per point, from arrays, tensors, tables or lists; refuses missing ones."""
    if hasattr(y, "detach"):  # a tensor
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
    labels = [v.item() if hasattr(v, "item") else v for v in array.tolist()]
    if any(_is_missing(v) for v in labels):
        raise ValueError("Labels contain missing values (NaN or None); drop those rows first.")
    if strange := [v for v in labels if not isinstance(v, str | bytes | int | float)]:
        raise ValueError(f"Labels must be words or numbers, got {type(strange[0]).__name__}.")
    return labels


def _is_missing(label: Any) -> bool:
    is_nan = isinstance(label, float) and math.isnan(label)
    return label is None or is_nan or type(label).__name__ in ("NAType", "NaTType")
