"""How well networks at KKT points generalise: Theorem 3.1."""

from dataclasses import dataclass, replace
from math import inf

import torch

from featureprism.context import Context, part
from featureprism.lab import Experiment, Rows, at_least, at_most
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged.samples import SAMPLE_CLAIMS, Sampled, measure_samples
from featureprism.papers.double_edged.setting import (
    EXACT_KINK,
    KINK,
    Trained,
    clusters_of,
    ours,
    outside,
    premises_of,
    test_blocks,
    trained,
    training_set,
)
from featureprism.probes import kkt_audit
from featureprism.records import Row
from featureprism.theory import double_edged as theory
from featureprism.training import max_margin_network

FEW = ((6, 0.01), (20, 1.0))
LARGE = ((6, 0.1), (20, 0.01), (20, 0.1), (20, 1.0), (100, 0.1))  # a training costs as n² times the width
MANY = ((6, 0.1), (20, 0.01), (20, 0.1), (20, 1.0), (100, 0.1), (100, 1.0))


@dataclass(frozen=True, kw_only=True)
class Variants(Trained):
    """Networks of several widths and sizes of the start, in pairs."""

    variants: tuple[tuple[int, float], ...]


def measure(s: Variants | Sampled, seed: int, context: Context) -> list[Row]:
    """Networks at and near KKT points on streamed test points; or test errors against the size of the training set."""
    return (
        measure_samples(s, seed, context) if isinstance(s, Sampled) else _measure_networks(s, seed, context)
    )


def _measure_networks(s: Variants, seed: int, context: Context) -> list[Row]:
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
def _on_test_points(s: Variants, seed: int, nets: list[TwoLayerNet]) -> tuple[list[float], float]:
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
    ours(
        "error-outside",
        "beyond Theorem 3.1",
        "KKT points generalise outside the assumption too: test error, largest over settings, widths and starts",
        lambda rows: outside(rows.of("point")).largest("error"),
        at_most(0.005),
    ),
    ours(
        "residual",
        "beyond Theorem 2.1",
        f"stationarity of the trained networks (kinks within {KINK:g}), largest",
        lambda rows: _trained(rows).largest("stationarity"),
        at_most(0.001),
    ),
    ours(
        "margin",
        "beyond Theorem 2.1",
        "their normalised margin ÷ the solver's, smallest",
        lambda rows: _trained(rows).least("margin_share"),
        at_least(0.99),
    ),
    *SAMPLE_CLAIMS,
)

THEOREM_3_1 = Experiment(
    id="double-edged/theorem-3-1",
    source="Frei et al. 2023, Theorem 3.1",
    title="KKT points generalise",
    scales={
        "quick": [
            *(made(variants=FEW, iterations=80) for made in (Variants.usual, Variants.within)),
            *Sampled.loud_and_still(1000, 16, draws=100),
        ],
        "standard": [
            made(variants=MANY, test_points=10000)
            for made in (Variants.usual, Variants.on_sphere, Variants.within)
        ]
        + Sampled.loud_and_still(1000, 16, draws=200, test_points=4000),
        "paper": [
            Variants.usual(3072, 10, variants=LARGE, test_points=20000),
            Variants.within(6000, 16, variants=LARGE, test_points=20000),
            *Sampled.loud_and_still(6000, 16, draws=200, test_points=10000),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Test error of the exact KKT point and of networks trained close to one, for pairs of a width and a size of the start. Inside"
        " the assumption no point is ever wrong, nor is the linear classifier of Lemma 2.1: noise of norm 1 around centres of norm √d."
        " What could fail, the least margin against the proof's bound, is assumption-2-2.a12."
    ),
)
