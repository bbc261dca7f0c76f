"""The main battery, inside Assumption 2.1: clean training leaves dense mixtures, adversarial training purifies the same neurons."""

from dataclasses import replace

import torch

from featureprism.context import Context
from featureprism.lab import Experiment
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    Bench,
    bench,
    linear_radii,
    linear_shares,
    movement,
    network_row,
    premise_rows,
)
from featureprism.papers.feature_purification.purification_claims import CLAIMS
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    HIDDEN,
    SIZES,
    Setting,
    hidden_vector,
    pure_start,
    robustness,
    start,
    trained,
)
from featureprism.probes import purification as probes
from featureprism.records import Row
from featureprism.theory import feature_purification as theory

STAGES = ("clean", "control", "adversarial")
RADII = (0.1, 0.2, 0.3)
CURVE_POINTS = 80  # of the test set, for accuracy against the radius
RANKS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400)


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """Accuracies, purity and movement of the networks of the three stages, between the floor and the ceiling."""
    on = bench(s, seed)
    nets = {stage: trained(s, seed, stage) for stage in STAGES}
    context.progress(0.6)
    rows = [row for stage, net in nets.items() for row in _profile(stage, net, on)]
    rows.append(movement(nets, start(s, seed).W.detach(), on))
    nets["pure"] = pure_start(s, seed)
    rows += [network_row(stage, net, on, s, seed) for stage, net in nets.items()]
    context.progress(0.8)
    if s.hidden == HIDDEN[0]:
        rows += _curves(nets, on, s, seed)
    w, measured = on.problem.w, float((linear_radii(on.problem, on.test) > s.radius).double().mean())
    floor = theory.linear_robust_accuracy(on.test.z @ w, w, s.noise, s.radius)
    rows.append({"kind": "floor", "predicted": floor, "measured": measured})
    rows.append({**_sum_row(s, on), **linear_shares(s, nets["clean"], on)})
    return rows + premise_rows(s, on.problem, on.many)


def _sum_row(s: Setting, on: Bench) -> Row:
    """What conditioning would change: the variance of the label's score, and what of it ⟨Mw*, x⟩ shows."""
    return {
        "kind": "sample",
        "tie_share": on.many.tie_share,
        "acceptance": on.many.acceptance,
        "variance_ratio": theory.variance_ratio(on.many.z, on.problem.w),
        "principal_ratio": theory.principal_ratio(on.many.z),
        "linear_share_of_pure": theory.linear_share_of_pure(hidden_vector(s), s.noise),
    }


def _profile(stage: str, net: SymmetricNet, on: Bench) -> list[Row]:
    """Sorted |⟨w_i, M_j⟩| over the largest, median over alive neurons: how fast the coefficients of a neuron fall off."""
    W, M = net.W.detach()[probes.firing(net, on.many.x) > 0], on.problem.M
    A = (W @ M).abs().sort(dim=1, descending=True).values
    typical = (A / A[:, :1]).median(dim=0).values if len(A) else torch.zeros(M.shape[1])
    return [
        {"kind": "profile", "stage": stage, "rank": r, "size": float(typical[r - 1])}
        for r in RANKS
        if r <= len(typical)
    ]


def _curves(nets: dict[str, SymmetricNet], on: Bench, s: Setting, seed: int) -> list[Row]:
    """Robust accuracy against the radius, on a part of the test set; exact and on all of it for the linear classifier."""
    test, linear = on.test, linear_radii(on.problem, on.test)
    few = test._replace(x=test.x[:CURVE_POINTS], y=test.y[:CURVE_POINTS], z=test.z[:CURVE_POINTS])
    worst = {
        (stage, radius): robustness(net, few, on.problem, s, seed, radius).row["worst"]
        for stage, net in nets.items()
        for radius in RADII
    }
    worst |= {("linear", radius): float((linear > radius).double().mean()) for radius in RADII}
    return [
        {"kind": "curve", "stage": stage, "radius": radius, "worst": value}
        for (stage, radius), value in worst.items()
    ]


PURIFICATION = Experiment(
    id="feature-purification/purification",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.2, 5.3",
    title="Every neuron keeps its feature, and adversarial training takes its dense mixture away",
    scales={scale: [replace(base, hidden=law) for law in HIDDEN] for scale, base in SIZES.items()},
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "A network of smoothed neurons on sparse coding data as in Assumption 2.1: independent z of three laws, σ_x = 1, k = d^0.35 to"
        " d^0.36, nothing drawn again. Trained clean, then adversarially, with a control of as many more clean steps. Robust accuracy"
        " is the minimum over the universal direction, FGM and multi-start PGD, beside that of the pure network on the same points."
    ),
)
