"""Simpler models: linear, cubic, thresholds, tangent features, each trained clean and adversarially; and figure 3."""

import math
from collections.abc import Callable

import torch
from torch import nn

from featureprism.data import SparseCoding, SparseSample
from featureprism.networks import (
    CubicNet,
    IndicatorClassifier,
    LinearClassifier,
    TangentNet,
    pure_net,
)
from featureprism.papers.feature_purification.purification import minus, over, theory_setting
from featureprism.papers.feature_purification.setting import (
    PAPER,
    QUICK,
    STANDARD,
    accuracy,
    coding,
    draws,
    fast_gradient,
    pure_start,
    robustness,
    test_set,
    trained,
)
from featureprism.records import Claim, Experiment, Progress, Row, judge, rows_of, seeds_of
from featureprism.seeds import generator_for
from featureprism.theory import feature_purification as theory
from featureprism.training import logistic_descent

THRESHOLDS = {"linear": 0.0, "indicator": 0.5, "soft": 0.25}  # of Section 3, in units of 1/√k
NOISES = (0.0, 0.25, 0.5, 0.75, 1.0)
ACCURACY_POINTS = 4000  # for accuracies without attack
CURVE = torch.linspace(-1, 1, 81, dtype=torch.float64)
LONG_RADIUS = 3.0  # in units of 1/√d: where linear classifiers are broken


def _models(problem: SparseCoding, setting: Row, seed: int) -> dict[str, Callable[[], nn.Module]]:
    """Untrained models by name; the step size is the same for all of them."""
    d, width = setting["dim"], setting["tangent_width"]
    W = torch.randn(width, d, generator=generator_for("tangent", seed))
    zeros = torch.zeros(d)

    def tangent(W: torch.Tensor, as_printed: bool) -> nn.Module:
        return TangentNet(W, torch.zeros_like(W), 0.5, 0.5, as_printed=as_printed)

    return {
        "linear": lambda: LinearClassifier(zeros),
        "cubic": lambda: CubicNet(problem.M, zeros, zeros),
        "ntk": lambda: tangent(W, False),
        "ntk as printed": lambda: tangent(W[: width // 4], True),  # even, hence at chance whatever its width
    }


def measure_baselines(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Accuracies without and under attack of every model, beside the pure and the purified network."""
    problem, test, p = coding(setting, seed), test_set(setting, seed), setting["norm"]
    rows: list[Row] = []
    models = _models(problem, setting, seed)
    for index, (name, make) in enumerate(models.items()):
        for training in ("clean", "adversarial"):
            net = make()
            adversary = fast_gradient(setting, p) if training == "adversarial" else None
            draw = draws({**setting, "batch": setting["baseline_batch"]}, seed, f"{name} {training}")
            logistic_descent(
                net,
                draw,
                steps=setting["baseline_steps"],
                step_size=setting["baseline_rate"],
                perturb=adversary,
            )
            facts = _facts(net, test, problem, setting, seed)
            rows.append({"kind": "model", "model": name, "training": training, **facts})
        progress((index + 1) / (len(models) + 1))
    k = setting["sparsity"]
    fixed: dict[str, nn.Module] = {
        "linear w*": LinearClassifier(problem.dense_direction),
        "cubic w*": CubicNet(problem.M, torch.zeros_like(problem.w), problem.w),
        "indicator": IndicatorClassifier(problem.M, problem.w, 0.5 / math.sqrt(k)),
        "soft": pure_start(setting, seed),
    }
    if setting["family"] == "main":
        fixed |= {f"network, {stage}": trained(setting, seed, stage) for stage in ("clean", "adversarial")}
    for name, net in fixed.items():
        rows.append(
            {"kind": "model", "model": name, "training": "none", **_facts(net, test, problem, setting, seed)}
        )
    progress(1.0)
    if setting["family"] == "main":
        return rows
    return rows + [
        q.as_row() for q in theory.lower_bound_premises(theory_setting(setting), setting["radius"])
    ]


def _facts(net: nn.Module, test: SparseSample, problem: SparseCoding, setting: Row, seed: int) -> Row:
    """Accuracies; exact for a linear model, whose distance to the boundary is |f|/‖w‖_q."""
    if isinstance(net, LinearClassifier):
        w = net.w.detach().double()
        size = torch.linalg.vector_norm(w, ord=2 if setting["norm"] == 2 else 1)
        margin = test.y.double() * (test.x.double() @ w)
        worst = float((margin > setting["radius"] * size).double().mean())
        return {"clean": float((margin > 0).double().mean()), "worst": worst, "exact": True}
    facts = robustness(net, test, problem, setting, seed, p=setting["norm"]).row
    many = test_set({**setting, "test_points": ACCURACY_POINTS}, seed)
    attacked = {key: facts[key] for key in ("universal", "fgm", "pgd", "worst")}
    return {"clean": accuracy(net, many.x, many.y), **attacked}


def _values(rows: list[Row], family: str, model: str, training: str, key: str = "worst") -> list[float]:
    return [r[key] for r in rows_of(rows, "model", family=family, model=model, training=training)]


def _best(rows: list[Row], family: str, model: str) -> list[float]:
    pairs = zip(*(_values(rows, family, model, t) for t in ("clean", "adversarial")), strict=True)
    return [max(pair) for pair in pairs]


def _claims_baselines(rows: list[Row]) -> list[Claim]:
    purified, ntk = _values(rows, "main", "network, adversarial", "none"), _best(rows, "main", "ntk")
    soft, short = _values(rows, "theorem 5.6", "soft", "none"), _best(rows, "theorem 5.6", "ntk")
    cubic = sum(_best(rows, "main", "cubic")) / max(1, len(seeds_of(rows)))
    ntk_mean = sum(_values(rows, "main", "ntk", "adversarial")) / max(1, len(seeds_of(rows)))
    return [
        judge(
            "baselines.linear",
            "Section 3",
            "exact robust accuracy of a linear classifier, the better of clean and adversarial training",
            _best(rows, "main", "linear"),
            "<=",
            0.15,
        ),
        judge(
            "baselines.ntk-even",
            "Definition 5.5",
            "accuracy of the tangent features as printed, trained clean",
            _values(rows, "main", "ntk as printed", "clean", "clean"),
            "in",
            (0.45, 0.55),
            "an even function cannot fit odd labels; the true tangent has a plus sign",
        ),
        judge(
            "baselines.ntk-clean",
            "Theorem 5.6",
            "robust accuracy of the true tangent features, trained clean",
            _values(rows, "main", "ntk", "clean"),
            "<=",
            0.3,
        ),
        judge(
            "baselines.ntk-adversarial",
            "Theorem 5.6",
            "robust accuracy of the true tangent features: adversarial minus clean training",
            minus(*(_values(rows, "main", "ntk", t) for t in ("adversarial", "clean"))),
            ">",
            0.1,
            f"that they stay as they are does not show at this size: {ntk_mean:.2f} after adversarial training, and {cubic:.2f}"
            " for the cubic polynomial",
        ),
        judge(
            "baselines.network",
            "Theorem 5.6",
            "robust accuracy of the purified network minus that of the best tangent features",
            minus(purified, ntk),
            ">",
            0.0,
        ),
        judge(
            "baselines.lower-bound",
            "Theorem 5.6",
            "without noise, ℓ∞: robust accuracy of the best tangent features ÷ that of the soft threshold",
            over(short, soft),
            "<=",
            0.6,
        ),
    ]


def measure_3(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """What the three units let through, and how the classifiers built from them stand noise and attack."""
    problem, k, d = coding(setting, seed), setting["sparsity"], setting["dim"]
    b = {name: share / math.sqrt(k) for name, share in THRESHOLDS.items()}
    rows: list[Row] = []
    units = {
        "linear": CURVE,
        "indicator": CURVE * (CURVE.abs() >= b["indicator"]),
        "soft": torch.relu(CURVE - b["soft"]) - torch.relu(-CURVE - b["soft"]),
    }
    for name, values in units.items():
        rows += [
            {"kind": "unit", "model": name, "input": t, "output": v}
            for t, v in zip(CURVE.tolist(), values.tolist(), strict=True)
        ]
    nets: dict[str, nn.Module] = {
        "linear": LinearClassifier(problem.dense_direction),
        "indicator": IndicatorClassifier(problem.M, problem.w, b["indicator"]),
        "soft": pure_net(problem.M, problem.w, b["soft"]),
    }
    for noise in NOISES:
        noisy = {**setting, "noise": noise}
        test = test_set(noisy, seed)
        for name, net in nets.items():
            rows.append(
                {"kind": "noise", "model": name, "sigma": noise, "accuracy": accuracy(net, test.x, test.y)}
            )
    progress(0.3)
    test, radius = test_set(setting, seed), LONG_RADIUS / math.sqrt(d)
    for name, net in nets.items():
        facts = _facts(net, test, problem, {**setting, "radius": radius, "norm": 2}, seed)
        rows.append({"kind": "model", "model": name, "training": "none", **facts})
    noise = (
        setting["noise"]
        / math.sqrt(d)
        * torch.randn(100_000, generator=generator_for("noise", seed)).double()
    )
    passed = torch.relu(noise - b["soft"]) - torch.relu(-noise - b["soft"])
    rows.append({"kind": "passed", "share": float((passed**2).mean() / (noise**2).mean())})
    progress(1.0)
    return rows


def _claims_3(rows: list[Row]) -> list[Claim]:
    def accuracies(model: str, key: str) -> list[float]:
        return [r[key] for r in rows_of(rows, "model", model=model)]

    at = f"τ = {LONG_RADIUS:g}/√d"
    return [
        judge(
            "figure-3.noise",
            "Section 3, figure 3",
            "share of the noise variance that passes the soft threshold ReLU(u - b) - ReLU(-u - b)",
            [r["share"] for r in rows_of(rows, "passed")],
            "<=",
            0.1,
        ),
        judge(
            "figure-3.linear",
            "Section 3",
            f"exact robust accuracy of ⟨Mw*, x⟩ at {at}",
            accuracies("linear", "worst"),
            "<=",
            0.15,
        ),
        judge(
            "figure-3.soft",
            "Section 3",
            f"robust accuracy of the soft threshold at {at}",
            accuracies("soft", "worst"),
            ">=",
            0.6,
        ),
    ]


_BASELINE: Row = {
    "family": "main",
    "norm": 2,
    "tangent_width": 600,
    "baseline_steps": 100,
    "baseline_batch": 200,
    "baseline_rate": 0.01,
    "test_points": 150,
}
# Theorem 5.6: M = I, no noise, an ℓ∞ ball; small, so that the m·d tangent features are many
_SHORT: Row = {
    "family": "theorem 5.6",
    "norm": math.inf,
    "dim": 40,
    "sparsity": 4,
    "large": 1.0,
    "small": 1.0,
    "noise": 0.0,
    "margin": 0.0,
    "radius": 0.1,
    "tangent_width": 120,
}


def _both(base: Row) -> list[Row]:
    return [{**base, **_BASELINE}, {**base, **_BASELINE, **_SHORT}]


BASELINES = Experiment(
    id="feature-purification/baselines",
    source="Allen-Zhu & Li 2020, Section 3, Theorem 5.6, Corollary 5.7",
    title="Simpler models: linear ones and tangent features break, a cubic comes close to the network",
    scales={"quick": _both(QUICK), "standard": _both(STANDARD), "paper": _both(PAPER)},
    measure=measure_baselines,
    claims=_claims_baselines,
    about=(
        "Each model trained clean and with FGM on the data of the main battery (ℓ2), and on small noiseless data in the ℓ∞ ball of"
        " Theorem 5.6. Linear accuracies are exact, others the minimum over the attacks."
    ),
)
FIGURE_3 = Experiment(
    id="feature-purification/figure-3",
    source="Allen-Zhu & Li 2020, Figure 3",
    title="A threshold keeps the signal and drops the noise; a linear unit cannot",
    scales={
        name: [{**base, "large": 1.0, "small": 1.0}]
        for name, base in (("quick", QUICK), ("standard", STANDARD), ("paper", PAPER))
    },
    measure=measure_3,
    claims=_claims_3,
    about="The classifiers of Section 3, built from the dictionary and not trained: accuracy against noise, and under attack.",
)
