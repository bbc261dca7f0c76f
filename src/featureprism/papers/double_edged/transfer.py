"""Theorem 4.2: one perturbation for all networks."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from featureprism._progress import Progress, part
from featureprism.attacks import flip_rate, flipping_norm, universal_direction
from featureprism.data.dataset import Dataset
from featureprism.lab import Claim, Experiment, Rows, at_least
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    INSIDE,
    TrainingSetting,
    critical_norm,
    direction,
    inside,
    outside,
    premises,
    problem,
    trained,
)
from featureprism.training import max_margin_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCE, NEIGHBOUR = "A itself", "nearest neighbour"


class NearestNeighbour(torch.nn.Module):
    """The label of the nearest training point."""

    def __init__(self, data: Dataset) -> None:
        super().__init__()
        self.x, self.y = data.x, data.y

    def forward(self, x: Tensor) -> Tensor:
        """±1 for each point."""
        return self.y[torch.cdist(x, self.x).argmin(dim=1)]


def _others(s: TrainingSetting, seed: int, progress: Progress) -> dict[str, TwoLayerNet | NearestNeighbour]:
    """Networks at or near KKT points of other training sets of the same clusters, and the nearest neighbour."""
    second, third, fourth = (problem(s, seed, which).train for which in (1, 2, 3))
    return {
        "exact": max_margin_network(second.x, second.y).net,
        "width 6": trained(replace(s, width=6), third, seed + 1000, progress=part(progress, 0, 0.4)),
        "logistic": trained(s, fourth, seed + 2000, loss="logistic", progress=part(progress, 0.4, 1)),
        NEIGHBOUR: NearestNeighbour(second),
    }


def measure(s: TrainingSetting, seed: int, context: Context) -> list[Row]:
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
    """Networks that share neither data nor start with A."""
    return rows.of("flip", direction=along).where(lambda row: row["network"] not in (SOURCE, NEIGHBOUR))


CLAIMS = (
    Claim(
        "kkt",
        source="Theorem 4.2",
        says="One perturbation along u = Σ y_q μ_q flips nearly all points of every trained network, whatever its training set, width,"
        " start and loss.",
        quantity="share of fresh points that z along u flips, least over networks; z has the norm that flips 99 % on another network",
        bound=at_least(0.95),
        because="ε = 0.05 as in the premises of the theorem",
        value=lambda rows: inside(_strangers(rows, "u")).least("rate"),
        premises=INSIDE,
        headline=True,
    ),
    Claim(
        "kkt-outside",
        source="beyond Theorem 4.2",
        says="One perturbation along u = Σ y_q μ_q flips nearly all points of every trained network also where the noise is far larger"
        " than Assumption 2.2 allows.",
        quantity="share of fresh points that z along u flips, least over networks; z has the norm that flips 99 % on another network",
        bound=at_least(0.95),
        because="ε = 0.05 is what counts as nearly all inside the assumption",
        value=lambda rows: outside(_strangers(rows, "u")).least("rate"),
        origin="featureprism",
    ),
    Claim(
        "found",
        source="beyond Theorem 4.2",
        says="An attacker who knows one network, and not the means, finds a perturbation that flips most points of networks trained on"
        " other data.",
        quantity="share of fresh points that a direction found on one network flips on the others, least",
        bound=at_least(0.7),
        because="most points means seven of ten; the direction carries the memorised noise of the network on which it was found",
        value=lambda rows: _strangers(rows, "found on A").least("rate"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Flip rates of one perturbation on networks of other data."""
    from featureprism.lab.style import COLOURS, panels

    figure, axes = panels(2, width=5.2, height=2.6)
    for panel, along in zip(axes, ("u", "found on A"), strict=True):
        flips = rows.of("flip", direction=along)
        nets, cases = flips.distinct("network"), flips.groups("case")
        height = 0.8 / max(1, len(cases))
        for shift, (case, group) in enumerate(cases.items()):
            values = [group.having(network=net).column("rate").mean() for net in nets]
            places = np.arange(len(nets)) + shift * height
            panel.barh(places, values, height=height, color=COLOURS[shift], label=CASE_NAMES[case])
        panel.set_yticks(np.arange(len(nets)) + 0.4 - height / 2, nets)
        panel.invert_yaxis()
        panel.set(
            xlabel="fresh points flipped", xlim=(0, 1.02), title="z along u" if along == "u" else f"z {along}"
        )
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


TRANSFER = Experiment(
    id="double-edged/transfer",
    source="Frei et al. 2023, Theorem 4.2",
    title="One perturbation for networks trained on different data",
    scales={
        "quick": [
            made(test_points=3000, iterations=80) for made in (TrainingSetting.usual, TrainingSetting.within)
        ],
        "standard": [
            made(test_points=4000)
            for made in (TrainingSetting.usual, TrainingSetting.on_sphere, TrainingSetting.within)
        ],
        "paper": [
            TrainingSetting.usual(3072, 10, width=50),
            TrainingSetting.on_sphere(3072, 10, width=50),
            TrainingSetting.within(6000, 16, width=50),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "The theorem's direction, and one found on network A, get the length that flips 99 % of half of the test points on A; the other"
        " half is shown to networks with other training sets, starts, widths and losses, and to a nearest neighbour classifier."
    ),
    draw=draw,
)
