"""Heads on data of the size of the CIFAR-10 embeddings: seconds to fit 50 000 × 256, and to bracket 1000 points."""

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.timing import line
from featureprism.commands.common import DATA
from featureprism.data.real import real_data, unit_norm
from featureprism.heads import DecoupledHead, PReLUHead

POINTS = 100  # bracketed here; the line speaks of 1000


def points() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The CIFAR-10 embeddings where they are found, else clusters of the same size and spread."""
    folder = os.environ.get(DATA)
    split = real_data("cifar10 embeddings", Path(folder) if folder else None)
    if split is not None:
        x, x_test = unit_norm(split.x_train), unit_norm(split.x_test)
        return x, np.where(split.y_train < 5, 1, -1), x_test, np.where(split.y_test < 5, 1, -1)
    rng = np.random.default_rng(0)
    cluster = rng.integers(10, size=60_000)
    x = unit_norm(0.4 * rng.normal(size=(10, 256))[cluster] / 4 + rng.normal(size=(60_000, 256)) / 16)
    y = np.where(cluster < 5, 1, -1)
    return x[:50_000], y[:50_000], x[50_000:], y[50_000:]


def ratios() -> Iterator[str]:
    """Both heads at their defaults."""
    x, y, x_test, y_test = points()
    for head in (PReLUHead(random_state=0), DecoupledHead(random_state=0)):
        name = type(head).__name__
        began = time.perf_counter()
        head.fit(x, y)
        fitted = time.perf_counter()
        bracket = head.robust_radius(x_test[:POINTS], y_test[:POINTS])
        seconds = (time.perf_counter() - fitted) * 1000 / POINTS
        yield line(f"{name}: seconds to fit {len(x)} × {x.shape[1]}", fitted - began, 30.0)
        yield line(f"{name}: seconds to bracket 1000 points", seconds, 120.0)
        yield f"     {name}: accuracy {head.score(x_test, y_test):.4f}, median gap {np.median(bracket.gap):.1%}"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield line("largest memory in GB", memory, 2.0)
