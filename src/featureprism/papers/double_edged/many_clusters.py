"""More clusters than the theorems allow: k ~ √d, and k > d where the data are not separable by any two directions (Section 5)."""

from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np

from featureprism.attacks import flipping_norm
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    Problem,
    TrainingSetting,
    critical_norm,
    direction,
    error_of,
    premises,
    problem,
    trained,
)
from featureprism.probes import kkt_audit
from featureprism.training import NotSeparableError, max_margin_network
from featureprism.verify import Budget, robust_radius
from featureprism.verify.called.bounds import nearest_neighbour_radius

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = 2
TRAINED_KINK = 1e-3
ROOT, CROWD = "k = √d", "k > d"


@dataclass(frozen=True, kw_only=True)
class CrowdedSetting(TrainingSetting):
    """How many test points get a bracket of their radius."""

    radius_points: int = 10


def crowd(dim: int, clusters: int, width: int, iterations: int, per_cluster: int = 8) -> CrowdedSetting:
    """k > d clusters on the sphere with noise of a tenth of a coordinate; as many points as lose next to no cluster.

    Trained to maximise the margin: where two directions do not separate the data, the flow needs too long to part all the points.
    """
    return CrowdedSetting(
        dim=dim,
        clusters=clusters,
        points=per_cluster * clusters,
        sigma=0.1,
        case=CROWD,
        means="sphere",
        width=width,
        method="maximiser",
        steps=400,
        iterations=iterations,
    )


def root(clusters: int) -> CrowdedSetting:
    """k = √d clusters on the sphere with σ = 1, of which the exact point is taken; Example 1 (a)."""
    return CrowdedSetting.of(clusters**2, clusters, sigma=1.0, case=ROOT, means="sphere", width=0)


def measure(s: CrowdedSetting, seed: int, context: Context) -> list[Row]:
    """Error, audit and radii of the exact or the trained network, beside the radius of the nearest neighbour."""
    data = problem(s, seed)
    try:
        net, is_separable = max_margin_network(data.train.x, data.train.y).net, True
    except NotSeparableError:
        net, is_separable = None, False
    if s.width:
        net = trained(s, data.train, seed)
    context.progress(0.5)
    certified, attacked = _neighbour(data, s.radius_points)
    rows: list[Row] = [
        {
            "kind": "neighbour",
            "certified": certified / sqrt(s.dim / 2),
            "attacked": attacked / sqrt(s.dim / 2),
        }
    ]
    if net is not None:
        network = _network(net, data, s.radius_points)
        over = network["radius"] / certified if certified else None
        network |= {"separable": is_separable, "over_neighbour": over}
        rows.append({"kind": "network", **network})
    return rows + premises(s, data)


def _neighbour(data: Problem, num_points: int) -> tuple[float, float]:
    """Median certified and attacked radius of the nearest neighbour classifier on the first test points."""
    train, labels = data.train.x.numpy(), data.train.y.numpy()
    points = zip(data.test.x[:num_points].numpy(), data.test.y[:num_points].tolist(), strict=True)
    low, high = [], []
    for x, y in points:
        certified, witness = nearest_neighbour_radius(train, labels, x, y)
        low.append(certified)
        high.append(inf if witness is None else float(np.linalg.norm(witness)))
    return float(np.median(low)), float(np.median(high))


def _network(net: TwoLayerNet, data: Problem, num_points: int) -> Row:
    audit = kkt_audit(net, data.train.x, data.train.y, tolerance=TRAINED_KINK)
    x, y = data.test.x[:num_points], data.test.y[:num_points]
    bracket = robust_radius(net, x, y, gap=0.05, budget=Budget(branches=CELLS))
    attacked = bracket.half_radius[1]
    along_u = flipping_norm(net, data.test.x, data.test.y, direction(data))
    return {
        "error": error_of(net, data.test),
        "stationarity": audit.stationarity,
        "radius": attacked,
        "certified": bracket.half_radius[0],
        "over_law": along_u / critical_norm(data),
        "along_u": along_u / attacked,
    }


def _crowd(rows: Rows, field: str) -> Values:
    return rows.of("network", case=CROWD).largest(field)


def _separable(rows: Rows) -> str:
    separable = rows.of("network", case=CROWD).column("separable")
    return f"{int(separable.sum())} of these {len(separable)} data sets can be separated by two directions"


CLAIMS = (
    Claim(
        "error",
        source="Section 5",
        says="Trained networks generalise even when there are so many clusters that the data are not linearly separable (conjectured).",
        quantity="test error of networks trained to maximise the margin on more clusters than dimensions, largest",
        bound=at_most(0.01),
        because="one point in a hundred is what we call generalising",
        value=lambda rows: _crowd(rows, "error"),
        note=_separable,
    ),
    Claim(
        "fragile",
        source="Section 5",
        says="Trained networks are fragile even when there are so many clusters that the data are not linearly separable"
        " (conjectured).",
        quantity="median attacked radius of the trained network ÷ proven median radius of the nearest neighbour, more clusters than"
        " dimensions, largest",
        bound=at_most(0.6),
        because="clearly less than the nearest neighbour, whose radius is near half of the distance between clusters",
        value=lambda rows: _crowd(rows, "over_neighbour"),
    ),
    Claim(
        "shorter",
        source="beyond Theorem 4.2",
        says="With more clusters than dimensions u = Σ y_q μ_q is not the direction that breaks a trained network most easily.",
        quantity="norm along u that flips half of the points ÷ median attacked radius, least",
        bound=at_least(1.5),
        because="with orthogonal means the ratio is 1: nothing shorter than u/k breaks the network",
        value=lambda rows: rows.of("network", case=CROWD).least("along_u"),
        origin="featureprism",
    ),
    Claim(
        "neighbour",
        source="Section 4",
        says="To flip the answer of the nearest neighbour classifier takes a perturbation of the order √d.",
        quantity="proven median radius of the nearest neighbour ÷ √(d/2), σ = 1/√d, least",
        bound=at_least(0.95),
        because="√(d/2) is half of the distance between two means",
        value=lambda rows: rows.of("neighbour", case="within").least("certified"),
        premises=requires("assumption-2-2", regime="inside"),
    ),
)


def draw(rows: Rows) -> "Figure":
    """Median radii of the network and of the nearest neighbour, in every setting."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=5.2, height=2.8)
    settings = list(rows.of("neighbour").groups("case", "dim", "clusters"))
    for height, (case, dim, k) in enumerate(settings):
        known = {"case": case, "dim": dim, "clusters": k}
        near = rows.of("neighbour", **known).column("certified") * np.sqrt(0.5)
        network = rows.of("network", **known).column("radius") / np.sqrt(dim)
        for values, marker, colour, name in (
            (near, "D", COLOURS[1], "nearest neighbour, proven"),
            (network, "o", COLOURS[0], "network, attacked"),
        ):
            label = None if height else name
            axes.plot(values, np.full(len(values), height), marker, color=colour, alpha=0.7, label=label)
        name = f"{CASE_NAMES.get(case, case)}, d = {dim}, k = {k}"
        axes.text(-0.01, height, name, ha="right", va="center", fontsize=8)
    axes.set(xlabel="median radius ÷ √d", xlim=(0, 0.8), yticks=[], ylim=(len(settings) - 0.4, -1.2))
    axes.legend(loc="upper right")
    return figure


MANY_CLUSTERS = Experiment(
    id="double-edged/many-clusters",
    source="Frei et al. 2023, Sections 4 and 5",
    title="More clusters than dimensions, and the nearest neighbour",
    scales={
        "quick": [crowd(16, 48, 60, 100), root(16), CrowdedSetting.within(width=0)],
        "standard": [
            crowd(20, 60, 100, 400),
            crowd(30, 120, 150, 400),
            root(24),
            CrowdedSetting.within(width=0),
        ],
        "paper": [
            crowd(40, 160, 200, 800),
            crowd(60, 240, 300, 800),
            root(32),
            CrowdedSetting.within(6000, 16, width=0),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Networks trained on more clusters than dimensions, where no network of two directions separates the data, audited and attacked"
        " beside the nearest neighbour; the exact point of √d clusters; the nearest neighbour's radius."
    ),
    draw=draw,
)
