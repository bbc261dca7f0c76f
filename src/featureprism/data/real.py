"""Real data: CIFAR-10 embeddings and MNIST where they are found, and the digits that come with scikit-learn."""

import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

VARIABLE = "FEATUREPRISM_DATA"
NEARBY = Path("../shared/data")  # looked at when the variable is not set
DIGITS_TEST = 597  # of the 1797 digits


class Split(NamedTuple):
    """Training and test points with the labels 0 to 9."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def data_folder() -> Path:
    """$FEATUREPRISM_DATA, or ../shared/data of the working directory."""
    return Path(os.environ.get(VARIABLE, NEARBY))


def load_split(path: Path) -> Split:
    """x_train, y_train, x_test, y_test from an .npz file."""
    try:
        with np.load(path) as file:
            missing = [name for name in Split._fields if name not in file.files]
            if missing:
                raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(file.files)}.")
            return Split(*(file[name] for name in Split._fields))
    except OSError as error:
        raise ValueError(f"Cannot read {path} as an .npz file: {error}.") from error


def _idx(path: Path) -> np.ndarray:
    """An array in the format of the MNIST files: two zero bytes, the type (8: bytes), the number of axes, their lengths."""
    raw = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(raw, ">i4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def _mnist(folder: Path) -> Split:
    parts = []
    for name in ("train", "t10k"):
        parts.append(_idx(folder / f"{name}-images-idx3-ubyte.gz").reshape(-1, 784))
        parts.append(_idx(folder / f"{name}-labels-idx1-ubyte.gz"))
    return Split(*parts)


def real_data(name: str) -> Split | None:
    """ "cifar10 embeddings", "mnist" or "digits"; None where the files are not found."""
    if name == "digits":
        x, y = (np.asarray(part) for part in load_digits(return_X_y=True))
        order = np.random.default_rng(0).permutation(len(x))
        x, y = x[order], y[order]
        return Split(x[DIGITS_TEST:], y[DIGITS_TEST:], x[:DIGITS_TEST], y[:DIGITS_TEST])
    if name == "cifar10 embeddings":
        path = data_folder() / "cifar10_embeddings.npz"
        return load_split(path) if path.exists() else None
    if name == "mnist":
        folder = data_folder() / "mnist"
        return _mnist(folder) if folder.exists() else None
    raise ValueError(f"Unknown data {name!r}; choose 'cifar10 embeddings', 'mnist' or 'digits'.")


def unit_norm(x: np.ndarray) -> np.ndarray:
    """Rows divided by their norms, in float64; a zero row stays zero."""
    x = x.astype(np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1)
