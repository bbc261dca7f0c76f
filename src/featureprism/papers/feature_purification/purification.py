"""The main battery: clean training leaves a network that breaks, adversarial training purifies it."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.experiment import Bound, Claim, Experiment, Rows, Values, at_least, at_most, under
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    BROKEN,
    LEARNED,
    PURIFIED,
    Bench,
    at_stage,
    bench,
    linear_radii,
    network_row,
    premise_rows,
    stage_claim,
)
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Setting,
    pure_start,
    robustness,
    scales,
    start,
    trained,
)
from featureprism.probes import purification as probes
from featureprism.records import Row
from featureprism.theory import feature_purification as theory

STAGES = ("clean", "control", "adversarial")
RADII = (0.1, 0.2, 0.3)
CURVE_POINTS = 80  # of the test set, for accuracy against the radius
SMALL_MIXTURE = "the feature and a small mixture: 1/√(1 + k²/d) with every Θ set to 1"
RANKS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400)


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """Accuracies, purity and movement of the networks of the three stages, between the floor and the ceiling."""
    on = bench(s, seed)
    nets = {stage: trained(s, seed, stage) for stage in STAGES}
    context.progress(0.5)
    rows: list[Row] = []
    for stage, net in nets.items():
        rows += [network_row(stage, net, on, s, seed), *_profile(stage, net, on)]
    rows.append(_movement(nets, start(s, seed).W.detach(), on.many.x))
    context.progress(0.7)
    rows += _curves({**nets, "pure": pure_start(s, seed)}, on, s, seed)
    w, measured = on.problem.w, float((linear_radii(on.problem, on.test) > s.radius).double().mean())
    floor = theory.linear_robust_accuracy(on.test.z @ w, w, s.noise, s.radius)
    rows.append({"kind": "floor", "predicted": floor, "measured": measured})
    return rows + premise_rows(s, on.problem, on.test)


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


def _movement(nets: dict[str, SymmetricNet], W0: Tensor, x: Tensor) -> Row:
    """Cosines from stage to stage over alive neurons, ratios of Theorem 5.1(a), drift of Theorem 5.3(c)."""
    clean, adversarial = nets["clean"].W.detach(), nets["adversarial"].W.detach()
    alive = (probes.firing(nets["clean"], x) > 0) & (probes.firing(nets["adversarial"], x) > 0)
    kept = probes.same_direction(clean, adversarial)
    turned = probes.turning(clean, W0)
    return {
        "kind": "movement",
        "alive": int(alive.sum()),
        "start_to_clean": float(probes.same_direction(W0, clean)[alive].median()),
        "start_to_adversarial": float(probes.same_direction(W0, adversarial)[alive].median()),
        "start_to_clean_weighted": probes.weighted_mean(probes.same_direction(W0, clean), clean),
        "clean_to_adversarial": float(kept[alive].median()),
        "clean_to_adversarial_weighted": probes.weighted_mean(kept, clean),
        "pairs_clean": float(probes.pairwise(clean[alive]).median()),
        "pairs_adversarial": float(probes.pairwise(adversarial[alive]).median()),
        "kept_from_start": turned.from_start,
        "together": turned.together,
        "together_adversarial": probes.turning(adversarial, W0).together,
        "drift": probes.drift(adversarial, clean),
        "drift_control": probes.drift(nets["control"].W.detach(), clean),
    }


def _clean_accuracy(rows: Rows) -> Values:
    return np.minimum(at_stage("clean", "clean")(rows), at_stage("adversarial", "clean")(rows))


def _mixture_ratio(rows: Rows) -> Values:
    return at_stage("clean", "mixture")(rows) / at_stage("adversarial", "mixture")(rows)


def _drift_note(rows: Rows) -> str:
    return f"{rows.of('movement').column('drift_control').mean():.2g} after as many extra clean steps"


def _together_note(rows: Rows) -> str:
    after = rows.of("movement").column("together_adversarial").mean()
    return f"few dense neurons carry most of the norm; {after:.2g} after adversarial training"


def moved(key: str) -> Callable[[Rows], Values]:
    """The value of a claim: how neurons moved."""
    return lambda rows: rows.of("movement").per_seed(key)


def _principle(name: str, cosine: str, key: str, bound: Bound, reported: float) -> Claim:
    """The principle of feature purification, in cosines |⟨w, w'⟩|/‖w‖‖w'‖ of most neurons."""
    return Claim(
        name,
        "Section 1",
        f"cosine of {cosine}, median over neurons that fire before and after",
        moved(key),
        bound,
        reported=reported,
        premises=under(*PURIFIED),
    )


CLAIMS = (
    Claim(
        "clean-accuracy",
        "Theorems 5.1(b) and 5.3(b)",
        "accuracy without attack, the lower of both networks",
        _clean_accuracy,
        at_least(0.98),
        premises=under(*PURIFIED),
    ),
    stage_claim("clean-robust", "Theorem 5.1(c)", "worst", "clean", at_most(0.3), BROKEN),
    stage_claim("control-robust", "Theorem 5.1(c)", "worst", "control", at_most(0.3), BROKEN),
    stage_claim("adversarial-robust", "Theorem 5.3(b)", "worst", "adversarial", at_least(0.75), PURIFIED),
    stage_claim("mostly-pure", "(5.1)", "purity", "clean", at_least(0.5), LEARNED, note=SMALL_MIXTURE),
    stage_claim("purity-before", "finding", "purity", "clean", at_most(0.3), speaker="ours"),
    stage_claim("purity-after", "Section 3", "purity", "adversarial", at_least(0.65), PURIFIED),
    Claim(
        "mixture-ratio",
        "Section 5.1",
        "relative mass of the dense mixtures Σβ/Σα, before ÷ after adversarial training",
        _mixture_ratio,
        at_least(4.0),
        note="N_i is the largest feature of a neuron",
        premises=under(*PURIFIED),
    ),
    _principle("start", "a neuron before and after clean training", "start_to_clean", at_most(0.2), 0.2),
    _principle(
        "same-feature",
        "a neuron before and after adversarial training",
        "clean_to_adversarial",
        at_least(0.75),
        0.8,
    ),
    _principle("pairs", "two neurons after clean training", "pairs_clean", at_most(0.2), 0.2),
    Claim(
        "far-from-start",
        "Theorem 5.1(a)",
        "Σ⟨w_i, w_i⁰⟩²/Σ‖w_i‖²‖w_i⁰‖² = o(1) after clean training",
        moved("kept_from_start"),
        at_most(0.1),
        premises=under(*LEARNED),
    ),
    Claim(
        "together",
        "Theorem 5.1(a)",
        "Σ_ij⟨w_i, w_j⟩²/(Σ‖w_i‖²)² = o(1) after clean training",
        moved("together"),
        at_most(0.1),
        note=_together_note,
        premises=under(*LEARNED),
    ),
    Claim(
        "drift",
        "Theorem 5.3(c)",
        "adversarial training moves neurons little: Σ‖w_i - w_i'‖²/Σ‖w_i‖² = o(1)",
        moved("drift"),
        at_most(0.1),
        note=_drift_note,
        premises=under(*PURIFIED),
    ),
)

PURIFICATION = Experiment(
    id="feature-purification/purification",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.2, 5.3",
    title="Clean training leaves dense mixtures that break, adversarial training removes them",
    scales=scales(Setting),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "A network of smoothed neurons on sparse coding data, trained clean, then adversarially, with a control of as many extra clean"
        " steps. Robust accuracy is the minimum over the universal direction, FGM and multi-start PGD. Hidden vectors near a tie are"
        " drawn again; the item strict does without that."
    ),
)
