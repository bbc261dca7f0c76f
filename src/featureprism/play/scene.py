"""What a person chose on the page: clusters, labels, neurons, start, and the plane through all of it that is drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data import GaussianClusters, sample, sample_balanced
from featureprism.data.clusters import orthogonal_centres
from featureprism.data.dataset import Dataset
from featureprism.geometry import unit_rows
from featureprism.models.activations import Activation
from featureprism.networks import PolynomialReLU, PowerReLU, ReLU, Tanh
from featureprism.seeds import generator_for

DIM = 40  # of the points
WIDTH = 60  # neurons, as many for each label as go into it
PER_CLUSTER, TEST_POINTS = 30, 48
MOST_CLUSTERS = 12
ACTIVATIONS = ("prelu", "polynomial", "tanh")
LABELS = ("two", "all")
RANGES = {"overlap": (0.0, 1.5), "p": (1.0, 5.0), "start": (-12.0, 0.5), "seed": (0, 999)}
MEAN = "mean"  # the second direction of the plane: the difference of the class means


@dataclass(frozen=True)
class Scene:
    """`classes`: + or - for every cluster; `overlap`: norm of the noise beside centres of norm 1; `labels`: what the network is told,
    the class alone or the cluster; `p`: the power of the activation; `start`: log10 of the first norms; `home` and `towards`: the
    plane, from the centre of one cluster towards that of another or along the difference of the class means.
    """

    classes: str = "+++---"
    overlap: float = 0.2
    labels: str = "two"
    activation: str = "prelu"
    p: float = 1.0
    start: float = -4.0
    seed: int = 0
    home: int = 0
    towards: str = MEAN

    def __post_init__(self) -> None:
        k = len(self.classes)
        if set(self.classes) != {"+", "-"} or not 2 <= k <= MOST_CLUSTERS:
            raise ValueError(
                f"Clusters are 2 to {MOST_CLUSTERS} signs + and -, both of them, got {self.classes!r}."
            )
        for name, choices in (("labels", LABELS), ("activation", ACTIVATIONS)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}.")
        for name, (low, high) in RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} must be between {low:g} and {high:g}, got {getattr(self, name):g}.")
        if not 0 <= self.home < k:
            raise ValueError(f"home must be one of the {k} clusters, counted from 0, got {self.home}.")
        if self.towards != MEAN and self.towards not in [str(j) for j in range(k) if j != self.home]:
            raise ValueError(f"towards must be {MEAN!r} or another cluster, got {self.towards!r}.")

    @classmethod
    def of(cls, words: Mapping[str, str]) -> "Scene":
        """The scene of a query: what it leaves out has its default, what is no part of a scene is left alone."""
        kinds = {"overlap": float, "p": float, "start": float, "seed": int, "home": int}
        chosen = {}
        for name in (field.name for field in fields(cls) if field.name in words):
            try:
                chosen[name] = kinds.get(name, str)(words[name])
            except ValueError as error:
                raise ValueError(f"{name} must be a number, got {words[name]!r}.") from error
        return cls(**chosen)

    def anywhere(self) -> "Scene":
        """The same networks, whatever plane they are seen in."""
        return replace(self, home=0, towards=MEAN)

    @property
    def neurons(self) -> Activation:
        """The activation; pReLU with p = 1 is ReLU. Networks that are told every cluster have ReLU neurons, as in feature-averaging."""
        if self.activation == "tanh":
            return Tanh()
        if self.p == 1 or self.labels == "all":
            return ReLU()
        return PolynomialReLU(self.p) if self.activation == "prelu" else PowerReLU(self.p)


class World(NamedTuple):
    """The clusters of a scene, points to train on and points to judge by."""

    clusters: GaussianClusters
    train: Dataset
    test: Dataset


@lru_cache(maxsize=16)
def world(scene: Scene) -> World:
    """Orthonormal centres, noise of norm about `overlap`, and samples."""
    labels = torch.tensor([1.0 if sign == "+" else -1.0 for sign in scene.classes], dtype=torch.float64)
    mu = orthogonal_centres(len(labels), DIM, 1.0, generator=generator_for("centres", scene.seed))
    clusters = GaussianClusters(mu, labels, scene.overlap / DIM**0.5)
    return World(
        clusters,
        sample_balanced(clusters, PER_CLUSTER, generator=generator_for("train", scene.seed)),
        sample(clusters, TEST_POINTS, generator=generator_for("test", scene.seed)),
    )


def plane(scene: Scene) -> Float[Tensor, "2 d"]:
    """Two orthonormal directions: the home centre, and what is orthogonal to it towards another centre or the other class."""
    mu, labels = world(scene.anywhere()).clusters.mu, world(scene.anywhere()).clusters.labels
    home = mu[scene.home]
    other = -labels[scene.home] * (labels @ mu) if scene.towards == MEAN else mu[int(scene.towards)]
    rest = other - (other @ home) * home
    if float(rest.norm()) < 1e-9:  # two clusters of which one is home: the mean is along their difference
        rest = mu[(scene.home + 1) % len(mu)]
    return unit_rows(torch.stack([home, rest]))
