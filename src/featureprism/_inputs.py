"""Points as people have them: arrays, tensors, lists, tables, sparse matrices."""

import math
from numbers import Real
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from featureprism.checker.arrays import real_numbers

LARGEST = 1e100  # of a coordinate or a weight: squares and products of larger ones leave float64


def as_points(X: Any) -> Float64[Tensor, "n d"]:
    """Rows of float64; points with more axes, such as images, are flattened. Refuses what is no finite real number."""
    x = torch.as_tensor(_array(X))
    if x.ndim < 2:
        raise ValueError(
            f"Points must be rows of shape (n, d), got shape {tuple(x.shape)}; one point is X.reshape(1, -1)."
        )
    if not x.numel():
        raise ValueError(f"Points are empty (shape {tuple(x.shape)}): there is nothing to measure.")
    x = x.flatten(1)
    check_points(x, at_least=1)
    return x


def as_tensors(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Points and labels as tensors: tensors as they are, everything else in float64."""
    if y is None:
        raise ValueError("Labels y of shape (n,) are wanted, got None.")
    points = x if isinstance(x, Tensor) else as_points(x)
    return points, y if isinstance(y, Tensor) else torch.as_tensor(real_numbers(np.asarray(y), "y"))


def point_shape(X: Any) -> tuple[int, ...]:
    """The shape of one point: (d,), or more axes."""
    return tuple(np.shape(X) if isinstance(X, list | tuple) else X.shape)[1:]


def feature_names(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table; None for arrays."""
    columns = getattr(X, "columns", None)
    return None if columns is None or callable(columns) else tuple(str(name) for name in columns)


def _array(X: Any) -> np.ndarray:
    """The numbers in float64, whatever holds them."""
    if isinstance(X, Tensor):
        if X.is_complex():
            raise ValueError(
                f"X must hold real numbers, got complex numbers ({X.dtype}); convert them first."
            )
        return X.detach().to("cpu", torch.float64).to_dense().clone().numpy()
    if hasattr(X, "toarray"):  # scipy's sparse matrices
        X = X.toarray()
    elif hasattr(X, "dtypes") and hasattr(X, "to_numpy"):
        return _table(X)
    if np.ma.is_masked(X):
        raise ValueError("X has masked values; drop or impute those rows first.")
    try:
        array = np.asarray(X)
    except (ValueError, TypeError) as error:
        raise ValueError("X must be rows of equally many numbers, got rows of different lengths.") from error
    if array.dtype.kind == "O":
        return _objects(array)
    return real_numbers(array, "X")


def _table(X: Any) -> np.ndarray:
    """A DataFrame; a column that holds no numbers is named."""
    dtypes = X.dtypes.items() if hasattr(X.dtypes, "items") else [("X", X.dtypes)]
    for name, dtype in dtypes:
        if getattr(dtype, "kind", "O") not in "biuf":
            raise ValueError(f"The column {name!r} holds no real numbers ({dtype}); encode or drop it first.")
    return X.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)


def _objects(array: np.ndarray) -> np.ndarray:
    """An array of Python objects that are all numbers."""
    if strange := [v for v in array.ravel().tolist() if not isinstance(v, Real)][:1]:
        raise ValueError(f"X must hold real numbers, got {strange[0]!r:.40}; convert or drop it first.")
    try:
        return array.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(
            "X must hold real numbers, got missing values or Python objects; convert them first."
        ) from error


def check_points(x: Tensor, y: Tensor | None = None, *, at_least: int = 0) -> None:
    """Refuse points that are not finite rows of real numbers, fewer than so many, and labels that are not one -1 or +1 per row."""
    if x.ndim != 2:
        raise ValueError(f"Points must be rows of shape (n, d), got shape {tuple(x.shape)}.")
    if len(x) < at_least:
        raise ValueError(f"Need at least {at_least} point, got {len(x)}: there is nothing to measure.")
    if x.is_complex():
        raise ValueError(f"Points must be real numbers, got {x.dtype}; take their real part first.")
    largest = max(map(abs, _range(x.detach())))
    if not largest < math.inf:
        raise ValueError("Points contain NaN or infinite values; drop or impute those rows first.")
    if largest > LARGEST:
        raise ValueError(
            f"Points have coordinates up to {largest:.3g}, which overflow when squared; scale them to below {LARGEST:g}."
        )
    if y is None:
        return
    if y.shape != x.shape[:1]:
        raise ValueError(f"Need one label per point: {x.shape[0]} points, labels {tuple(y.shape)}.")
    if y.is_complex():
        raise ValueError(f"Labels must be -1 or +1, got {y.dtype}; take their real part first.")
    if not bool(((y == 1) | (y == -1)).all()):
        found = sorted({float(v) for v in y.flatten().tolist()})[:5]
        raise ValueError(f"Labels must be -1 or +1, got {found}. Use data.to_signs(y) for 0/1 labels.")


def _range(x: Tensor) -> tuple[float, float]:
    """The least and the largest entry, NaN if any is; (0, 0) where there is none."""
    low, high = torch.aminmax(x) if x.numel() else (x.new_zeros(()), x.new_zeros(()))
    return float(low), float(high)
