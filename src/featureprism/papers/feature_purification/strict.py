"""Assumption 2.1 without conditioning, where many points lie next to a tie."""

from collections.abc import Callable
from dataclasses import replace

from featureprism.context import Context
from featureprism.experiment import Claim, Experiment, Rows, Values, above, at_least, under
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    LEARNED,
    PURIFIED,
    at_stage,
    bench,
    gain,
    linear_radii,
    network_row,
    premise_rows,
)
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    SIZES,
    Setting,
    pure_start,
    start,
    train,
    trained,
)
from featureprism.probes import purification as probes
from featureprism.records import Row
from featureprism.theory import feature_purification as theory
from featureprism.training import Phase


def as_printed(s: Setting, seed: int) -> SymmetricNet:
    """The network after Phases I.1 and I.2 with the printed constants, every Θ(1) set to 1; step sizes as in our own schedule."""
    printed = theory.printed_schedule(s, s.start)
    net = SymmetricNet(start(s, seed).W, printed.start_bias, printed.smoothing_first * printed.start_bias)
    phases = [
        Phase(
            s.steps // 8,
            step_size=s.step_size,
            smoothing=smoothing,
            step_per_bias=s.step_per_bias * s.dim,
            bias_growth=printed.bias_growth,
            bias_cap=printed.bias_cap,
        )
        for smoothing in (printed.smoothing_first, printed.smoothing_later)
    ]
    return train(replace(s, penalty=printed.penalty * s.dim), net, phases, seed, "printed").last


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """Assumption 2.1 without conditioning: everything relative to the pure network."""
    on = bench(s, seed)
    rows: list[Row] = [{"kind": "sample", "tie_share": on.test.tie_share, "acceptance": on.test.acceptance}]
    nets = {stage: trained(s, seed, stage) for stage in ("clean", "adversarial")}
    alive = int((probes.firing(as_printed(s, seed), on.many.x) > 0).sum())
    rows.append({"kind": "printed", "alive": alive})
    context.progress(0.5)
    nets["pure"] = pure_start(s, seed)
    rows += [network_row(stage, net, on, s, seed) for stage, net in nets.items()]
    linear = linear_radii(on.problem, on.test)
    floor = {
        name: float((linear > radius).double().mean()) for name, radius in (("clean", 0), ("worst", s.radius))
    }
    rows.append({"kind": "network", "stage": "linear", **floor})
    return rows + premise_rows(s, on.problem, on.test)


def relative(stage: str, key: str) -> Callable[[Rows], Values]:
    """What the network of a stage reaches of what the pure network reaches."""
    return lambda rows: at_stage(stage, key)(rows) / at_stage("pure", key)(rows)


def _ties_note(rows: Rows) -> str:
    ties, top = rows.of("sample").column("tie_share").mean(), at_stage("pure", "clean")(rows).mean()
    return f"ties are {ties:.1%} of all draws and count as +1; the pure network reaches {top:.3f}"


def _accuracy_note(rows: Rows) -> str:
    return f"without attack the adversarially trained network has {at_stage('adversarial', 'clean')(rows).mean():.2f}"


CLAIMS = (
    Claim(
        "clean-accuracy",
        "Theorem 5.1(b)",
        "accuracy of the clean network ÷ that of the pure network",
        relative("clean", "clean"),
        at_least(0.95),
        note=_ties_note,
        premises=under(*LEARNED),
    ),
    Claim(
        "gain",
        "Theorems 5.1(c) and 5.3(b)",
        "robust accuracy relative to the pure network: adversarial minus clean training",
        lambda rows: relative("adversarial", "worst")(rows) - relative("clean", "worst")(rows),
        above(0.2),
        note=_accuracy_note,
        premises=under(*PURIFIED),
    ),
    Claim(
        "purity",
        "Section 3",
        "norm-weighted purity: adversarial minus clean training",
        gain("purity"),
        above(0.2),
        premises=under(*PURIFIED),
    ),
    Claim(
        "printed",
        "Section 4, Definitions C.6 and C.12",
        "neurons win features under the printed schedule, every Θ(1) set to 1: neurons alive after Phases I.1 and I.2",
        lambda rows: rows.of("printed").per_seed("alive"),
        at_least(1.0),
        note="the bias outruns all of them: its rate must stay well below that of the winners",
        premises=under("assumption-2-1", "section-2", "theorem-c-2"),
    ),
)


def _strict(base: Setting) -> Setting:
    """Smaller margins pull less: a slower bias, and longer steps to take it to its cap, short of which Algorithm 2 collapses."""
    return replace(
        base,
        margin=0.0,
        ties="positive",
        bias_growth=0.06,
        step_per_bias=0.08,
        steps=7 * base.steps // 5,
    )


STRICT = Experiment(
    id="feature-purification/strict",
    source="Allen-Zhu & Li 2020, Assumption 2.1",
    title="The same without conditioning: relative to what a pure network can reach",
    scales={scale: [_strict(base)] for scale, base in SIZES.items()},
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "Independent coordinates as in Assumption 2.1, ties labelled +1 as printed. Many points lie next to a tie, where no network is"
        " right under attack: accuracies stand relative to those of the pure network."
    ),
)
