"""Theorem 3.1: networks at KKT points generalise, whatever their width and start."""

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import torch

from featureprism.context import Context, part
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    EXACT_KINK,
    INSIDE,
    KINK,
    TrainingSetting,
    clusters_of,
    inside,
    outside,
    premises_of,
    test_blocks,
    trained,
    training_set,
)
from featureprism.probes import kkt_audit
from featureprism.records import Row
from featureprism.training import max_margin_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = ((6, 0.01), (20, 1.0))
LARGE = ((6, 0.1), (20, 0.01), (20, 0.1), (20, 1.0), (100, 0.1))  # a training costs as n² times the width
MANY = ((6, 0.1), (20, 0.01), (20, 0.1), (20, 1.0), (100, 0.1), (100, 1.0))


@dataclass(frozen=True, kw_only=True)
class WidthSetting(TrainingSetting):
    """Networks of several widths and sizes of the start, in pairs."""

    variants: tuple[tuple[int, float], ...]


def measure(s: WidthSetting, seed: int, context: Context) -> list[Row]:
    """Test error of the solver's point and of networks trained to near KKT points from several widths and starts."""
    clusters = clusters_of(s, seed)
    train = training_set(s, clusters, seed)
    net = max_margin_network(train.x, train.y).net
    exact = kkt_audit(net, train.x, train.y, tolerance=EXACT_KINK)
    nets, points = [net], [{"width_used": 2, "start_used": 0.0, "stationarity": exact.stationarity}]
    for index, (width, size) in enumerate(s.variants):
        share = part(context.progress, index / (len(s.variants) + 1), (index + 1) / (len(s.variants) + 1))
        net = trained(replace(s, width=width, start=size), train, seed, progress=share)
        audit = kkt_audit(net, train.x, train.y, tolerance=KINK)
        nets.append(net)
        points.append(
            {
                "width_used": width,
                "start_used": size,
                "stationarity": audit.stationarity,
                "margin_share": audit.normalised_margin / exact.normalised_margin,
            }
        )
    errors, least = _on_test_points(s, seed, nets)
    rows: list[Row] = [
        {"kind": "point", "error": e, **point} for e, point in zip(errors, points, strict=True)
    ]
    apart, bound = theory.separation(s, clusters.mu, clusters.labels), theory.linear_margin(s.dim)
    linear = {"linear_least": least, "linear_bound": bound, "linear_over_bound": least / bound}
    rows.append({"kind": "bound", "bound": theory.test_error_bound(apart), **linear})
    return rows + premises_of(s, apart)


@torch.no_grad()
def _on_test_points(s: WidthSetting, seed: int, nets: list[TwoLayerNet]) -> tuple[list[float], float]:
    """The share of test points with y N(x) ≤ 0 of every network, and the least y ⟨u, x⟩, a block of points at a time."""
    clusters = clusters_of(s, seed)
    u = theory.linear_direction(clusters.mu, clusters.labels)
    wrong, least = torch.zeros(len(nets)), inf
    for block in test_blocks(s, clusters, seed):
        wrong += torch.stack([(block.y * net(block.x) <= 0).sum() for net in nets])
        least = min(least, float((block.y * (block.x @ u)).min()))
    return (wrong / s.test_points).tolist(), least


def _trained(rows: Rows) -> Rows:
    return rows.of("point").where(lambda row: (row["start_used"] or 0) > 0)


CLAIMS = (
    Claim(
        "error",
        source="Theorem 3.1",
        says="A network at a KKT point of the max-margin problem classifies nearly every new point correctly, however many"
        " neurons it has.",
        quantity="share of test points with y N(x) ≤ 0, largest over settings inside Assumption 2.2, widths and starts",
        formula=r"\Pr[y \mathcal{N}_\theta(x) \le 0] \le \epsilon",
        bound=at_most(0.05),
        because="ε = 0.05 as in the premises of the theorem",
        value=lambda rows: inside(rows.of("point")).largest("error"),
        premises=INSIDE,
        headline=True,
    ),
    Claim(
        "linear",
        source="Lemma 2.1",
        says="Under Assumption 2.2 the linear classifier along u = Σ y_q μ_q is right on every new point, by a margin of nearly d.",
        quantity="least y ⟨u, x⟩ over test points ÷ ((9d - 1)/10), least over settings inside Assumption 2.2",
        formula=r"y\,\langle u, x\rangle \ge (9d - 1)/10",
        bound=at_least(1.0),
        because="(9d - 1)/10 is the margin in the lemma's proof",
        value=lambda rows: inside(rows.of("bound")).least("linear_over_bound"),
        premises=requires("assumption-2-2", case="within"),
    ),
    Claim(
        "error-outside",
        source="beyond Theorem 3.1",
        says="Networks near KKT points generalise also where the noise is far larger than Assumption 2.2 allows.",
        quantity="share of test points with y N(x) ≤ 0, largest over settings outside Assumption 2.2, widths and starts",
        bound=at_most(0.005),
        because="a tenth of the ε = 0.05 that the theorem is asked for inside",
        value=lambda rows: outside(rows.of("point")).largest("error"),
        origin="featureprism",
    ),
    Claim(
        "residual",
        source="beyond Theorem 2.1",
        says="The networks whose test errors are counted are close to KKT points of the max-margin problem.",
        quantity=f"stationarity ‖θ - Σ λ_i y_i ∇N(x_i)‖/‖θ‖ with derivatives free within {KINK:g} of a kink, largest",
        bound=at_most(0.001),
        because="a thousandth of the norm of the weights",
        value=lambda rows: _trained(rows).largest("stationarity"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Residual and test error of every network."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=4.2, height=3.0)
    for colour, (case, group) in zip(COLOURS, rows.of("point").groups("case").items(), strict=False):
        residual = group.column("stationarity").clip(min=1e-16)
        axes.plot(residual, group.column("error"), "o", color=colour, label=CASE_NAMES[case], alpha=0.6)
    axes.set(xscale="log", xlabel="stationarity residual ÷ ‖θ‖", ylabel="test error", ylim=(-0.001, 0.02))
    axes.legend()
    return figure


THEOREM_3_1 = Experiment(
    id="double-edged/theorem-3-1",
    source="Frei et al. 2023, Theorem 3.1",
    title="KKT points generalise",
    scales={
        "quick": [made(variants=FEW, iterations=80) for made in (WidthSetting.usual, WidthSetting.within)],
        "standard": [
            made(variants=MANY, test_points=10000)
            for made in (WidthSetting.usual, WidthSetting.on_sphere, WidthSetting.within)
        ],
        "paper": [
            WidthSetting.usual(3072, 10, variants=LARGE, test_points=20000),
            WidthSetting.within(6000, 16, variants=LARGE, test_points=20000),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Test error of the exact KKT point and of networks trained close to one, for pairs of a width and a size of the start, and the"
        " margin of the linear classifier of Lemma 2.1."
    ),
    draw=draw,
)
