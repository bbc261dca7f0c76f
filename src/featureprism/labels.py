"""Labels as people write them, as positions among the classes."""

from typing import Any

import numpy as np

SIGNS = {-1: 0, 0: 0, 1: 1}  # where a model of two classes does not name them


def class_positions(y: Any, classes: np.ndarray | None, num_classes: int) -> np.ndarray:
    """(n,) For each label its position in `classes`; without names -1/+1 or 0/1 of two classes, 0 … k-1 of more."""
    y = np.asarray(y)
    if y.ndim == 2 and 1 in y.shape:
        y = y.reshape(-1)
    if y.ndim != 1:
        raise ValueError(f"Labels must be one for each point, got an array of shape {y.shape}.")
    values, where = np.unique(y.astype(object) if y.dtype.kind not in "biufUS" else y, return_inverse=True)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError("The labels contain NaN; drop those points.")
    if classes is None:
        known = SIGNS if num_classes == 2 else {i: i for i in range(num_classes)}
    else:
        known = {name: i for i, name in enumerate(classes.tolist())}
    found = [known.get(value) for value in values.tolist()]
    if None in found:
        strange = [v for v, position in zip(values.tolist(), found, strict=True) if position is None]
        raise ValueError(f"The labels {strange[:5]} are none of the model's classes: {list(known)[:20]}.")
    return np.array(found, dtype=np.int64)[where.reshape(-1)]
