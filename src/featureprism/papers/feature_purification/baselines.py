"""Simpler models: linear, cubic, thresholds, tangent features, each trained clean and adversarially."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from featureprism.context import Context
from featureprism.data import SparseCoding
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most, requires
from featureprism.networks import (
    CubicNet,
    IndicatorClassifier,
    LinearClassifier,
    TangentNet,
)
from featureprism.papers.feature_purification.measures import Bench, bench
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    SIZES,
    Setting,
    accuracy,
    draws,
    extended,
    fast_gradient,
    pure_start,
    robustness,
    trained,
)
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.theory import feature_purification as theory
from featureprism.training import logistic_descent

ACCURACY_POINTS = 4000  # for accuracies without attack
BETTER = "the better of clean and adversarial training"


@dataclass(frozen=True, kw_only=True)
class Baselines(Setting):
    """Data of the "main" battery or of "theorem 5.6", the norm of the ball, and how the models are trained."""

    family: str = "main"
    norm: float = 2.0
    tangent_width: int = 400
    baseline_steps: int = 100
    baseline_batch: int = 200
    baseline_rate: float = 0.01


def _models(problem: SparseCoding, s: Baselines, seed: int) -> dict[str, Callable[[], nn.Module]]:
    """Untrained models by name; the step size is the same for all of them."""
    W = torch.randn(s.tangent_width, s.dim, generator=generator_for("tangent", seed))
    zeros = torch.zeros(s.dim)

    def tangent(W: Tensor, as_printed: bool) -> nn.Module:
        return TangentNet(W, torch.zeros_like(W), 0.5, 0.5, as_printed=as_printed)

    return {
        "linear": lambda: LinearClassifier(zeros),
        "cubic": lambda: CubicNet(problem.M, zeros, zeros),
        "ntk": lambda: tangent(W, False),
        # even, hence at chance whatever its width
        "ntk as printed": lambda: tangent(W[: s.tangent_width // 4], True),
    }


def measure(s: Baselines, seed: int, context: Context) -> list[Row]:
    """Accuracies without and under attack of every model, beside the pure and the purified network."""
    on = bench(s, seed, ACCURACY_POINTS)
    smaller = replace(s, batch=s.baseline_batch)
    nets: list[tuple[str, str, nn.Module]] = []
    models = _models(on.problem, s, seed)
    for index, (name, make) in enumerate(models.items()):
        for training in ("clean", "adversarial"):
            net, draw = make(), draws(smaller, seed, f"{name} {training}")
            adversary = fast_gradient(s, s.norm) if training == "adversarial" else None
            logistic_descent(net, draw, steps=s.baseline_steps, step_size=s.baseline_rate, perturb=adversary)
            nets.append((name, training, net))
        context.progress((index + 1) / (len(models) + 1))
    nets += [(name, "none", net) for name, net in _fixed(on.problem, s, seed).items()]
    rows: list[Row] = [
        {"kind": "model", "model": name, "training": training, **accuracies(net, on, s, seed, s.norm)}
        for name, training, net in nets
    ]
    return rows + [premise.as_row() for premise in theory.lower_bound_premises(s, on.problem.M)]


def _fixed(problem: SparseCoding, s: Baselines, seed: int) -> dict[str, nn.Module]:
    """Classifiers that know M and w*, and the networks of the main battery."""
    nets: dict[str, nn.Module] = {
        "linear w*": LinearClassifier(problem.dense_direction),
        "cubic w*": CubicNet(problem.M, torch.zeros_like(problem.w), problem.w),
        "indicator": IndicatorClassifier(problem.M, problem.w, 0.5 / math.sqrt(s.sparsity)),
        "soft": pure_start(s, seed),
    }
    if s.family == "main":
        nets |= {f"network, {stage}": trained(s, seed, stage) for stage in ("clean", "adversarial")}
    return nets


def accuracies(net: nn.Module, on: Bench, s: Setting, seed: int, norm: float) -> Row:
    """Without and under attack; exact for a linear model, whose distance to the boundary is |f|/‖w‖_q."""
    if isinstance(net, LinearClassifier):
        w = net.w.detach().double()
        size = torch.linalg.vector_norm(w, ord=2 if norm == 2 else 1)
        margin = on.test.y.double() * (on.test.x.double() @ w)
        worst = float((margin > s.radius * size).double().mean())
        return {"clean": float((margin > 0).double().mean()), "worst": worst, "exact": True}
    row = robustness(net, on.test, on.problem, s, seed, p=norm).row
    attacked = {key: row[key] for key in ("universal", "fgm", "pgd", "worst")}
    return {"clean": accuracy(net, on.many.x, on.many.y), **attacked}


def robust(family: str, model: str, training: str = "none") -> Callable[[Rows], Values]:
    """The robust accuracy of a model."""
    chosen = {"family": family, "model": model, "training": training}
    return lambda rows: rows.of("model", **chosen).per_seed("worst")


def best(family: str, model: str) -> Callable[[Rows], Values]:
    """The robust accuracy of a model, the better of clean and adversarial training."""
    clean, adversarial = (robust(family, model, training) for training in ("clean", "adversarial"))
    return lambda rows: np.maximum(clean(rows), adversarial(rows))


def _half(name: str, source: str, model: str, value: Callable[[Rows], Values], family: str = "main") -> Claim:
    """Robust error of at least (1 - o(1))/2."""
    return Claim(
        name,
        source,
        f"robust accuracy is at most one half: {model}",
        value,
        at_most(0.5),
        reported=0.5,
        note="an order for large d",
        premises=requires("theorem-5-6", "theorem-g-1", family=family),
    )


def _linear_note(rows: Rows) -> str:
    soft, clean = robust("main", "soft")(rows).mean(), robust("main", "linear", "clean")(rows).mean()
    return f"{clean:.2f} trained clean; the pure network has {soft:.2f}: without points near a tie it would be 0.1"


CLAIMS = (
    Claim(
        "linear",
        "Section 3",
        f"a linear classifier is broken at τ = 1.5/√d: exact robust accuracy at most one half, {BETTER}",
        best("main", "linear"),
        at_most(0.5),
        note=_linear_note,
    ),
    _half("ntk-clean", "Theorem 5.6", "tangent features, trained clean", robust("main", "ntk", "clean")),
    _half(
        "ntk-adversarial",
        "Theorem 5.6",
        "tangent features, trained adversarially",
        robust("main", "ntk", "adversarial"),
    ),
    _half("cubic", "Corollary 5.7", f"cubic, {BETTER}", best("main", "cubic")),
    _half(
        "cubic-noiseless",
        "Corollary 5.7",
        f"cubic, without noise, ℓ∞, {BETTER}",
        best("theorem 5.6", "cubic"),
        "theorem 5.6",
    ),
    Claim(
        "ntk-gain",
        "finding",
        "adversarial training helps fixed features too: robust accuracy of the tangent features minus that of clean training",
        lambda rows: robust("main", "ntk", "adversarial")(rows) - robust("main", "ntk", "clean")(rows),
        above(0.1),
        origin="featureprism",
    ),
    Claim(
        "network",
        "Theorem 5.6",
        "robust accuracy of the purified network minus that of the best tangent features",
        lambda rows: robust("main", "network, adversarial")(rows) - best("main", "ntk")(rows),
        above(0.0),
        premises=requires("theorem-5-6", "theorem-g-1", family="main"),
    ),
    _half(
        "lower-bound",
        "Theorem 5.6",
        f"tangent features, without noise, ℓ∞, {BETTER}",
        best("theorem 5.6", "ntk"),
        "theorem 5.6",
    ),
)


def _both(base: Setting) -> list[Baselines]:
    """The data of the main battery; and of Theorem 5.6, small, so that the m·d tangent features are many."""
    main = extended(base, Baselines, test_points=150)
    small = replace(
        main,
        family="theorem 5.6",
        norm=math.inf,
        dim=40,
        sparsity=4,
        large=1.0,
        small=1.0,
        noise=0.0,
        margin=0.0,
        radius=0.1,
        tangent_width=120,
    )
    return [main, small]


BASELINES = Experiment(
    id="feature-purification/baselines",
    source="Allen-Zhu & Li 2020, Section 3, Theorem 5.6, Corollary 5.7",
    title="Simpler models: linear ones and tangent features break, a cubic comes close to the network",
    scales={scale: _both(base) for scale, base in SIZES.items()},
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "Each model trained clean and with FGM on the data of the main battery (ℓ2), and on small noiseless data in the ℓ∞ ball of"
        " Theorem 5.6. Linear accuracies are exact, others the minimum over the attacks. The tangent features of Definition 5.5 are"
        " even as printed, and at chance; the true ones have a plus sign."
    ),
)
