"""Assumption 2.1 without conditioning, where many points lie next to a tie."""

from featureprism.networks import LinearClassifier, SymmetricNet
from featureprism.papers.feature_purification.purification import (
    average,
    minus,
    of_stage,
    over,
    premise_rows,
    shape_row,
    theory_setting,
)
from featureprism.papers.feature_purification.setting import (
    PAPER,
    QUICK,
    STANDARD,
    coding,
    probe_points,
    pure_start,
    robustness,
    start,
    test_set,
    train,
    trained,
)
from featureprism.probes import purification as probes
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of
from featureprism.theory import feature_purification as theory
from featureprism.training import Phase


def printed_phases(setting: Row) -> list[Phase]:
    """Phases I.1 and I.2 with the printed constants, every Θ(1) set to 1; step sizes as in our own schedule."""
    s = theory.printed_schedule(theory_setting(setting), setting["start"])
    rules = {
        "step_size": setting["step_size"],
        "step_per_bias": setting["step_per_bias"] * setting["dim"],
        "bias_growth": s.bias_growth,
        "bias_cap": s.bias_cap,
    }
    first = setting["steps"] // 8
    return [
        Phase(first, smoothing=s.smoothing_first, **rules),
        Phase(first, smoothing=s.smoothing_later, **rules),
    ]


def as_printed(setting: Row, seed: int) -> SymmetricNet:
    """The network that the printed constants give."""
    s = theory.printed_schedule(theory_setting(setting), setting["start"])
    begin = start(setting, seed)
    net = SymmetricNet(begin.W, s.start_bias, s.smoothing_first * s.start_bias)
    return train(
        {**setting, "penalty": s.penalty * setting["dim"]}, net, printed_phases(setting), seed, "printed"
    ).last


def measure_strict(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Assumption 2.1 without conditioning: everything relative to the pure network."""
    problem, test, seen = coding(setting, seed), test_set(setting, seed), probe_points(setting, seed)
    rows: list[Row] = [{"kind": "sample", "tie_share": test.tie_share, "acceptance": test.acceptance}]
    nets = {stage: trained(setting, seed, stage) for stage in ("clean", "adversarial")}
    printed = as_printed(setting, seed)
    rows.append({"kind": "printed", "alive": int((probes.firing(printed, seen) > 0).sum())})
    progress(0.5)
    for stage, net in {**nets, "pure": pure_start(setting, seed)}.items():
        facts = robustness(net, test, problem, setting, seed).row
        rows.append({"kind": "network", "stage": stage, **facts, **shape_row(net, seen, problem)})
    linear = LinearClassifier(problem.dense_direction.double()).exact_radius(test.x.double(), test.y.double())
    rows.append(
        {
            "kind": "network",
            "stage": "linear",
            "clean": float((linear > 0).double().mean()),
            "worst": float((linear > setting["radius"]).double().mean()),
        }
    )
    progress(1.0)
    return rows + premise_rows(setting, problem, test)


def _relative(rows: list[Row], stage: str, key: str) -> list[float]:
    return over(of_stage(rows, stage, key), of_stage(rows, "pure", key))


def _claims_strict(rows: list[Row]) -> list[Claim]:
    ties = average([r["tie_share"] for r in rows_of(rows, "sample")])
    top = average(of_stage(rows, "pure", "clean"))
    return [
        judge(
            "strict.clean-accuracy",
            "Theorem 5.1(b)",
            "accuracy of the clean network ÷ that of the pure network",
            _relative(rows, "clean", "clean"),
            ">=",
            0.95,
            f"ties are {ties:.1%} of all draws and count as +1; the pure network reaches {top:.3f}",
        ),
        judge(
            "strict.gain",
            "Theorem 5.3",
            "robust accuracy relative to the pure network: adversarial minus clean training",
            minus(_relative(rows, "adversarial", "worst"), _relative(rows, "clean", "worst")),
            ">",
            0.2,
            f"without attack the adversarially trained network has {average(of_stage(rows, 'adversarial', 'clean')):.2f}",
        ),
        judge(
            "strict.purity",
            "Theorem 5.3",
            "norm-weighted purity: adversarial minus clean training",
            minus(of_stage(rows, "adversarial", "purity"), of_stage(rows, "clean", "purity")),
            ">",
            0.2,
        ),
        judge(
            "strict.printed",
            "Section 4, Definitions C.6 and C.12",
            "neurons alive under the printed schedule with every Θ(1) set to 1",
            [r["alive"] for r in rows_of(rows, "printed")],
            "<=",
            0.0,
            "the bias outruns all of them: its rate must stay well below that of the winners",
        ),
    ]


def _strict(base: Row) -> Row:
    """Smaller margins pull less: a slower bias, and longer steps to take it to its cap, short of which Algorithm 2 collapses."""
    return {
        **base,
        "margin": 0.0,
        "ties": "positive",
        "bias_growth": 0.06,
        "step_per_bias": 0.08,
        "steps": 7 * base["steps"] // 5,
    }


STRICT = Experiment(
    id="feature-purification/strict",
    source="Allen-Zhu & Li 2020, Assumption 2.1",
    title="The same without conditioning: relative to what a pure network can reach",
    scales={"quick": [_strict(QUICK)], "standard": [_strict(STANDARD)], "paper": [_strict(PAPER)]},
    measure=measure_strict,
    claims=_claims_strict,
    about=(
        "Independent coordinates as in Assumption 2.1, ties labelled +1 as printed. Many points lie next to a tie, where no network is"
        " right under attack: accuracies stand relative to those of the pure network."
    ),
)
