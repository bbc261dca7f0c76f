"""One perturbation for all networks, and how its norm grows with k and d."""

from math import sqrt

import torch
from torch import Tensor

from featureprism.attacks import flip_rate, flipping_norm, universal_direction
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.setting import on_sphere, problem, row_of, trained, usual, within
from featureprism.records import (
    Claim,
    Dataset,
    Experiment,
    Progress,
    Row,
    judge,
    log_slope,
    rows_of,
    seeds_of,
)
from featureprism.theory import double_edged as theory
from featureprism.training import max_margin_network


class NearestNeighbour(torch.nn.Module):
    """The label of the nearest training point."""

    def __init__(self, data: Dataset) -> None:
        super().__init__()
        self.x, self.y = data.x, data.y

    def forward(self, x: Tensor) -> Tensor:
        """±1 for each point."""
        return self.y[torch.cdist(x, self.x).argmin(dim=1)]


def _others(setting: Row, seed: int) -> dict[str, TwoLayerNet | NearestNeighbour]:
    """Networks at or near KKT points of other training sets of the same clusters, and the nearest neighbour."""
    second, third, fourth = (problem(setting, seed, which).train for which in (1, 2, 3))
    return {
        "exact": max_margin_network(second.x, second.y).net,
        "width 6": trained({**setting, "width": 6}, third, seed + 1000),
        "logistic": trained(setting, fourth, seed + 2000, loss="logistic"),
        "nearest neighbour": NearestNeighbour(second),
    }


def measure_transfer(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Perturbations that flip 99 % of points on network A, tried on fresh points and independently trained networks.

    Two directions: u of Theorem 4.2, and one found on A alone, as an attacker without the means would.
    """
    data = problem(setting, seed)
    critical = theory.critical_norm(setting["dim"], setting["clusters"])
    source = trained(setting, data.train, seed)
    x, y = data.test.x, data.test.y
    half = len(x) // 2
    u = theory.linear_direction(data.clusters.mu, data.clusters.labels)
    directions = {"u": u, "found on A": universal_direction(source, x[:half], y[:half], critical)}
    progress(0.4)
    nets = {"A itself": source} | _others(setting, seed)
    rows: list[Row] = []
    for label, direction in directions.items():
        norm = flipping_norm(source, x[:half], y[:half], direction, share=0.99)
        z = norm * direction / direction.norm()
        rows += [
            {
                "kind": "flip",
                "network": name,
                "direction": label,
                "rate": flip_rate(net, x[half:], y[half:], z),
                "error": flip_rate(net, x[half:], y[half:], 0 * z),
                "norm": norm / critical,
                "cosine": float(torch.nn.functional.cosine_similarity(direction, u, dim=0)),
            }
            for name, net in nets.items()
        ]
    progress(1.0)
    return rows


def _claims_transfer(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "flip", direction="u")
    own = [r for r in rows_of(rows, "flip", direction="found on A") if r["network"] != "nearest neighbour"]
    others = [r for r in found if r["network"] not in ("A itself", "nearest neighbour")]
    neighbour = [r for r in found if r["network"] == "nearest neighbour"]

    def worst(own: list[Row], pick) -> list[float]:
        return [pick(r["rate"] for r in own if r["seed"] == s) for s in seeds_of(own)]

    return [
        judge(
            "transfer.kkt",
            "Theorem 4.2",
            "flip rate of the z along u that flips 99 % on network A, on networks with other data, starts, widths and losses; least",
            worst(others, min),
            ">",
            0.97,
        ),
        judge(
            "transfer.found",
            "Theorem 4.2",
            "the same for a direction found on A's weights and half of the points alone, least",
            worst([r for r in own if r["network"] != "A itself"], min),
            ">=",
            0.7,
            "reported: it carries A's memorised noise, which other networks do not have",
        ),
        judge(
            "transfer.norm",
            "Theorem 4.2, sharp",
            "its norm ÷ √(d/k), largest over settings",
            [max(r["norm"] for r in others if r["seed"] == s) for s in seeds_of(others)],
            "<=",
            1.5,
        ),
        judge(
            "transfer.nearest-neighbour",
            "Section 4",
            "the same perturbation on the nearest neighbour of the small-noise setting",
            worst([r for r in neighbour if r["name"] == "within"], max),
            "<=",
            0.05,
            "the data themselves are not fragile: nearest neighbours break near √(d/2)",
        ),
    ]


def measure_scaling(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """The norm along u that flips half of the points of the exact KKT point."""
    data = problem(setting, seed)
    net = max_margin_network(data.train.x, data.train.y).net
    u = theory.linear_direction(data.clusters.mu, data.clusters.labels)
    norm = flipping_norm(net, data.test.x, data.test.y, u)
    progress(1.0)
    return [
        {"kind": "norm", "norm": norm, "predicted": theory.critical_norm(setting["dim"], setting["clusters"])}
    ]


def slopes(rows: list[Row], family: str, key: str, name: str) -> list[float]:
    """log-log slope of the flipping norm against `key`, for each seed."""
    found = [r for r in rows_of(rows, "norm") if (r["family"], r["name"]) == (family, name)]
    return [
        log_slope(*zip(*((r[key], r["norm"]) for r in found if r["seed"] == s), strict=True))
        for s in seeds_of(found)
    ]


def _claims_scaling(rows: list[Row]) -> list[Claim]:
    found = rows_of(rows, "norm")
    return [
        judge(
            "scaling.exponent",
            "Theorem 4.2, sharp",
            "slope of the norm that flips half of the points against k",
            slopes(rows, "clusters", "clusters", "within"),
            "in",
            (-0.54, -0.46),
        ),
        judge(
            "scaling.usual",
            "Theorem 4.2, sharp",
            "the same with σ = 1",
            slopes(rows, "clusters", "clusters", "usual"),
            "in",
            (-0.54, -0.46),
        ),
        judge(
            "scaling.dimension",
            "Theorem 4.2, sharp",
            "slope of that norm against d",
            slopes(rows, "dimension", "dim", "within"),
            "in",
            (0.46, 0.54),
        ),
        judge(
            "scaling.constant",
            "Theorem 4.2, sharp",
            "norm ÷ √(d/k), the size farthest from 1",
            [
                max((r["norm"] / r["predicted"] for r in found if r["seed"] == s), key=lambda v: abs(v - 1))
                for s in seeds_of(found)
            ],
            "in",
            (0.9, 1.1),
        ),
    ]


def _family(dims: tuple[int, ...], clusters: tuple[int, ...], dim: int, k: int) -> list[Row]:
    return [
        *(row_of(dim, j, 1 / sqrt(dim), family="clusters", name="within") for j in clusters),
        *(usual(dim, j, family="clusters") for j in clusters[:-1]),
        *(row_of(d, k, 1 / sqrt(d), family="dimension", name="within") for d in dims),
    ]


TRANSFER = Experiment(
    id="double-edged/transfer",
    source="Frei et al. 2023, Theorem 4.2",
    title="One perturbation for networks that never met",
    scales={
        "quick": [f(test_points=3000, iterations=80) for f in (usual, within)],
        "standard": [f(test_points=4000) for f in (usual, on_sphere, within)],
        "paper": [usual(3072, 10, width=200), on_sphere(3072, 10, width=200), within(6000, 16, width=200)],
    },
    measure=measure_transfer,
    claims=_claims_transfer,
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
        "quick": _family((500, 1000, 2000), (2, 4, 8, 16), 1000, 4),
        "standard": _family((500, 1000, 2000, 4000), (2, 4, 8, 16, 32), 2000, 4),
        "paper": _family((1000, 2000, 4000, 8000), (2, 4, 8, 16, 32, 48), 4000, 8),
    },
    measure=measure_scaling,
    claims=_claims_scaling,
    about="The norm along u that flips half of the test points of the exact KKT point, against k and d.",
)
