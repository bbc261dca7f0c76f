"""Embeddings as people bring them, checked and split."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from featureprism._inputs import LARGEST
from featureprism.checker.arrays import read_arrays, real_numbers
from featureprism.lab.heads.compare import Task

HELD = 0.1  # share of the training points that heads are chosen on
TESTED = 0.2  # share of the points that are kept for testing when the file has no split of its own
UNIT = 1e-2  # how far a row's norm may be from 1: float16 embeddings round
SPLITS = (("x_train", "y_train", "x_test", "y_test"), ("x", "y"))


class Embeddings(NamedTuple):
    """A task, the names of its classes, whether rows were scaled, whether the file has a split, and where its test rows stand in it."""

    task: Task
    classes: np.ndarray
    scaled: bool
    has_split: bool
    test_rows: np.ndarray


def read_embeddings(path: Path, normalise: str | None) -> Embeddings:
    """x_train, y_train, x_test, y_test (or x, y, split here) and optional fine_train (or fine) from an .npz file.

    `normalise`: "unit" scales every row to norm 1, "none" takes rows as they are; rows of other norms need the choice.
    """
    arrays = read_arrays(path)
    x, y, fine, x_test, y_test, test_rows = _parts(arrays, path)
    for name, points, labels in (("training", x, y), ("test", x_test, y_test)):
        _check(points, labels, f"{path}: the {name}")
    if x.shape[1] != x_test.shape[1]:
        raise ValueError(
            f"{path}: the training points have dimension {x.shape[1]}, the test points {x_test.shape[1]}; they must agree."
        )
    scaled = _wants_scaling(x, path, normalise)
    if scaled:
        x, x_test = (part / np.linalg.norm(part, axis=1, keepdims=True).clip(1e-12) for part in (x, x_test))
    if not np.ptp(x, axis=0).any():
        raise ValueError(f"{path}: all features are constant; there is nothing to tell classes apart with.")
    classes = _classes(y, y_test, path)
    signs = [2 * np.searchsorted(classes, part) - 1 for part in (y, y_test)]
    numbers = signs if len(classes) == 2 else [np.searchsorted(classes, part) for part in (y, y_test)]
    order = np.random.default_rng(0).permutation(len(x))
    held, rest = order[: int(HELD * len(x))], order[int(HELD * len(x)) :]
    if not len(held) or len(np.unique(numbers[0][rest])) < len(classes):
        raise ValueError(f"{path}: a class has too few points to split; it needs 20 or so.")
    few = None if fine is None else fine[rest]
    task = Task(x[rest], numbers[0][rest], few, x[held], numbers[0][held], x_test, numbers[1])
    return Embeddings(task, classes, scaled, all(name in arrays for name in SPLITS[0]), test_rows)


def _check(points: np.ndarray, labels: np.ndarray, whose: str) -> None:
    """Refuse points that are not finite rows, or too large to square, and labels that are NaN."""
    if points.ndim != 2 or not points.size:
        raise ValueError(f"{whose} points must be rows (n, d), at least one, got shape {points.shape}.")
    if not np.isfinite(points).all():
        raise ValueError(f"{whose} points contain NaN or infinite values; drop those rows.")
    largest = np.abs(points).max()
    if largest > LARGEST:
        raise ValueError(
            f"{whose} points have coordinates up to {largest:.3g}, which overflow when squared; scale them to below {LARGEST:g}."
        )
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ValueError(f"{whose} labels contain NaN or infinite values; drop those rows.")


def _parts(
    arrays: dict[str, np.ndarray], path: Path
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray, np.ndarray, np.ndarray]:
    """x, y, fine (or None), x_test, y_test, and the positions of the test rows."""
    names = next((names for names in SPLITS if all(name in arrays for name in names)), None)
    if names is None:
        wanted = " or ".join(", ".join(names) for names in SPLITS)
        raise ValueError(f"{path} must hold {wanted}; it has {', '.join(arrays) or 'nothing'}.")
    finer = "fine_train" if len(names) == 4 else "fine"
    owners = [(names[0], names[1]), (names[-2], names[-1]), *([(names[0], finer)] if finer in arrays else [])]
    for points, labels in owners:
        if arrays[points].ndim != 2 or arrays[labels].shape != arrays[points].shape[:1]:
            raise ValueError(
                f"{path}: {points} of shape {arrays[points].shape} and {labels}, labels of shape {arrays[labels].shape}, "
                "do not fit; need rows (n, d) and one label (n,) for each."
            )
    if len(names) == 4:
        x, y, x_test, y_test = (arrays[name] for name in names)
        fine, test = arrays.get(finer), np.arange(len(arrays["x_test"]))
    else:
        order = np.random.default_rng(1).permutation(len(arrays["x"]))
        first = int(TESTED * len(order))
        test, train = order[:first], order[first:]
        x, y, x_test, y_test = (arrays[name][part] for part in (train, test) for name in names)
        fine = arrays[finer][train] if finer in arrays else None
    x, x_test = (real_numbers(part, f"{path}: {name}") for part, name in ((x, names[0]), (x_test, names[-2])))
    return x, y, fine, x_test, y_test, test


def _wants_scaling(x: np.ndarray, path: Path, normalise: str | None) -> bool:
    norms = np.linalg.norm(x, axis=1)
    if normalise is None and np.abs(norms - 1).max() > UNIT:
        raise ValueError(
            f"{path}: rows have norms from {norms.min():.3g} to {norms.max():.3g}. Radii depend on it: pass --normalise unit to scale "
            "every row to norm 1, or --normalise none to keep them (and give the head the same rows later)."
        )
    return normalise == "unit"


def _classes(y: np.ndarray, y_test: np.ndarray, path: Path) -> np.ndarray:
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(
            f"{path}: only the class {classes[0]!r} occurs in the training labels; two are needed."
        )
    unknown, absent = np.setdiff1d(y_test, classes), np.setdiff1d(classes, y_test)
    if len(unknown):
        raise ValueError(
            f"{path}: the test labels {unknown[:5].tolist()} do not occur in the training labels."
        )
    if len(absent):
        raise ValueError(
            f"{path}: no test point has the label {absent[:5].tolist()}; nothing can be said of it."
        )
    return classes
