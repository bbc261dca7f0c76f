"""What an audit looks at: the geometry of the classes, the features of a head, and the perturbation that fools all points."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.attacks import universal_direction
from featureprism.certificates import margin_radius
from featureprism.heads.compare import Task
from featureprism.heads.estimators import Head
from featureprism.heads.subclasses import Subclasses, discovered_subclasses, given_subclasses
from featureprism.networks import TwoLayerNet
from featureprism.probes import alive, cosines
from featureprism.records import Dataset, Premise, RadiusBracket, Row
from featureprism.theory import feature_averaging, gmm_flow

CLUSTERS_EACH = 5  # clusters looked for in every class when no finer labels are given
NEARLY_ORTHOGONAL = 0.3  # a cosine below this counts as nearly orthogonal; the papers ask for 0
# the conditions of feature-averaging that speak of data, not of the network or its training
ABOUT_DATA = (
    "assumption-3-2",
    "assumption-3-3",
    "assumption-4-3.dim",
    "assumption-4-3.least-points",
    "assumption-4-3.most-points",
)
HALVINGS = 10  # of the norm at which the universal direction flips half of the points


class GivenHead:
    """Someone's two-layer network of two classes, asked like the heads."""

    def __init__(self, net: TwoLayerNet) -> None:
        self.net = net

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Labels ±1."""
        with torch.no_grad():
            return np.where(self.net(torch.as_tensor(X).to(self.net.W.dtype)).numpy() > 0, 1, -1)

    def robust_radius(self, X: np.ndarray, y: np.ndarray, max_cells: int = 1) -> RadiusBracket:
        """The bracket of every point."""
        x, signs = torch.as_tensor(X).double(), torch.as_tensor(y).double()
        return margin_radius(self.net, x, signs, seconds_per_point=math.inf, max_cells=max_cells)


def clusters(task: Task) -> Subclasses:
    """The features a theory would speak of: finer labels, or five clusters of each class."""
    x = torch.as_tensor(task.x).float()
    numbers = torch.as_tensor(np.unique(task.y, return_inverse=True)[1])
    num_classes = int(numbers.max()) + 1
    if task.fine is not None:
        return given_subclasses(x, numbers, num_classes, task.fine)
    smallest = int(torch.bincount(numbers).min())
    return discovered_subclasses(x, numbers, num_classes, min(CLUSTERS_EACH, smallest), 0)


def centred_means(task: Task, found: Subclasses) -> Tensor:
    """Means of the clusters as seen from the mean of all points."""
    x = torch.as_tensor(task.x)
    return found.centre.double() - x.mean(dim=0)


def geometry(task: Task, found: Subclasses) -> list[Row]:
    """Norms and cosines of the cluster means, the spread around them, and the premises of the papers with their slack."""
    mu, x = centred_means(task, found), torch.as_tensor(task.x)
    noise = x - found.centre.double()[found.label]
    cos = cosines(mu, mu)[~torch.eye(len(mu), dtype=torch.bool)]
    norms, spread = torch.linalg.vector_norm(mu, dim=1), float((noise**2).sum(dim=1).mean().sqrt())
    constant = int((np.ptp(task.x, axis=0) == 0).sum())
    row = {
        "kind": "geometry",
        "dim": x.shape[1],
        "points": len(x),
        "classes": len(np.unique(task.y)),
        "clusters": len(mu),
        "mean_norm": float(norms.mean()),
        "least_norm": float(norms.min()),
        "largest_norm": float(norms.max()),
        "median_abs_cosine": float(cos.abs().median()),
        "largest_abs_cosine": float(cos.abs().max()),
        "nearly_orthogonal_share": float((cos.abs() <= NEARLY_ORTHOGONAL).double().mean()),
        "spread": spread,
        "spread_over_norm": spread / float(norms.mean()),
        "constant_features": constant,
    }
    return [row, *(premise.as_row() for premise in premises(x, mu, found))]


def premises(x: Tensor, mu: Tensor, found: Subclasses) -> list[Premise]:
    """The papers' conditions on data, after centring and scaling the means to norm √d (feature-averaging) or 1 (gmm-flow)."""
    d, k, n = x.shape[1], len(mu), len(x)
    scale = float(torch.linalg.vector_norm(mu, dim=1).mean())
    first = int((found.parent == 0).sum())
    setting = feature_averaging.Setting(
        dim=d, positive=k - first, negative=first, points=n, per_class=1, step_size=1.0, start=1.0
    )
    named = feature_averaging.premises(setting, mu / scale * math.sqrt(d))
    about_data = [
        replace(p, source=f"feature-averaging, {p.source}") for p in named if p.id.startswith(ABOUT_DATA)
    ]
    noise = (x - found.centre.double()[found.label]) / scale
    alpha = float((noise**2).sum(dim=1).mean().sqrt())
    signs = torch.where(found.parent[found.label] == 0, -1.0, 1.0).double()
    data = Dataset(mu[found.label] / scale + noise, signs, found.label, mu / scale)
    # the means are those of the very points, so that the sums of the noise (event 3) are 0 whatever the data
    events = [
        replace(p, source=f"gmm-flow, {p.source}")
        for p in gmm_flow.good_event(data, alpha)
        if not p.id.startswith("lemma-4.3")
    ]
    small_noise = Premise(
        "gmm-flow.alpha",
        "noise α relative to the means",
        alpha,
        "<=",
        1.0,
        "gmm-flow, α < 1 in every theorem",
    )
    return [*about_data, *events, small_noise]


def neurons_of(head: Any) -> tuple[Tensor, Tensor, Tensor] | None:
    """W, |a| and the class index of each neuron; None where a head has no neurons."""
    if isinstance(head, Head):
        return head.net_.W.detach(), head.net_.a.detach(), head.net_.owner
    if isinstance(head, GivenHead):
        a = head.net.a.detach().double()
        return head.net.W.detach().double(), a.abs(), (a > 0).long()
    return None


def averaging_index(head: Any, mu: Tensor, parent: Tensor) -> float:
    """How evenly neurons look at the clusters of their class: 1 for a neuron that averages all, 1/k for one that sees one of k.

    Per neuron Σ_k c_k / (k max_k c_k), c_k = [cos(w_j, μ_k)]₊ over its own clusters; the mean over alive neurons with weight a_j‖w_j‖.
    """
    neurons = neurons_of(head)
    if neurons is None:
        return math.nan
    W, a, owner = neurons
    own = (parent.unsqueeze(0) == owner.unsqueeze(1)).double()
    c = cosines(W, mu).clamp_min(0) * own
    largest, count = c.amax(dim=1), own.sum(dim=1)
    seen = alive(W, a) & (largest > 0)
    weight = (a * torch.linalg.vector_norm(W, dim=1))[seen]
    index = (c.sum(dim=1) / (count * largest.clamp_min(1e-12)))[seen]
    return float((weight * index).sum() / weight.sum()) if len(index) else math.nan


def universal_norm(head: Any, x: np.ndarray, y: np.ndarray, median: float) -> float:
    """The eps at which x - y·eps·u, one u for all points, fools half of them; NaN beyond four median radii or for more classes."""
    if isinstance(head, Head) and head.net_.num_classes != 2:
        return math.nan
    net = head.net_.margin(1, 0) if isinstance(head, Head) else head.net
    points, signs = torch.as_tensor(x).double(), torch.as_tensor(y).double()

    def fools_half(eps: float) -> bool:
        u = universal_direction(net, points, signs, eps)
        with torch.no_grad():
            margin = signs * net.double()(points - eps * signs.unsqueeze(1) * u)
        return float((margin <= 0).double().mean()) >= 0.5

    low, high = 0.0, 4 * median
    if not median > 0 or not fools_half(high):
        return 0.0 if median == 0 else math.nan
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fools_half(middle) else (middle, high)
    return high


def density(witness: Tensor | None) -> float:
    """Median participation ratio of the perturbations, ‖δ‖₂⁴/(d ‖δ‖₄⁴): 1 when all coordinates share alike, 1/d for a single one."""
    if witness is None:
        return math.nan
    moved = witness[witness.abs().amax(dim=1) > 0]
    ratio = (moved**2).sum(dim=1) ** 2 / ((moved**4).sum(dim=1) * witness.shape[1])
    return float(ratio.median()) if len(moved) else math.nan


def features(
    head: Any, task: Task, found: Subclasses, bracket: RadiusBracket, drawn: tuple[np.ndarray, np.ndarray]
) -> Row:
    """What a head looks at, and the one perturbation that fools it on all points."""
    mu, median = centred_means(task, found), float(bracket.attacked.median())
    norm = universal_norm(head, *drawn, median)
    predicted = float(torch.linalg.vector_norm(mu, dim=1).mean()) / math.sqrt(len(mu))
    return {
        "kind": "features",
        "averaging_index": averaging_index(head, mu, found.parent),
        "universal_norm": norm,
        "universal_predicted": predicted,  # ‖μ‖ √(1/k) of a feature-averaging head
        "universal_over_predicted": norm / predicted,
        "perturbation_density": density(bracket.witness),
    }
