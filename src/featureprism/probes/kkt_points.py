"""The KKT points of a data set: those of many activation patterns, and those to which gradient flow goes from many starts.

Theorems about the implicit bias of gradient flow speak of every KKT point of the max-margin problem. There may be many, with different
margins and different robustness; no list is ever known to be complete, but one counterexample is enough.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism._inputs import check_points
from featureprism.networks import TwoLayerNet, biased_start
from featureprism.probes.kkt import KKTAudit, kkt_audit
from featureprism.training import NotSeparableError, flow_limit, margin_descent, pattern_point
from featureprism.training.kkt_patterns import PatternPoint

KINK = 1e-9  # |⟨w_j, x_i⟩ + b_j| up to this share of the norms counts as on the kink
SAME = 1e-6  # two points with margins and outputs this close are one


@dataclass(frozen=True)
class KKTPoint:
    """A network that satisfies the KKT conditions of the largest margin, with the measurement that shows it.

    Attributes
    ----------
    origin : str
        Which pattern or start led to it.
    net : TwoLayerNet
        The network.
    audit : KKTAudit
        Every condition, measured.
    num_changes : int
        How often a neuron changed sides at a point on the way.
    """

    origin: str
    net: TwoLayerNet
    audit: KKTAudit
    num_changes: int

    @property
    def margin(self) -> float:
        """Least y N(x)/‖θ‖² over the data."""
        return self.audit.normalised_margin

    @property
    def num_neurons(self) -> int:
        """Number of neurons, those with equal patterns counted as one."""
        return len(self.net.a)

    def as_row(self) -> dict[str, Any]:
        """The numbers as a flat row."""
        return {
            "origin": self.origin,
            "neurons": self.num_neurons,
            "margin": self.margin,
            "residual": self.audit.stationarity,
            "slackness": self.audit.slackness,
            "num_changes": self.num_changes,
        }


def kkt_points(
    x: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    generator: torch.Generator,
    cluster: Int[Tensor, " n"] | None = None,
    num_patterns: int = 8,
    num_starts: int = 4,
    width: int = 20,
    start_size: float = 0.1,
    steps: int = 500,
) -> list[KKTPoint]:
    """Different KKT points of the max-margin problem of two-layer ReLU networks with biases on one data set.

    Parameters
    ----------
    x, y : Tensor
        Points as rows, and their labels -1 or +1.
    generator : torch.Generator
        Source of random patterns and starts.
    cluster : Tensor, optional
        Cluster of each point. Patterns are then groupings of the clusters of a class: one neuron for all of them, for halves, for
        pairs, for each one, and random ones. Without it patterns are those of one neuron for each class and of random half-spaces.
    num_patterns : int
        Number of random patterns.
    num_starts : int
        Number of random starts of gradient flow.
    width, start_size : int, float
        Number of neurons, and size of the start (`biased_start`).
    steps : int
        Steps of 0.5 in ln(1/L) for which each start is followed; from there on the limit is taken in the activation pattern that it
        has reached (`flow_limit`).

    Returns
    -------
    list of KKTPoint
        The different ones, the largest margin first. Patterns and starts that do not separate the data are left out.

    Examples
    --------
    >>> import math
    >>> import featureprism as fp
    >>> from featureprism.data import GaussianClusters, class_labels, equicorrelated_centres, sample_balanced
    >>> from featureprism.probes import kkt_points
    >>> mu = equicorrelated_centres(4, 400, 20.0, -0.02, generator=fp.generator_for("centres", 0))
    >>> data = sample_balanced(GaussianClusters(mu, class_labels(2, 2), 0.05), 3, generator=fp.generator_for("data", 0))
    >>> points = kkt_points(data.x, data.y, cluster=data.cluster, num_starts=0, generator=fp.generator_for("patterns", 0))
    >>> [(point.origin, point.num_neurons) for point in points if point.num_neurons in (2, 4)]
    [('one neuron a class', 2), ('one neuron a cluster', 4)]
    """
    check_points(x, y)
    x, y = x.double(), y.double()
    patterns = _random_patterns(x, y, num_patterns, generator)
    if cluster is not None:
        patterns = _groupings(y, cluster, num_patterns, generator)
    points: list[KKTPoint] = []
    for origin, signs, pattern in patterns:
        try:
            _add(points, origin, pattern_point(x, y, signs, pattern), x, y)
        except NotSeparableError:
            continue
    for index in range(num_starts):
        start = biased_start(width, x.shape[1], start_size, generator=generator)
        net = margin_descent(start, x, y, step_size=0.5, steps=steps).last
        if _separates(net, x, y):
            _add(points, f"flow from start {index}", flow_limit(net, x, y), x, y)
    return sorted(points, key=lambda point: -point.margin)


def _add(points: list[KKTPoint], origin: str, solution: PatternPoint, x: Tensor, y: Tensor) -> None:
    """Add the point with its audit, unless it is there."""
    multipliers = (solution.multipliers, solution.kink_shares)
    audit = kkt_audit(solution.net, x, y, tolerance=KINK, multipliers=multipliers)
    point = KKTPoint(origin, solution.net, audit, solution.num_changes)
    if not any(_is_same(point, other, x) for other in points):
        points.append(point)


@torch.no_grad()
def _separates(net: TwoLayerNet, x: Tensor, y: Tensor) -> bool:
    """Whether all margins are positive: from a start whose neurons never see some of the points the flow may not get there."""
    return bool((y * net(x) > 0).all())


@torch.no_grad()
def _is_same(point: KKTPoint, other: KKTPoint, x: Tensor) -> bool:
    if abs(point.margin / other.margin - 1) > SAME or point.num_neurons != other.num_neurons:
        return False
    return float((point.net(x) - other.net(x)).abs().max()) < SAME


def _both_classes(y: Tensor) -> tuple[Tensor, Tensor]:
    """One neuron for each class, on at all of its points."""
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64)
    return signs, y.unsqueeze(1) == signs


def _random_patterns(
    x: Tensor, y: Tensor, num: int, generator: torch.Generator
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """One neuron for each class; then neurons of both signs on random sides of hyperplanes through the origin."""
    yield "one neuron a class", *_both_classes(y)
    for index in range(num):
        directions = torch.randn(x.shape[1], 6, generator=generator, dtype=torch.float64)
        on = torch.cat([x @ directions > 0, x @ directions <= 0], dim=1)
        signs = torch.cat([torch.ones(12), -torch.ones(12)]).double()
        yield f"random pattern {index}", signs, torch.cat([on, on], dim=1)


def _groupings(
    y: Tensor, cluster: Tensor, num: int, generator: torch.Generator
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Groups of clusters of one class that share a neuron: sizes of 1, 2, half and all, then random ones."""
    classes = [torch.unique(cluster[y == sign]) for sign in (1.0, -1.0)]
    most = max(len(members) for members in classes)
    names = {most: "one neuron a class", 1: "one neuron a cluster"}
    for size in sorted({most, (most + 1) // 2, 2, 1}, reverse=True):
        groups = [group for members in classes for group in members.split(size)]
        yield names.get(size, f"groups of {size}"), *_of_groups(y, cluster, groups)
    for index in range(num):
        groups = []
        for members in classes:
            number = int(torch.randint(1, len(members) + 1, (1,), generator=generator))
            member_of = torch.randint(number, (len(members),), generator=generator)
            groups += [members[member_of == g] for g in range(number) if bool((member_of == g).any())]
        yield f"random grouping {index}", *_of_groups(y, cluster, groups)


def _of_groups(y: Tensor, cluster: Tensor, groups: list[Tensor]) -> tuple[Tensor, Tensor]:
    pattern = torch.stack([torch.isin(cluster, group) for group in groups], dim=1)
    signs = torch.stack([y[column][0] for column in pattern.T])
    return signs, pattern
