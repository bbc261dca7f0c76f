"""Theorem 5.6 and Corollary 5.7: linear, polynomial and tangent models trained to rest, beside a network on the same data."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from featureprism.attacks import Along, along, fgm, pgd
from featureprism.attacks.gradient import FastGradient
from featureprism.data import SparseCoding, SparseSample, sample_sparse
from featureprism.data.sparse_coding import dictionary_norms
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, above, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import LinearClassifier, SymmetricNet
from featureprism.networks.low_complexity import CubicNet, PolynomialKernel, TangentNet
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.measures import LEARNED, Bench, premise_rows
from featureprism.papers.feature_purification.setting import (
    TWIN_SMOOTHING,
    Battery,
    clean_phase,
    coding,
    fast_gradient,
    in_double,
    later_phase,
    pure_start,
    start,
    train,
)
from featureprism.seeds import generator_for
from featureprism.training import from_pool
from featureprism.training.adversarial import logistic_descent

MODELS = {
    "linear": ("Corollary 5.7", "A linear classifier"),
    "cubic": ("Corollary 5.7", "A classifier that is a cubic of each true feature"),
    "degree 3": ("Corollary 5.7", "A polynomial kernel of degree 3"),
    "degree 5": ("Corollary 5.7", "A polynomial kernel of degree 5"),
    "tangent": ("Theorem 5.6", "A model of the neural tangent features"),
}
JUDGED = 2000  # points of the pool on which a loss is judged
RATES = (0.03, 0.01, 0.003)  # of Adam, one third of the steps each


@dataclass(frozen=True, kw_only=True)
class LowerBoundSetting(Battery):
    """Small noiseless data inside the premises of Theorems 5.4 and 5.6, ℓ∞."""

    pool: int = 10000
    tangent_width: int = 80
    anchors: int = 400  # of the polynomial kernels; fewer make weaker opponents
    model_steps: int = 360
    model_batch: int = 200


def _model(
    name: str, problem: SparseCoding, s: LowerBoundSetting, pool: SparseSample, seed: int
) -> nn.Module:
    """Untrained: linear, separable cubic in the true features, polynomial kernels on points of the pool, tangent features."""
    zeros = torch.zeros(s.dim)
    if name == "linear":
        return LinearClassifier(zeros)
    if name == "cubic":
        return CubicNet(problem.M, zeros, zeros)
    if name.startswith("degree"):
        return PolynomialKernel(pool.x[: s.anchors], int(name.removeprefix("degree ")))
    W = torch.randn(s.tangent_width, s.dim, generator=generator_for("tangent", seed))
    return TangentNet(W, torch.zeros_like(W), 0.5, 0.5)


def _rested(
    name: str, training: str, s: LowerBoundSetting, problem: SparseCoding, pool: SparseSample, seed: int
) -> tuple[nn.Module, float]:
    """A model after Adam at falling rates, and how much the last third still lowered its loss on the pool."""
    net = _model(name, problem, s, pool, seed)
    points = from_pool(pool.x, pool.y, s.model_batch, generator=generator_for(f"{name} {training}", seed))
    adversary = FastGradient(LpBall(math.inf, s.radius)) if training == "adversarial" else None
    losses = []
    for step_size in RATES:
        steps = s.model_steps // len(RATES)
        logistic_descent(net, points, steps=steps, step_size=step_size, perturb=adversary)
        x, y = (pool.x[:JUDGED], pool.y[:JUDGED])
        if adversary is not None:
            x, y = adversary(net, x, y)
        with torch.no_grad():
            losses.append(float(torch.nn.functional.softplus(-y * net(x)).mean()))
    return net, losses[-2] - losses[-1]


def _accuracies(net: nn.Module, test: SparseSample, problem: SparseCoding, ball: LpBall) -> Row:
    """Without attack, and the least over the universal direction, FGM and PGD."""
    x, y, direction = test.x.double(), test.y.double(), problem.dense_direction.double()
    net = net.double()
    nets = [net]
    if isinstance(net, SymmetricNet):
        nets.append(in_double(net, TWIN_SMOOTHING * net.level))
    standing = torch.ones(len(x), dtype=torch.bool)
    for one in nets:
        for attack in (along(direction), fgm, partial(pgd, starts=(Along(direction),), steps=20)):
            delta = attack(one, x, y, ball).delta
            with torch.no_grad():
                standing &= y * net(x + delta) > 0
    with torch.no_grad():
        clean = float((y * net(x) > 0).double().mean())
    return {"clean": clean, "worst": float(standing.double().mean())}


def measure(s: LowerBoundSetting, seed: int, context: Context) -> list[Row]:
    """Robust accuracy of each model after clean and after adversarial training, beside a network after both and the pure one."""
    problem = coding(s, seed)
    pool = sample_sparse(problem, s.pool, generator=generator_for("train", seed))
    test = sample_sparse(problem, s.test_points, generator=generator_for("test", seed))
    ball, rows = LpBall(math.inf, s.radius), []
    for name in MODELS:
        for training in ("clean", "adversarial"):
            net, change = _rested(name, training, s, problem, pool, seed)
            row: Row = {"kind": "model", "model": name, "training": training, "change": change}
            rows.append({**row, **_accuracies(net, test, problem, ball)})
        context.progress(len(rows) / (2 * len(MODELS) + 2))
    clean = train(s, start(s, seed), [clean_phase(s)], seed, "clean").last
    robust = train(s, clean, [later_phase(s, fast_gradient(s, math.inf))], seed, "adversarial").last
    nets = {
        ("network", "clean"): clean,
        ("network", "adversarial"): robust,
        ("pure", "none"): pure_start(s, seed),
    }
    for (name, training), net in nets.items():
        row = {"kind": "model", "model": name, "training": training}
        rows.append({**row, **_accuracies(net, test, problem, ball)})
    premises = [
        *theory.linf_premises(s, dictionary_norms(problem.M), s.radius),
        *theory.lower_bound_premises(s, problem.M),
    ]
    on = Bench(problem, test, pool._replace(x=pool.x[:JUDGED], y=pool.y[:JUDGED], z=pool.z[:JUDGED]))
    return rows + [premise.as_row() for premise in premises] + premise_rows(s, on)


def _robust(model: str, training: str):
    def value(rows: Rows) -> Values:
        return rows.of("model", model=model, training=training).per_seed("worst")

    return value


def _better(model: str):
    """The better of clean and adversarial training."""
    return lambda rows: np.maximum(_robust(model, "clean")(rows), _robust(model, "adversarial")(rows))


def _ahead(rows: Rows) -> Values:
    best = np.max([_better(model)(rows) for model in MODELS], axis=0)
    return _robust("network", "adversarial")(rows) - best


def _rest_note(rows: Rows) -> str:
    part = rows.of("model").where(lambda row: "change" in row)
    return f"the last third of training lowers no loss by more than {part.column('change').max():.2f}"


LOW = ("theorem-5-6", "theorem-g-1")
HIGH = (*LEARNED, "theorem-5-3.time", "theorem-5-3.most-time", "theorem-5-4", "corollary-f-6")


def _half(model: str) -> Claim:
    source, subject = MODELS[model]
    return Claim(
        f"{model.replace(' ', '-')}-identity",
        source=source,
        says=f"{subject} is no better than a coin under attack, however it is trained.",
        quantity="share of points still correct in the ℓ∞ ball, the better of clean and adversarial training",
        bound=at_most(0.5),
        because="the robust error is at least (1 - o(1))/2",
        value=_better(model),
        reported=0.5,
        premises=requires(*LOW),
        note=_rest_note if model == "linear" else "the theorem is about large d",
    )


CLAIMS = (
    *(_half(model) for model in MODELS),
    Claim(
        "ahead",
        source="Theorems 5.4 and 5.6",
        says="A network after adversarial training is more robust than linear, polynomial and tangent-kernel models of the same data.",
        quantity="accuracy under the strongest of three ℓ∞ attacks: the network's minus that of the best of five such models",
        bound=above(0.0),
        because="the theorems say that one is robust and the others are not",
        value=_ahead,
        premises=requires(*LOW, *HIGH),
    ),
)


def draw(rows: Rows) -> Any:
    """Robust accuracy of every model."""
    from featureprism.lab.style import guide, panels
    from featureprism.papers.feature_purification.drawing import bars, mean

    figure, (axes,) = panels(1, width=7.0, height=3.4)
    models = rows.of("model").distinct("model")
    values = {
        training: [mean(rows.of("model", model=model, training=training), "worst") for model in models]
        for training in ("clean", "adversarial", "none")
    }
    bars(axes, models, values, "robust accuracy")
    guide(axes, 0.5, "one half")
    return figure


QUICK = LowerBoundSetting(
    dim=40,
    sparsity=4,
    width=80,
    noise=0.0,
    radius=0.05,
    penalty=0.07,
    start=0.005,
    start_bias=0.884,
    bias_growth=0.15,
    step_per_bias=1e6,
    step_size=5.0,
    steps=400,
    adversarial_steps=300,
    batch=250,
    test_points=200,
)
LOWER_BOUNDS = Experiment(
    id="feature-purification/lower-bounds",
    source="Allen-Zhu & Li 2020, Theorems 5.4, 5.6, Corollary 5.7",
    title="Linear, polynomial and tangent models at rest beside a network on the same data",
    scales={
        "quick": [QUICK],
        "standard": [LowerBoundSetting(**{**QUICK.__dict__, "model_steps": 1200, "test_points": 400})],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Noiseless data in the ℓ∞ ball, M = I. Models learn by Adam until they rest, clean and with FGM. The cubic knows the features;"
        " kernels of degree 3 and 5 do not; there are as many tangent neurons as the network has. Training one model"
        " shows what it can do,"
        " not what every model of its kind can."
    ),
)
