"""Points with labels as files: .npz with x and y, or .csv with one column of labels."""

import csv
from pathlib import Path

import numpy as np

from featureprism.checker.arrays import read_arrays, real_numbers

LABELS = (
    "y",
    "label",
    "class",
    "target",
)  # names of the column of labels; without one of them it is the last


def read_points(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """x (n, d) in float64 and y (n,) as the file has them, at least one point."""
    x, y = _from_csv(path) if path.suffix.lower() == ".csv" else _from_arrays(path)
    if x.ndim > 2:  # images, as rows
        x = x.reshape(len(x), -1)
    if x.ndim != 2:
        raise ValueError(f"{path}: points must be rows of shape (n, d), got {x.shape}.")
    if not x.size:
        raise ValueError(f"{path}: need at least 1 point, got {len(x)} of dimension {x.shape[1]}.")
    if y.shape != x.shape[:1]:
        raise ValueError(f"{path}: need one label per point: {len(x)} points, y of shape {y.shape}.")
    if not np.isfinite(x).all():
        raise ValueError(f"{path}: the points contain NaN or infinite values; drop those rows.")
    return x, y


def read_feature_names(path: Path) -> tuple[str, ...] | None:
    """The names of the columns of a .csv file, or the array `features` of an .npz file; None where features have no names."""
    if path.suffix.lower() != ".csv":
        names = read_arrays(path).get("features")
        return None if names is None or names.ndim != 1 else tuple(str(name) for name in names)
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = next((row for row in csv.reader(file) if row), [])
    if not any(not _is_number(cell) for cell in first[:-1]):
        return None
    names = [cell.strip() for cell in first]
    label = next((i for i, name in enumerate(names) if name.lower() in LABELS), len(names) - 1)
    return tuple(name for i, name in enumerate(names) if i != label)


def _from_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    arrays = read_arrays(path)
    names = {name.lower(): name for name in arrays}
    if missing := [name for name in ("x", "y") if name not in names]:
        raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(arrays) or 'nothing'}.")
    return real_numbers(arrays[names["x"]], f"{path}: x"), arrays[names["y"]]


def _from_csv(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A first line that holds a word that is no number names the columns; whole-number labels become integers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"Cannot read {path}: {getattr(error, 'strerror', None) or error}; a .csv file of numbers with labels is wanted."
        ) from error
    named = bool(rows) and any(not _is_number(cell) for cell in rows[0][:-1])
    names = [cell.strip().lower() for cell in rows[0]] if named else []
    rows = rows[1:] if named else rows
    if (
        not rows
        or len(rows[0]) < 2
        or len({len(row) for row in rows} | ({len(names)} if named else set())) > 1
    ):
        raise ValueError(f"{path} must have lines of equal length, at least one number and a label in each.")
    label = next((names.index(name) for name in LABELS if name in names), len(rows[0]) - 1)
    try:
        x = np.array([[float(cell) for i, cell in enumerate(row) if i != label] for row in rows])
    except ValueError as error:
        raise ValueError(f"{path}: {error}; all columns but the labels must be numbers.") from error
    return x, _labels([row[label].strip() for row in rows])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _labels(words: list[str]) -> np.ndarray:
    """Integers where all words are whole numbers, else the words."""
    if not all(_is_number(word) for word in words):
        return np.array(words)
    numbers = np.array([float(word) for word in words])
    return numbers.astype(np.int64) if (numbers == np.round(numbers)).all() else numbers
