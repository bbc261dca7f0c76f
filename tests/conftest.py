"""Shapes written in annotations are checked while the tests run."""

import os
import sys
from pathlib import Path

import shape_checks

hook = shape_checks.install()

import matplotlib  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

from featureprism.data import orthonormal_clusters, sample, sample_balanced  # noqa: E402
from featureprism.seeds import generator_for  # noqa: E402

matplotlib.use("Agg")


@pytest.fixture
def data_folder() -> Path:
    """The folder of real data that FEATUREPRISM_DATA names."""
    if not os.environ.get("FEATUREPRISM_DATA"):
        pytest.skip("FEATUREPRISM_DATA names no folder with real data")
    return Path(os.environ["FEATUREPRISM_DATA"])


@pytest.fixture(autouse=True)
def shapes_are_checked_anew():
    shape_checks.begin_test()


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def generator() -> torch.Generator:
    return generator_for("test", 0)


@pytest.fixture
def clusters():
    """A small orthonormal mixture: D = 60, K = 3+2, α = 0.1."""
    return orthonormal_clusters(60, 3, 2, 0.1, generator=generator_for("centres", 0))


@pytest.fixture
def train_set(clusters):
    return sample_balanced(clusters, 20, generator=generator_for("train", 0))


@pytest.fixture
def test_set(clusters):
    return sample(clusters, 40, generator=generator_for("points", 0))
