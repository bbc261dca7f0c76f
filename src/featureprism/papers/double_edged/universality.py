"""One perturbation for all networks, and how its norm grows with k and d."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from featureprism.attacks import flip_rate, flipping_norm, universal_direction
from featureprism.context import Context, Progress, part
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between, requires
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.setting import (
    Setting,
    Trained,
    critical_norm,
    direction,
    inside_and_outside,
    ours,
    premises,
    problem,
    trained,
)
from featureprism.records import Dataset, Row
from featureprism.training import max_margin_network

SOURCE, NEIGHBOUR = "A itself", "nearest neighbour"


class NearestNeighbour(torch.nn.Module):
    """The label of the nearest training point."""

    def __init__(self, data: Dataset) -> None:
        super().__init__()
        self.x, self.y = data.x, data.y

    def forward(self, x: Tensor) -> Tensor:
        """±1 for each point."""
        return self.y[torch.cdist(x, self.x).argmin(dim=1)]


def _others(s: Trained, seed: int, progress: Progress) -> dict[str, TwoLayerNet | NearestNeighbour]:
    """Networks at or near KKT points of other training sets of the same clusters, and the nearest neighbour."""
    second, third, fourth = (problem(s, seed, which).train for which in (1, 2, 3))
    return {
        "exact": max_margin_network(second.x, second.y).net,
        "width 6": trained(replace(s, width=6), third, seed + 1000, progress=part(progress, 0, 0.4)),
        "logistic": trained(s, fourth, seed + 2000, loss="logistic", progress=part(progress, 0.4, 1)),
        NEIGHBOUR: NearestNeighbour(second),
    }


def measure_transfer(s: Trained, seed: int, context: Context) -> list[Row]:
    """Perturbations that flip 99 % of points on network A, tried on fresh points and independently trained networks.

    Two directions: u of Theorem 4.2, and one found on A alone, as an attacker without the means would.
    """
    data = problem(s, seed)
    critical = critical_norm(data)
    source = trained(s, data.train, seed, progress=part(context.progress, 0, 0.3))
    x, y = data.test.x, data.test.y
    half = len(x) // 2
    u = direction(data)
    directions = {"u": u, "found on A": universal_direction(source, x[:half], y[:half], critical)}
    context.progress(0.4)
    nets = {SOURCE: source} | _others(s, seed, part(context.progress, 0.4, 0.9))
    rows: list[Row] = []
    for label, along in directions.items():
        norm = flipping_norm(source, x[:half], y[:half], along, share=0.99)
        z = norm * along / along.norm()
        rows += [
            {
                "kind": "flip",
                "network": name,
                "direction": label,
                "rate": flip_rate(net, x[half:], y[half:], z),
                "error": flip_rate(net, x[half:], y[half:], 0 * z),
                "norm": norm / critical,
                "cosine": float(torch.nn.functional.cosine_similarity(along, u, dim=0)),
            }
            for name, net in nets.items()
        ]
    context.progress(1.0)
    return rows + premises(s, data)


def _strangers(rows: Rows, along: str) -> Rows:
    """Networks that never met A."""
    return rows.of("flip", direction=along).where(lambda row: row["network"] not in (SOURCE, NEIGHBOUR))


CLAIMS_TRANSFER = (
    *inside_and_outside(
        "kkt",
        "Theorem 4.2",
        "one perturbation for all KKT points: flip rate of the z along u that flips 99 % on network A, on networks with other data,"
        " starts, widths and losses, least",
        lambda rows: _strangers(rows, "u").least("rate"),
        at_least(0.95),
    ),
    ours(
        "found",
        "beyond Theorem 4.2",
        "the same for a direction found on A's weights and half of the points alone, least",
        lambda rows: _strangers(rows, "found on A").least("rate"),
        at_least(0.7),
        note="it carries A's memorised noise, which other networks do not have",
    ),
    ours(
        "norm",
        "Theorem 4.2, sharp",
        "the norm of the z along u ÷ (‖u‖/k), largest over settings",
        lambda rows: _strangers(rows, "u").largest("norm"),
        at_most(1.5),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Scaled(Setting):
    """`family` says what varies, the clusters or the dimension."""

    family: str


def measure_scaling(s: Scaled, seed: int, context: Context) -> list[Row]:
    """The norm along u that flips half of the points of the exact KKT point."""
    data = problem(s, seed)
    net = max_margin_network(data.train.x, data.train.y).net
    norm = flipping_norm(net, data.test.x, data.test.y, direction(data))
    predicted = critical_norm(data)
    context.progress(1.0)
    measured = {"kind": "norm", "norm": norm, "predicted": predicted, "over_predicted": norm / predicted}
    return [measured, *premises(s, data)]


def _power(name: str, statement: str, family: str, case: str, of: str, power: float) -> Claim:
    return ours(
        name,
        "Theorem 4.2, sharp",
        f"power of {statement} in the norm that flips half of the points",
        lambda rows: rows.of("norm", family=family, case=case).slope(of, "norm"),
        between(power - 0.04, power + 0.04),
    )


CLAIMS_SCALING = (
    Claim(
        "order",
        "Theorem 4.2",
        "the norm is O(√(d/(c²k))): power of k in the norm that flips half of the points, c = 1/2",
        lambda rows: rows.of("norm", family="clusters", case="within").slope("clusters", "norm"),
        at_most(-0.46),
        premises=requires("assumption-2-2", "theorem-3-1", family="clusters", case="within"),
    ),
    _power("exponent", "k", "clusters", "within", "clusters", -0.5),
    _power("usual", "k, with σ = 1,", "clusters", "usual", "clusters", -0.5),
    _power("dimension", "d", "dimension", "within", "dim", 0.5),
    ours(
        "constant",
        "Theorem 4.2, sharp",
        "norm ÷ (‖u‖/k), the size farthest from 1",
        lambda rows: rows.of("norm").farthest("over_predicted", 1.0),
        between(0.9, 1.1),
    ),
)


def _families(dims: tuple[int, ...], numbers: tuple[int, ...], dim: int, k: int) -> list[Scaled]:
    """Numbers of clusters in `dim` dimensions, with small noise and with σ = 1, and dimensions with k clusters."""
    return [
        *(Scaled.within(dim, number, family="clusters") for number in numbers),
        *(Scaled.usual(dim, number, family="clusters") for number in numbers[:-1]),
        *(Scaled.within(d, k, family="dimension") for d in dims),
    ]


TRANSFER = Experiment(
    id="double-edged/transfer",
    source="Frei et al. 2023, Theorem 4.2",
    title="One perturbation for networks that never met",
    scales={
        "quick": [made(test_points=3000, iterations=80) for made in (Trained.usual, Trained.within)],
        "standard": [made(test_points=4000) for made in (Trained.usual, Trained.on_sphere, Trained.within)],
        "paper": [
            Trained.usual(3072, 10, width=50),
            Trained.on_sphere(3072, 10, width=50),
            Trained.within(6000, 16, width=50),
        ],
    },
    measure=measure_transfer,
    claims=CLAIMS_TRANSFER,
    about=(
        "The theorem's direction, and one found on network A, get the length that flips 99 % of half of the test points on A; the other"
        " half is shown to networks with other training sets, starts, widths and losses, and to a nearest neighbour classifier."
    ),
)
SCALING = Experiment(
    id="double-edged/scaling",
    source="Frei et al. 2023, Theorem 4.2",
    title="The breaking norm falls as 1/√k",
    scales={
        "quick": _families((500, 1000, 2000), (2, 4, 8, 16), 1000, 4),
        "standard": _families((500, 1000, 2000, 4000), (2, 4, 8, 16, 32), 2000, 4),
        "paper": _families((1000, 2000, 4000, 8000), (2, 4, 8, 16, 32, 48), 4000, 8),
    },
    measure=measure_scaling,
    claims=CLAIMS_SCALING,
    about="The norm along u that flips half of the test points of the exact KKT point, against k and d.",
)
