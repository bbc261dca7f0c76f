"""One neuron for several centres: what it costs in radius, and how often training from a random start ends so."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from featureprism.attacks import minimal_radius, structured_starts
from featureprism.lab import Claim, Experiment, Rows, Values, at_most, below
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.gmm_flow.robust_accuracy import SIZES, UPPER, TrainedClassifier, class_gains, train
from featureprism.papers.gmm_flow.setting import mixture
from featureprism.papers.gmm_flow.theory import shared_radius
from featureprism.progress import part
from featureprism.training.trajectory import Ended

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARED = 1.5  # G² from which on a network counts as one with a shared neuron: halfway from one centre to two
PAIR = 0.05  # |G² - 2| up to which one neuron serves two centres and nothing else counts
SMALL_STD, LARGE_STD = (
    1e-2,
    3e-2,
)  # of the entries: that of Appendix B.2, and one at which neurons do not turn in time
NARROW, WIDE = 50, 800


@dataclass(frozen=True, kw_only=True)
class PReLUNetworks(TrainedClassifier):
    """`networks` pReLU networks on independent mixtures, trained as in Figure 2; `series` says what varies."""

    series: str
    networks: int
    model: str = "prelu"
    test_points: int = 1  # radii are those of the centres, without noise
    max_cells: int = 0


def measure(s: PReLUNetworks, seed: int, context: Context) -> list[Row]:
    """For each network how many centres its neurons share, and the radius of the centres of the class that this weakens."""
    rows: list[Row] = []
    for index in range(s.networks):
        progress = part(context.progress, index / s.networks, (index + 1) / s.networks)
        data = mixture(s, seed * s.networks + index)
        net, ended = train(s, data, seed * s.networks + index, progress)
        if ended == Ended.DIVERGED.name or not isinstance(net, TwoLayerNet):
            continue
        net, mu, labels = net.double(), data.clusters.mu, data.clusters.labels
        with torch.no_grad():
            fitted = float((data.train.y * net(data.train.x) > 0).double().mean())
        gains = class_gains(net, mu, labels)
        weaker = labels == (-1.0 if gains[0] >= gains[1] else 1.0)
        starts = structured_starts(net, mu, labels)
        attacked = minimal_radius(net, mu[weaker], labels[weaker], starts=starts, upper=UPPER)
        radius, law = float(attacked.radius.median()), shared_radius(max(gains))
        rows.append(
            {
                "kind": "network",
                "network": index,
                "served": max(gains) ** 2,
                "shares": float(max(gains) ** 2 >= SHARED),
                "radius": radius,
                "law": law,
                "deviation": abs(radius / law - 1),
                "train_accuracy": fitted,
                "ended": ended,
            }
        )
    context.progress(1.0)
    return rows


def _share(rows: Rows, **fields: Any) -> Values:
    """The share of networks that have a shared neuron."""
    return rows.of("network", **fields).mean("shares")


def _shares_note(rows: Rows) -> str:
    parts = []
    for (std, width, positive, negative), networks in (
        rows.of("network").groups("std", "width", "positive", "negative").items()
    ):
        count = int(networks.column("shares").sum())
        parts.append(f"std {std:g}, width {width}, K = {positive}+{negative}: {count} of {len(networks)}")
    return "; ".join(parts)


def _largest_deviation(rows: Rows) -> Values:
    """The largest |radius ÷ law - 1| over networks from a small start, whose neurons have turned to centres."""
    return rows.of("network").where(lambda row: row["std"] <= SMALL_STD).largest("deviation")


def _pair_deviation(rows: Rows) -> Values:
    """The largest |radius·√3 - 1| over networks with one shared pair; the mean over all seeds where a seed has none."""
    pairs = rows.of("network").where(
        lambda row: row["std"] <= SMALL_STD and abs((row["served"] or np.nan) - 2) <= PAIR
    )
    values = pairs.per_seed(lambda run: np.abs(run.column("radius") * np.sqrt(3) - 1).max())
    return np.where(np.isfinite(values), values, np.nanmean(values) if np.isfinite(values).any() else np.nan)


CLAIMS = (
    Claim(
        "radius",
        source="behind Figures 2 and 7",
        says="A neuron that serves s centres of one class leaves the centres of the other class a radius of 1/√(s+1).",
        quantity="relative deviation of the attacked radius from the law, largest over networks from a small start",
        formula=r"r = 1/\sqrt{1 + G^2}, \quad G^p = \max_{\lVert x\rVert = 1} f_{\pm}(x), \quad G = \sqrt s",
        bound=at_most(0.02),
        because="the law leaves out the noise that the network has fitted, of size α/√N = 0.014 and less",
        value=_largest_deviation,
        origin="featureprism",
        aggregate="worst",
        note="G is read off the weights alone; the radius is found by an attack",
    ),
    Claim(
        "pair",
        source="behind Figures 2 and 7",
        says="A network in which one neuron serves two centres breaks at 1/√3 instead of √2/2.",
        quantity="relative deviation from 1/√3 over networks with one shared pair, largest of a seed",
        formula=r"r = 1/\sqrt 3 \approx 0.577",
        bound=at_most(0.02),
        because="the law leaves out the noise that the network has fitted, of size α/√N = 0.014 and less",
        value=_pair_deviation,
        origin="featureprism",
    ),
    Claim(
        "start",
        source="behind Figures 2 and 7",
        says="The smaller the start, the rarer are neurons that serve several centres.",
        quantity="difference of the shares of networks with a shared neuron, entries of std 1e-3 minus 3e-2",
        bound=below(0.0),
        because="rarer means a smaller share; a small start leaves neurons time to choose one centre before anything is learned",
        value=lambda rows: (
            _share(rows, series="start", std=1e-3) - _share(rows, series="start", std=LARGE_STD)
        ),
        origin="featureprism",
        note=_shares_note,
    ),
    Claim(
        "width",
        source="behind Figures 2 and 7",
        says="The more neurons a network has for each cluster, the rarer are neurons that serve several centres.",
        quantity=f"difference of the shares of networks with a shared neuron, width {WIDE} minus {NARROW}",
        bound=below(0.0),
        because="rarer means a smaller share; with more neurons one that faces a single centre is learned first",
        value=lambda rows: (
            _share(rows, series="width", width=WIDE) - _share(rows, series="width", width=NARROW)
        ),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Radius against the number of centres served, and the share of networks that share against the start."""
    from featureprism.lab.style import COLOURS, guide, over_seeds, panels

    figure, (left, right) = panels(2, width=3.7, height=3.0)
    networks = rows.of("network")
    served = np.linspace(1, max(3.0, networks.column("served").max()), 100)
    left.plot(served, 1 / np.sqrt(1 + served), color="0.4", linestyle="--", label="1/√(s+1)")
    left.plot(networks.column("served"), networks.column("radius"), "o", color=COLOURS[0], alpha=0.5)
    guide(left, 3**-0.5, "1/√3", along="y")
    left.set(xlabel="centres served by one neuron, G²", ylabel="radius of the other class")
    left.set_title("(a) one dot for each network")
    left.legend()
    x, _, mean, _ = over_seeds(networks.having(series="start"), "std", "shares")
    right.plot(x, mean, "o-", color=COLOURS[1])
    right.set(xscale="log", ylim=(-0.03, 1.03), xlabel="std of the entries at the start")
    right.set(ylabel="share with a shared neuron", title="(b) a small start shares less")
    return figure


def _settings(scale: str, networks: int) -> list[PReLUNetworks]:
    size = {name: SIZES[scale][name] for name in ("dim", "per_cluster", "epochs")}

    def some(series: str, std: float = SMALL_STD, width: int = 200, half: int = 4) -> PReLUNetworks:
        return PReLUNetworks(
            series=series,
            networks=networks,
            std=std,
            width=width,
            positive=3 * half,
            negative=2 * half,
            **size,
        )

    return [
        *(some("start", std=std) for std in (1e-3, SMALL_STD, LARGE_STD)),
        *(some("width", width=width) for width in (NARROW, WIDE)),
        *(some("clusters", half=half) for half in (2, 8)),
    ]


SHARED_NEURONS = Experiment(
    id="gmm-flow/shared-neurons",
    source="Min & Vidal 2025, behind Figures 2 and 7",
    title="One neuron for two centres",
    scales={
        "quick": _settings("quick", 6),
        "standard": _settings("standard", 10),
        "paper": _settings("paper", 10),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "pReLU networks as in Figure 2 on many mixtures. From a start that is not small a neuron between two centres of its class can"
        " be learned before it has chosen one of them. It then fits both with ⟨x, μ₁ + μ₂⟩^p, and the border to the other class moves"
        " nearer."
        " Varied are the start, the width and the number of clusters."
    ),
)
