"""The main battery: clean training from a random start leaves dense mixtures, adversarial training purifies the same neurons."""

from collections.abc import Callable
from typing import Any

import torch

from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    GAINED,
    LEARNED,
    MIXED,
    NEARLY_ALL,
    O_NEARLY,
    O_SMALL,
    PURIFIED,
    SMALL,
    Bench,
    at_stage,
    bench,
    ceiling,
    ceiling_row,
    gain,
    moved,
    movement,
    network_row,
    premise_rows,
)
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    pure_start,
    robustness,
    scales,
    start,
    trained,
)
from featureprism.probes import purification as probes

STAGES = ("clean", "control", "adversarial")
RADII = (0.05, 0.1, 0.15, 0.2, 0.3)
CURVE_POINTS = 80  # of the test set, for accuracy against the radius
RANKS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200)
HALF_ENERGY = 0.5**0.5  # |cosine| with one feature from which a neuron is mostly that feature


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """Accuracies, purity and movement of the networks of the three stages, beside the best pure network."""
    on = bench(s, seed)
    nets = {stage: trained(s, seed, stage) for stage in STAGES}
    context.progress(0.6)
    rows = [row for stage, net in nets.items() for row in _profile(stage, net, on)]
    change = movement(nets, start(s, seed).W.detach(), on)
    nets["pure"] = pure_start(s, seed)
    rows += [network_row(stage, net, on, s, seed) for stage, net in nets.items()]
    rows += [change, ceiling_row(on, s, seed), *_curves(nets, on, s, seed)]
    return rows + premise_rows(s, on, change["drift_control"])


def _profile(stage: str, net: SymmetricNet, on: Bench) -> list[Row]:
    """Sorted |⟨w_i, M_j⟩| over the largest, median over neurons that fire: how fast the coefficients of a neuron fall off."""
    W, M = net.W.detach()[probes.firing(net, on.many.x) > 0], on.problem.M
    A = (W @ M).abs().sort(dim=1, descending=True).values
    typical = (A / A[:, :1]).median(dim=0).values if len(A) else torch.zeros(M.shape[1])
    return [
        {"kind": "profile", "stage": stage, "rank": r, "size": float(typical[r - 1])}
        for r in RANKS
        if r <= len(typical)
    ]


def _curves(nets: dict[str, SymmetricNet], on: Bench, s: Battery, seed: int) -> list[Row]:
    """Robust accuracy against the radius, on a part of the test set."""
    test = on.test
    few = test._replace(x=test.x[:CURVE_POINTS], y=test.y[:CURVE_POINTS], z=test.z[:CURVE_POINTS])
    return [
        {
            "kind": "curve",
            "stage": stage,
            "curve_radius": radius,
            "worst": robustness(net, few, on.problem, s, seed, radius).row["worst"],
        }
        for stage, net in nets.items()
        for radius in RADII
    ]


def _stages_note(key: str) -> Callable[[Rows], str]:
    """What the networks of all stages have."""

    def note(rows: Rows) -> str:
        means = {stage: at_stage(stage, key)(rows).mean() for stage in ("clean", "adversarial")}
        best = ceiling(key)(rows).mean()
        return f"clean {means['clean']:.2f}, adversarial {means['adversarial']:.2f}, best pure network {best:.2f}"

    return note


def _drift_note(rows: Rows) -> str:
    control, own, mixture, rest = (
        rows.of("movement").column(f"drift_{part}").mean() for part in ("control", "own", "mixture", "rest")
    )
    return (
        f"{mixture:.2f} of it along Mw*, {own:.2f} along the feature of the neuron, {rest:.2f} along further features and noise;"
        f" {control:.2f} in as many more clean steps; k²/d is {_mixture_order(rows):.2f}"
    )


def _mixture_order(rows: Rows) -> float:
    part = rows.of("movement")
    return float((part.column("sparsity") ** 2 / part.column("dim")).mean())


CLAIMS = (
    Claim(
        "clean-accuracy",
        source="Theorem 5.1(b)",
        says="Clean training from a random start gives a network that classifies nearly every point correctly.",
        quantity="share of test points classified correctly after clean training",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=at_stage("clean", "clean"),
        ceiling=ceiling("clean"),
        premises=requires(*LEARNED),
        note=_stages_note("clean"),
    ),
    Claim(
        "clean-robust",
        source="Theorem 5.1(c)",
        says="The direction -y Mw*, which depends on no network, flips nearly every point after clean training.",
        quantity="share of points still correct under -y Mw* at the radius max{k^-(0.5+10c), √d/k²}",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=at_stage("clean", "universal_far"),
        premises=requires(*MIXED),
        note=lambda rows: f"the pure network keeps {at_stage('pure', 'universal_far')(rows).mean():.2f}",
    ),
    Claim(
        "empirical-robust",
        source="Theorem 5.3(a)",
        says="After adversarial training nearly every point withstands the attack that training used.",
        quantity="share of test points still correct under FGM of radius τ after adversarial training",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=at_stage("adversarial", "fgm"),
        ceiling=ceiling("fgm"),
        premises=requires(*PURIFIED),
        note=_stages_note("fgm"),
    ),
    Claim(
        "adversarial-robust",
        source="Theorem 5.3(b)",
        says="After adversarial training from a random start nearly every point withstands every perturbation of length τ.",
        quantity="share of test points still correct under the strongest attack after adversarial training",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=at_stage("adversarial", "worst"),
        ceiling=ceiling("worst"),
        premises=requires(*PURIFIED),
        note=_stages_note("worst"),
    ),
    Claim(
        "robust-ceiling",
        source="Theorem 5.3(b)",
        says="Adversarial training is as robust as a network made of the true features.",
        quantity="robust accuracy after adversarial training ÷ that of the best pure network on the same points",
        bound=at_least(NEARLY_ALL),
        because="nine tenths of what is possible",
        value=lambda rows: at_stage("adversarial", "worst")(rows) / ceiling("worst")(rows),
        origin="featureprism",
        premises=requires(*PURIFIED),
    ),
    Claim(
        "robust",
        source="Corollary F.3",
        says="Adversarial training makes a network more robust than clean training does.",
        quantity="robust accuracy at τ, after adversarial minus after clean training",
        bound=above(0.0),
        because="the corollary says that one is robust where the other is not",
        value=gain("worst"),
        premises=requires(*GAINED),
        note=_stages_note("worst"),
    ),
    Claim(
        "held",
        source="Theorem 5.2(2)",
        says="After clean training every feature has a neuron that holds it alone.",
        quantity="share of the features that some neuron holds alone, after clean training",
        bound=at_least(NEARLY_ALL),
        because="Ω(d) neurons hold one feature each; nine tenths of the features is more than the theorem asks",
        value=at_stage("clean", "held"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "mostly-pure",
        source="(5.1)",
        says="After clean training a neuron is mostly one feature with a small dense mixture beside it.",
        quantity="largest |cosine| of a neuron with one feature, mean weighted by ‖w‖²",
        bound=at_least(HALF_ENERGY),
        because="at √½ half of the energy of a neuron is one feature",
        value=at_stage("clean", "purity"),
        premises=requires(*LEARNED),
        note="one feature and the mixture of the theorem alone have 1/√(1 + k²/d)",
    ),
    Claim(
        "height",
        source="Theorem 5.2(2), Remark C.3",
        says="The coefficient of a neuron's feature exceeds the height at which its smallest signal opens it twice.",
        quantity="mean coefficient of large neurons after clean training ÷ 2√k b",
        bound=above(1.0),
        because="Remark C.3 has α ≥ 2√k b; the d^-c of the theorem is that height with b√k → 0",
        value=lambda rows: at_stage("clean", "alpha")(rows) / (2 * at_stage("clean", "bias_cap")(rows)),
        premises=requires(*LEARNED),
    ),
    Claim(
        "purity-after",
        source="Section 3",
        says="Adversarial training turns the neurons into the pure features.",
        quantity="largest |cosine| of a neuron with one feature after adversarial training, mean weighted by ‖w‖²",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=at_stage("adversarial", "purity"),
        premises=requires(*PURIFIED),
        headline=True,
    ),
    Claim(
        "mixture-ratio",
        source="Section 5.1",
        says="Adversarial training removes most of the dense mixture from the neurons.",
        quantity="dense mixture β/α of large neurons, before ÷ after adversarial training",
        bound=at_least(2.0),
        because="most is at least one half",
        value=lambda rows: at_stage("clean", "mixture")(rows) / at_stage("adversarial", "mixture")(rows),
        premises=requires(*PURIFIED),
    ),
    Claim(
        "start",
        source="Section 1",
        says="Clean training turns neurons far away from where they started.",
        quantity="|cosine| of a neuron before and after clean training, mean weighted by ‖w‖²",
        bound=at_most(0.2),
        because="Figure 2 of the paper has at most 0.2",
        value=moved("start_to_clean"),
        premises=requires(*LEARNED),
        reported=0.2,
    ),
    Claim(
        "same-feature-printed",
        source="Section 1",
        says="Adversarial training keeps the features that clean training found.",
        quantity="|cosine| of a neuron before and after adversarial training, mean weighted by ‖w‖²",
        bound=at_least(0.8),
        because="Figure 2 of the paper has at least 0.8",
        value=moved("clean_to_adversarial"),
        premises=requires(*PURIFIED),
        reported=0.8,
        headline=True,
    ),
    Claim(
        "pairs",
        source="Section 1",
        says="Two neurons of a network after clean training have little in common.",
        quantity="|cosine| of two neurons that fire, median over pairs",
        bound=at_most(0.2),
        because="Figure 2 of the paper has at most 0.2",
        value=moved("pairs_clean"),
        premises=requires(*LEARNED),
        reported=0.2,
    ),
    Claim(
        "far-from-start",
        source="Theorem 5.1(a)",
        says="After clean training the weights have almost nothing in common with the initial weights.",
        quantity="squared overlap of neurons with their initial weights",
        formula=r"\sum_i \langle w_i, w_i^{(0)}\rangle^2 / \sum_i \lVert w_i\rVert^2 \lVert w_i^{(0)}\rVert^2 = o(1)",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=moved("kept_from_start"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "global-features",
        source="Theorem 5.1(a)",
        says="After clean training the neurons span many directions and not a few.",
        quantity="squared overlap of all pairs of neurons; 1/d for equal and orthogonal features",
        formula=r"\sum_{i,j} \langle w_i, w_j\rangle^2 / (\sum_i \lVert w_i\rVert^2)^2 = o(1)",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=moved("together"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "drift",
        source="Theorem 5.3(c)",
        says="Adversarial training changes the weights of a network trained from a random start only a little.",
        quantity="relative squared change of the weights in adversarial training",
        formula=r"\sum_i \lVert w_i' - w_i\rVert^2 / \sum_i \lVert w_i\rVert^2 = o(1)",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=moved("drift"),
        premises=requires(*PURIFIED),
        note=_drift_note,
    ),
)


def draw(rows: Rows) -> Any:
    """Robust accuracy against the radius, and how fast the coefficients of a neuron fall off."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels
    from featureprism.papers.feature_purification.drawing import STAGES as NAMES

    figure, (left, right) = panels(2, width=4.2, height=3.2)
    for colour, (stage, text) in zip(COLOURS, NAMES.items(), strict=False):
        x, low, middle, high = over_seeds(rows.of("curve", stage=stage), "curve_radius", "worst")
        band(left, x, low, middle, high, colour, text, dashed=stage == "pure")
        own = rows.of("profile", stage=stage)
        if len(own):
            band(right, *over_seeds(own, "rank", "size"), colour, None)
    left.set(xlabel="ℓ2 radius τ", ylabel="robust accuracy (all attacks)", ylim=(0, 1.03))
    right.set(
        xscale="log", yscale="log", xlabel="rank of a feature in a neuron", ylabel="share of the largest"
    )
    left.legend(fontsize=7)
    return figure


PURIFICATION = Experiment(
    id="feature-purification/purification",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.2, 5.3",
    title="Which features neurons keep, and what adversarial training takes away",
    scales=scales(Battery),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "A network of smoothed neurons on sparse coding data as in Assumption 2.1, from a small random start: clean"
        " training to rest with a"
        " bias that grows twenty times slower than a winner, then adversarial training, beside as many more clean"
        " steps. Robust accuracy"
        " is the least over the universal direction, FGM and PGD from several starts, beside the best pure network on the same points."
    ),
)
