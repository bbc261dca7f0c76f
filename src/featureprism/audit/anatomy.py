"""Someone's network opened: its neurons, its votes, and the sub-classes of its data, in one set of letters."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from featureprism._inputs import as_points
from featureprism.geometry import row_norms
from featureprism.models import Model, read_model
from featureprism.models.activations import relu_power
from featureprism.models.model import plain
from featureprism.models.scores import ScoreNet
from featureprism.networks import PolynomialReLU, SymmetricNet, Tanh, TwoLayerNet
from featureprism.probes import cosines

LEAST_SILHOUETTE = (
    0.08  # of clusters within a class that count as clusters; pieces of one Gaussian cloud stay below 0.05
)
MOST_EACH = 16  # clusters of a class that are looked for
LEAST_POINTS = 8  # for each of them, on average
LEAST_SHARE = 1 / 3  # of that average, which the smallest has: a few points apart are no sub-class
LOOKED_AT = 400  # points of a class that the number of its clusters is decided on
KEPT = 30  # principal directions in which clusters are looked for
NEARLY_ORTHOGONAL = 0.3  # median |cosine| of means up to which the origin of the points is left where it is


@dataclass(frozen=True, eq=False)
class Neurons:
    """One hidden layer: scores Σ_j V_j [⟨w_j, x⟩ + b_j]₊^p + c, two classes as (0, f)."""

    W: Float[Tensor, "h d"]
    b: Float[Tensor, " h"]
    V: Float[Tensor, "h k"]
    p: float
    trained_norms: Float[Tensor, " h"]  # ‖w_j‖ as it was trained: pReLU neurons are stored with unit norm
    is_paired: bool = False  # every neuron with its mirror image

    @property
    def votes(self) -> Float[Tensor, "h k"]:
        """Votes less their mean over the classes: only differences decide."""
        return self.V - self.V.mean(dim=1, keepdim=True)

    @property
    def owner(self) -> Int[Tensor, " h"]:
        """The class that each neuron speaks for most."""
        return self.votes.argmax(dim=1)

    @property
    def strength(self) -> Float[Tensor, " h"]:
        """How much a neuron can say: its largest vote times the norm of its weights, to the power p."""
        return self.votes.amax(dim=1) * row_norms(self.W) ** self.p

    def excited(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n h"]:
        """[⟨w_j, x⟩ + b_j]₊^p."""
        return relu_power(x @ self.W.T + self.b, self.p)


@dataclass(frozen=True, eq=False)
class Subject:
    """A model on its data: points, positions of labels, finer labels and their means; neurons where there is one hidden layer."""

    model: Model
    x: Float[Tensor, "n d"]
    y: Int[Tensor, " n"]
    fine: Int[Tensor, " n"]
    parent: Int[Tensor, " s"]  # the class of each sub-class
    mu: Float[Tensor, "s d"]  # their means, from the origin that fits
    is_given: bool  # finer labels came with the data
    neurons: Neurons | None
    names: tuple[str, ...]  # of the classes
    fine_names: tuple[str, ...]  # of the sub-classes: as given, or the class with a number

    @property
    def num_classes(self) -> int:
        """k."""
        return self.model.num_classes

    @property
    def signs(self) -> Float[Tensor, " n"]:
        """Labels ±1 of two classes."""
        return 2.0 * self.y.double() - 1


def subject(model: Any, X: Any, y: Any, fine: Any = None) -> Subject:
    """The model as `read_model` reads it, with its data; finer labels are discovered where none are given."""
    x = as_points(X).double()
    read = (
        Model(plain(model), has_one_output=True)
        if isinstance(model, SymmetricNet)
        else read_model(model, probe=X)
    )
    neurons = neurons_of(read.net)
    if neurons is not None and x.shape[1] != neurons.W.shape[1]:
        raise ValueError(f"The points have {x.shape[1]} coordinates, the model takes {neurons.W.shape[1]}.")
    labels = read.indices(y, len(x))
    if len(torch.unique(labels)) < 2:
        raise ValueError(
            "All points have one label; points of two classes or more are needed to explain a classifier."
        )
    label, parent = _given(fine, labels) if fine is not None else discovered(x, labels)
    means = torch.stack([x[label == s].mean(dim=0) for s in range(len(parent))])
    known = range(read.num_classes) if read.classes is None else read.classes.tolist()
    names = tuple(map(str, known))
    subnames = _numbered(parent, names) if fine is None else tuple(map(str, np.unique(np.asarray(fine))))
    mu = _from_origin(means, x)
    return Subject(read, x, labels, label, parent, mu, fine is not None, neurons, names, subnames)


def _numbered(parent: Int[Tensor, " s"], names: tuple[str, ...]) -> tuple[str, ...]:
    """The class of every sub-class, with a letter where a class has several."""
    classes = parent.tolist()
    numbers = [classes[:i].count(c) for i, c in enumerate(classes)]
    return tuple(
        names[c] if classes.count(c) == 1 else f"{names[c]}{chr(ord('a') + number)}"
        for c, number in zip(classes, numbers, strict=True)
    )


def _from_origin(means: Tensor, x: Tensor) -> Tensor:
    """Means as they are where they are nearly orthogonal, else as seen from the mean of all points."""
    others = cosines(means, means)[~torch.eye(len(means), dtype=torch.bool)].abs()
    return means if float(others.median()) <= NEARLY_ORTHOGONAL else means - x.mean(dim=0)


def _given(fine: Any, labels: Tensor) -> tuple[Tensor, Tensor]:
    values = np.asarray(fine)
    if values.shape != (len(labels),):
        raise ValueError(f"Need one fine label per point: {len(labels)} points, fine labels {values.shape}.")
    names, label = np.unique(values, return_inverse=True)
    label = torch.as_tensor(label)
    parents = [torch.unique(labels[label == s]) for s in range(len(names))]
    if torn := [str(names[s]) for s, clusters in enumerate(parents) if len(clusters) > 1]:
        raise ValueError(f"Each fine label must belong to one class; {torn[0]!r} occurs in several.")
    return label, torch.cat(parents)


def discovered(x: Float[Tensor, "n d"], labels: Int[Tensor, " n"]) -> tuple[Tensor, Tensor]:
    """Clusters of each class by k-means, as many as the silhouette says; one where it says there are none."""
    label, parent = torch.zeros_like(labels), []
    for c in torch.unique(labels).tolist():
        rows = torch.nonzero(labels == c)[:, 0]
        clusters = _clustered(x[rows].numpy())
        label[rows] = torch.as_tensor(clusters).long() + len(parent)
        parent += [c] * (int(clusters.max()) + 1)
    return label, torch.tensor(parent)


def _clustered(points: Float[np.ndarray, "n d"]) -> Int[np.ndarray, " n"]:
    from sklearn.cluster import KMeans  # takes a second
    from sklearn.decomposition import PCA
    from sklearn.metrics import silhouette_score
    from threadpoolctl import threadpool_limits

    few = points[:: -(-len(points) // LOOKED_AT)]
    best, chosen = LEAST_SILHOUETTE, None
    if not np.ptp(few, axis=0).any():
        return np.zeros(len(points), dtype=np.int64)
    with threadpool_limits(1):
        axes = PCA(min(KEPT, *few.shape), random_state=0).fit(few)
        flat = axes.transform(few)
        for k in range(2, min(MOST_EACH, len(few) // LEAST_POINTS) + 1):
            means = KMeans(k, n_init=5, random_state=0).fit(flat)  # pyright: ignore[reportArgumentType]
            labels = np.asarray(means.labels_)
            smallest = np.bincount(labels, minlength=k).min()
            score = silhouette_score(few, labels) if smallest * k >= LEAST_SHARE * len(few) else -1.0
            if score > best:
                best, chosen = score, means
        if chosen is None:
            return np.zeros(len(points), dtype=np.int64)
        return np.asarray(chosen.predict(axes.transform(points)), dtype=np.int64)


def neurons_of(net: nn.Module) -> Neurons | None:
    """The neurons of one hidden layer of ReLU powers; None for other networks."""
    if isinstance(net, SymmetricNet):
        W = net.W.detach().double()
        one = torch.ones(len(W), dtype=torch.float64)
        both, votes = torch.cat([W, -W]), torch.cat([one, -one])
        bias = (-net.thresholds * one).repeat(2)
        return Neurons(both, bias, torch.stack([-votes, votes], dim=1) / 2, 1.0, row_norms(both), True)
    if isinstance(net, TwoLayerNet) and net.W.ndim == 2 and not isinstance(net.activation, Tanh):
        scores = ScoreNet.of(copy.deepcopy(net).double())
        norms = row_norms(net.W.detach().double()) if isinstance(net.activation, PolynomialReLU) else None
        return _of_scores(scores, norms)
    return _of_scores(net) if isinstance(net, ScoreNet) and not isinstance(net.activation, Tanh) else None


def _of_scores(net: ScoreNet, norms: Tensor | None = None) -> Neurons:
    W, b, V = (t.detach().double() for t in (net.W, net.b, net.V))
    return Neurons(W, b, V, float(net.activation.p), row_norms(W) if norms is None else norms)
