"""What an audit looks at: the geometry of the classes, the features of a head, and the perturbation that fools all points."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.audit.given import GivenHead
from featureprism.audit.universal import Universal, universal
from featureprism.brackets import RadiusBracket, lower_median
from featureprism.data.dataset import Dataset
from featureprism.heads.estimators import Head
from featureprism.heads.subclasses import Subclasses, discovered_subclasses, given_subclasses
from featureprism.lab.heads.compare import Task
from featureprism.lab.premise import Premise
from featureprism.lab.rows import Row
from featureprism.models import Model, read_model
from featureprism.models.model import NotANetwork
from featureprism.papers.feature_averaging import theory as feature_averaging
from featureprism.papers.gmm_flow import theory as gmm_flow
from featureprism.probes import cosines
from featureprism.probes.alignment import alive

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
REACH, STEPS = (
    4,
    80,
)  # median radii that a universal direction is looked for within; steps of the grid along it


def clusters(task: Task) -> Subclasses:
    """The features a theory would speak of: finer labels, or five clusters of each class."""
    x = torch.as_tensor(task.x).float()
    numbers = torch.as_tensor(np.unique(task.y, return_inverse=True)[1])
    num_classes = int(numbers.max()) + 1
    if task.fine is not None:
        return given_subclasses(x, numbers, num_classes, task.fine)
    smallest = int(torch.bincount(numbers).min())
    return discovered_subclasses(x, numbers, num_classes, min(CLUSTERS_EACH, smallest), 0)


def centred_means(task: Task, subclasses: Subclasses) -> Tensor:
    """Means of the clusters as seen from the mean of all points."""
    x = torch.as_tensor(task.x)
    return subclasses.centre.double() - x.mean(dim=0)


def geometry(task: Task, subclasses: Subclasses) -> list[Row]:
    """Norms and cosines of the cluster means, the spread around them, and the premises of the papers with their slack."""
    mu, x = centred_means(task, subclasses), torch.as_tensor(task.x)
    noise = x - subclasses.centre.double()[subclasses.label]
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
    return [row, *(premise.as_row() for premise in premises(x, mu, subclasses))]


def premises(x: Tensor, mu: Tensor, subclasses: Subclasses) -> list[Premise]:
    """The papers' conditions on data, after centring and scaling the means to norm √d (feature-averaging) or 1 (gmm-flow)."""
    d, k, n = x.shape[1], len(mu), len(x)
    scale = float(torch.linalg.vector_norm(mu, dim=1).mean())
    first = int((subclasses.parent == 0).sum())
    setting = feature_averaging.Sizes(
        dim=d, positive=k - first, negative=first, points=n, per_class=1, step_size=1.0, start=1.0
    )
    named = feature_averaging.premises(setting, mu / scale * math.sqrt(d))
    about_data = [
        replace(p, source=f"feature-averaging, {p.source}") for p in named if p.id.startswith(ABOUT_DATA)
    ]
    noise = (x - subclasses.centre.double()[subclasses.label]) / scale
    alpha = float((noise**2).sum(dim=1).mean().sqrt())
    signs = torch.where(subclasses.parent[subclasses.label] == 0, -1.0, 1.0).double()
    data = Dataset(mu[subclasses.label] / scale + noise, signs, subclasses.label, mu / scale)
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
    return head.neurons() if isinstance(head, GivenHead) else None


def averaging_index(head: Any, mu: Tensor, parent: Tensor) -> float:
    """How evenly neurons look at the clusters of their class: 1 for a neuron that averages all, 1/k for one that sees one of k.

    Per neuron Σ_k c_k / (k max_k c_k), c_k = [cos(w_j, μ_k)]₊ over its own clusters; the mean over alive neurons with weight a_j‖w_j‖.
    """
    neurons = neurons_of(head)
    if neurons is None:
        return math.nan
    W, a, owner = neurons
    same_class = (parent.unsqueeze(0) == owner.unsqueeze(1)).double()
    c = cosines(W, mu).clamp_min(0) * same_class
    largest, count = c.amax(dim=1), same_class.sum(dim=1)
    seen = alive(W, a) & (largest > 0)
    weight = (a * torch.linalg.vector_norm(W, dim=1))[seen]
    index = (c.sum(dim=1) / (count * largest.clamp_min(1e-12)))[seen]
    return float((weight * index).sum() / weight.sum()) if len(index) else math.nan


def model_of(head: Any) -> Model | None:
    """The head as a model with scores; None where it has none."""
    if isinstance(head, GivenHead):
        return head.model
    try:
        return read_model(getattr(head, "machine", head))
    except NotANetwork:
        return None


def density(witness: np.ndarray | None) -> float:
    """Median participation ratio of the perturbations, ‖δ‖₂⁴/(d ‖δ‖₄⁴): 1 when all coordinates share alike, 1/d for a single one."""
    if witness is None:
        return math.nan
    moved = witness[np.abs(witness).max(axis=1) > 0]
    ratio = (moved**2).sum(axis=1) ** 2 / ((moved**4).sum(axis=1) * witness.shape[1])
    return lower_median(ratio) if len(moved) else math.nan


def features(
    head: Any,
    task: Task,
    subclasses: Subclasses,
    bracket: RadiusBracket,
    drawn: tuple[np.ndarray, np.ndarray],
) -> tuple[Row, Tensor | None]:
    """What a head looks at; and the direction of the one perturbation that fools it on half of the points, where there is one."""
    mu, model = centred_means(task, subclasses), model_of(head)
    vector = Universal()
    if model is not None:
        x, y = drawn
        label = head.positions(y) if isinstance(head, GivenHead) else model.indices(y)
        vector = universal(model, torch.as_tensor(x).double(), label, bracket.half_radius[1])
    norm = vector.norm
    # ‖μ‖ √(1/k) of a feature-averaging head; the paper speaks of two classes
    two = len(np.unique(task.y)) == 2
    predicted = float(torch.linalg.vector_norm(mu, dim=1).mean()) / math.sqrt(len(mu)) if two else math.nan
    row = {
        "kind": "features",
        "averaging_index": averaging_index(head, mu, subclasses.parent),
        "universal_norm": norm,
        "universal_norm_low": vector.interval[0],
        "universal_norm_high": vector.interval[1],
        "universal_predicted": predicted,
        "universal_over_predicted": norm / predicted,
        "perturbation_density": density(bracket.witness),
    }
    return row, vector.direction
