"""More clusters than the theorems allow: k ~ √d, and k > d where the data are not separable by any two directions (Section 5)."""

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from featureprism.attacks import flipping_norm
from featureprism.context import Context
from featureprism.heads.nearest import nearest_neighbour_radius
from featureprism.lab import Claim, Experiment, Rows, Values, at_least, at_most, between, requires
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.robustness import ENOUGH
from featureprism.papers.double_edged.setting import (
    Problem,
    Trained,
    critical_norm,
    direction,
    error_of,
    ours,
    premises,
    problem,
    trained,
)
from featureprism.probes import kkt_audit
from featureprism.records import Row
from featureprism.training import NotSeparableError, max_margin_network
from featureprism.verify import margin_radius

CELLS = 2
TRAINED_KINK = 1e-3
ROOT, CROWD = "k = √d", "k > d"


@dataclass(frozen=True, kw_only=True)
class Crowded(Trained):
    """How many test points get a bracket of their radius."""

    radius_points: int = 10


def crowd(dim: int, clusters: int, width: int, iterations: int, per_cluster: int = 8) -> Crowded:
    """k > d clusters on the sphere with noise of a tenth of a coordinate; as many points as lose next to no cluster."""
    return Crowded(
        dim=dim,
        clusters=clusters,
        points=per_cluster * clusters,
        sigma=0.1,
        case=CROWD,
        means="sphere",
        width=width,
        steps=400,
        iterations=iterations,
    )


def root(clusters: int) -> Crowded:
    """k = √d clusters on the sphere with σ = 1, of which the exact point is taken; Example 1 (a)."""
    return Crowded.of(clusters**2, clusters, sigma=1.0, case=ROOT, means="sphere", width=0)


def measure(s: Crowded, seed: int, context: Context) -> list[Row]:
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
        found = _network(net, data, s.radius_points)
        over = found["radius"] / certified if certified else None
        found |= {"separable": is_separable, "over_neighbour": over}
        rows.append({"kind": "network", **found})
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
    bracket = margin_radius(net, x, y, gap=0.05, seconds_per_point=inf, max_cells=CELLS)
    attacked = float(bracket.attacked.median())
    along_u = flipping_norm(net, data.test.x, data.test.y, direction(data))
    return {
        "error": error_of(net, data.test),
        "stationarity": audit.stationarity,
        "radius": attacked,
        "certified": float(bracket.certified.median()),
        "over_law": along_u / critical_norm(data),
        "along_u": along_u / attacked,
    }


def _crowd(rows: Rows, field: str) -> Values:
    return rows.of("network", case=CROWD).largest(field)


def _separable(rows: Rows) -> str:
    own = rows.of("network", case=CROWD).column("separable")
    return f"{int(own.sum())} of these {len(own)} data sets can be separated by two directions; the theorems do not speak of them"


CLAIMS = (
    Claim(
        "error",
        "Section 5",
        "the results are conjectured to hold for so many clusters that the data are not linearly separable: test error, k > d, largest",
        lambda rows: _crowd(rows, "error"),
        at_most(0.01),
        note=_separable,
    ),
    Claim(
        "fragile",
        "Section 5",
        "the same of robustness: median attacked radius of the trained network ÷ proven median radius of the nearest neighbour, k > d",
        lambda rows: _crowd(rows, "over_neighbour"),
        at_most(0.6),
    ),
    Claim(
        "universal",
        "Section 5",
        f"the same of the direction u: norm along it that flips half of the points ÷ (‖u‖/k), k > d, largest, against {ENOUGH} as in"
        " theorem-4-2",
        lambda rows: _crowd(rows, "over_law"),
        at_most(ENOUGH),
    ),
    ours(
        "shorter",
        "beyond Theorem 4.2",
        "u is not the direction any more: norm along u that flips half ÷ median attacked radius, k > d, least",
        lambda rows: rows.of("network", case=CROWD).least("along_u"),
        at_least(1.5),
        note="with orthogonal means this is 1: nothing shorter than u/k breaks the network",
    ),
    ours(
        "residual",
        "beyond Theorem 2.1",
        f"how close training comes to a KKT point where no exact one is known: stationarity (kinks within {TRAINED_KINK:g}), k > d",
        lambda rows: _crowd(rows, "stationarity"),
        at_most(0.05),
        note="every neuron on a kink of a point has a derivative of its own; with one for all of them it is 0.1 to 0.13",
    ),
    ours(
        "root",
        "Theorem 4.2, sharp",
        "k = √d clusters on the sphere, σ = 1: norm along u that flips half ÷ (‖u‖/k) at the exact point, farthest from 1",
        lambda rows: rows.of("network", case=ROOT).farthest("over_law", 1.0),
        between(0.9, 1.1),
    ),
    Claim(
        "neighbour",
        "Section 4",
        "flipping the nearest neighbour takes Ω(√d): its proven median radius ÷ √(d/2), σ = 1/√d",
        lambda rows: rows.of("neighbour", case="within").least("certified"),
        at_least(0.95),
        premises=requires("assumption-2-2", case="within"),
    ),
)

MANY_CLUSTERS = Experiment(
    id="double-edged/many-clusters",
    source="Frei et al. 2023, Sections 4 and 5",
    title="More clusters than dimensions, and the nearest neighbour",
    scales={
        "quick": [crowd(16, 48, 60, 100), root(16), Crowded.within(width=0)],
        "standard": [crowd(20, 60, 100, 400), crowd(30, 120, 150, 400), root(24), Crowded.within(width=0)],
        "paper": [
            crowd(40, 160, 200, 800),
            crowd(60, 240, 300, 800),
            root(32),
            Crowded.within(6000, 16, width=0),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Networks trained on more clusters than dimensions, where no network of two directions separates the data, audited and attacked"
        " beside the nearest neighbour; the exact point of √d clusters; the nearest neighbour's radius."
    ),
)
