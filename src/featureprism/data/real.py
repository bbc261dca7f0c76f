"""Real data as rows of features: CIFAR-10 embeddings, pixels of MNIST, the digits that come with scikit-learn."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from featureprism.data.images import DIGITS, EMBEDDINGS, find_source, load_images, read_npz


class Split(NamedTuple):
    """Training and test points with the labels 0 to 9."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def real_data(name: str, folder: Path | None = None) -> Split | None:
    """ "cifar10 embeddings", "mnist", "cifar10" or "digits" with one row for each point; None where the files are not found.

    They are looked for in `folder` and in the cache of `fetch_images`.
    """
    _, files = find_source(name, folder)
    if not files and name != DIGITS:
        return None
    if name == EMBEDDINGS:
        return Split(*read_npz(files[0], axes=2))
    images = load_images(name, folder)
    train, test = (x.flatten(1).numpy() for x in (images.x_train, images.x_test))
    return Split(train, images.y_train.numpy(), test, images.y_test.numpy())


def unit_norm(x: np.ndarray) -> np.ndarray:
    """Rows divided by their norms, in float64; a zero row stays zero."""
    x = x.astype(np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norms > 0, norms, 1)
