"""Lower bounds against a real opponent: linear, polynomial and tangent models trained to rest, beside a network of the same size."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from featureprism.attacks import Along, along, fgm, pgd
from featureprism.attacks.adversaries import FastGradient
from featureprism.context import Context
from featureprism.data import (
    SparseCoding,
    SparseSample,
    dictionary,
    dictionary_norms,
    label_weights,
    sample_sparse,
    two_level,
)
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most, requires
from featureprism.networks import CubicNet, LinearClassifier, PolynomialKernel, SymmetricNet, TangentNet
from featureprism.papers.feature_purification.regime import (
    INFLATED,
    LEARNED,
    Regime,
    adversarial_phase,
    clean_phase,
    first_net,
    in_double,
    pure,
)
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.theory import feature_purification as theory
from featureprism.training import from_pool, logistic_descent, train_symmetric

DEGREES = (3, 5)
MODELS = ("linear", "cubic", *(f"degree {r}" for r in DEGREES), "tangent")
JUDGED = 2000  # points of the pool on which a loss is judged
RATES = (0.03, 0.01, 0.003)  # of Adam, one third of the steps each


@dataclass(frozen=True, kw_only=True)
class LowerBounds(Regime):
    """Small noiseless data inside the premises of Theorems 5.4 and 5.6, ℓ∞."""

    dictionary: str = "identity"
    tangent_width: int = 80
    anchors: int = 400  # of the polynomial kernels; fewer make weaker opponents
    model_steps: int = 600
    model_batch: int = 200
    points: int = 300


def problem_of(s: LowerBounds, seed: int) -> SparseCoding:
    """M = I as in Theorem 5.6, or blocks of 2 that keep its row and column sums small, as Theorem 5.4 allows."""
    M = dictionary(s.dictionary, s.dim, generator=generator_for("dictionary", seed), block=2)
    w = label_weights("signs", s.dim, generator=generator_for("labels", seed))
    return SparseCoding(M, w, two_level(s.dim, s.sparsity, s.large, s.small))


def _model(name: str, problem: SparseCoding, s: LowerBounds, pool: SparseSample, seed: int) -> nn.Module:
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
    name: str, training: str, s: LowerBounds, problem: SparseCoding, pool: SparseSample, seed: int
) -> tuple[nn.Module, float]:
    """A model after Adam at falling rates, and how much the last third still lowered its loss on the pool."""
    net = _model(name, problem, s, pool, seed)
    draw = from_pool(pool.x, pool.y, s.model_batch, generator=generator_for(f"{name} {training}", seed))
    adversary = FastGradient(LpBall(math.inf, s.radius)) if training == "adversarial" else None
    losses = []
    for rate in RATES:
        logistic_descent(net, draw, steps=s.model_steps // len(RATES), step_size=rate, perturb=adversary)
        x, y = (pool.x[:JUDGED], pool.y[:JUDGED])
        if adversary is not None:
            x, y = adversary(net, x, y)
        with torch.no_grad():
            losses.append(float(torch.nn.functional.softplus(-y * net(x)).mean()))
    return net, losses[-2] - losses[-1]


def _networks(s: LowerBounds, pool: SparseSample, seed: int) -> dict[tuple[str, str], nn.Module]:
    """Algorithm 1, then Algorithm 2 with ℓ∞ FGM, on the same data."""
    nets: dict[tuple[str, str], nn.Module] = {}
    net = first_net(s, seed)
    phases = {"clean": clean_phase(s), "adversarial": adversarial_phase(s, math.inf)}
    for stage, phase in phases.items():
        draw = from_pool(pool.x, pool.y, s.batch, generator=generator_for(f"batches {stage}", seed))
        nets["network", stage] = net = train_symmetric(net, draw, [phase], penalty=s.penalty / s.dim).last
    return nets


def _accuracies(net: nn.Module, test: SparseSample, problem: SparseCoding, ball: LpBall) -> Row:
    """Without attack, and the least over the universal direction, FGM and PGD; exact for a linear model and for the pure network."""
    x, y, direction = test.x.double(), test.y.double(), problem.dense_direction.double()
    net = net.double()
    nets = [net]
    if isinstance(net, SymmetricNet):
        nets.append(in_double(net, INFLATED * net.level))
    standing = torch.ones(len(x), dtype=torch.bool)
    for one in nets:
        for attack in (along(direction), fgm, partial(pgd, starts=(Along(direction),), steps=20)):
            delta = attack(one, x, y, ball).delta
            with torch.no_grad():
                standing &= y * net(x + delta) > 0
    with torch.no_grad():
        clean = float((y * net(x) > 0).double().mean())
    return {"clean": clean, "worst": float(standing.double().mean())}


def measure(s: LowerBounds, seed: int, context: Context) -> list[Row]:
    """Robust accuracy of each model after clean and after adversarial training, beside a network of both and the pure one."""
    problem = problem_of(s, seed)
    pool = sample_sparse(problem, s.pool, generator=generator_for("train", seed))
    test = sample_sparse(problem, s.points, generator=generator_for("test", seed))
    ball, rows = LpBall(math.inf, s.radius), []
    for name in MODELS:
        for training in ("clean", "adversarial"):
            net, change = _rested(name, training, s, problem, pool, seed)
            row: Row = {"kind": "model", "model": name, "training": training, "name": s.dictionary}
            rows.append({**row, "change": change, **_accuracies(net, test, problem, ball)})
        context.progress(len(rows) / (2 * len(MODELS) + 2))
    nets = _networks(s, pool, seed) | {("pure", "none"): pure(s, problem, s.smoothing * s.final_bias)}
    for (name, training), net in nets.items():
        row = {"kind": "model", "model": name, "training": training, "name": s.dictionary}
        rows.append({**row, **_accuracies(net, test, problem, ball)})
    norms = dictionary_norms(problem.M)
    premises = [
        *theory.hidden_vector_premises(problem.hidden, pool.z[:JUDGED], problem.w),
        *theory.sparsity_premises(s),
        *theory.clean_premises(s, s.steps * s.step_size),
        *theory.adversarial_premises(s, s.adversarial_steps * s.step_size),
        *theory.linf_premises(s, norms, s.radius),
        *theory.lower_bound_premises(s, problem.M),
    ]
    return rows + [{**premise.as_row(), "name": s.dictionary} for premise in premises]


def _robust(name: str, model: str, training: str) -> Callable[[Rows], Values]:
    return lambda rows: rows.of("model", name=name, model=model, training=training).per_seed("worst")


def _best(name: str, model: str) -> Callable[[Rows], Values]:
    """The better of clean and adversarial training."""
    return lambda rows: np.maximum(
        _robust(name, model, "clean")(rows), _robust(name, model, "adversarial")(rows)
    )


LOW = ("theorem-5-6", "theorem-g-1")
HIGH = (*LEARNED, "theorem-5-3.time", "theorem-5-3.most-time", "theorem-5-4", "corollary-f-6")


SOURCES = {
    "linear": "Corollary 5.7",
    "tangent": "Theorem 5.6",
    "cubic": "Corollary 5.7",
    **{f"degree {r}": "Corollary 5.7" for r in DEGREES},
}
KINDS = {"identity": "M = I", "hadamard": "M of blocks of 2"}
NOTES = {"cubic": "a cubic of each true feature; the corollary is an order for large d"}


def _half(model: str, name: str) -> Claim:
    """Robust error of at least (1 - o(1))/2."""
    return Claim(
        f"{model.replace(' ', '-')}-{name}",
        SOURCES[model],
        f"{KINDS[name]}: robust accuracy of the {model} model at most one half, the better of clean and adversarial training",
        _best(name, model),
        at_most(0.5),
        reported=0.5,
        note=NOTES.get(model, ""),
        premises=requires(*LOW, name=name),
    )


def _ahead(model: str, name: str) -> Claim:
    return Claim(
        f"ahead-of-{model.replace(' ', '-')}-{name}",
        "Theorems 5.4 and 5.6",
        f"robust accuracy of the adversarially trained network minus that of the best {model} model, {name}",
        lambda rows: _robust(name, "network", "adversarial")(rows) - _best(name, model)(rows),
        above(0.1),
        premises=requires(*LOW, *HIGH, name=name),
    )


CLAIMS = (
    *(_half(model, name) for name in KINDS for model in SOURCES),
    *(_ahead(model, name) for name in KINDS for model in SOURCES),
    Claim(
        "rested",
        "finding",
        "the models are at rest: largest fall of a loss in the last third of training",
        lambda rows: rows.of("model").where(lambda row: "change" in row).largest("change"),
        at_most(0.05),
        origin="featureprism",
        note="clean training of models that separate the data never quite rests",
    ),
)

QUICK = LowerBounds(
    dim=40,
    sparsity=4,
    width=80,
    noise=0.0,
    radius=0.05,
    pool=10000,
    steps=400,
    adversarial_steps=300,
    batch=250,
)
AT_REST = {"model_steps": 1200, "points": 400}
LOWER_BOUNDS = Experiment(
    id="feature-purification/lower-bounds",
    source="Allen-Zhu & Li 2020, Theorems 5.4, 5.6, Corollary 5.7",
    title="Linear, polynomial and tangent models at rest beside a network of the same data",
    scales={
        scale: [replace(QUICK, dictionary=name, **more) for name in KINDS]
        for scale, more in (
            ("quick", {"model_steps": 360, "points": 200}),
            ("standard", AT_REST),
            ("paper", AT_REST),
        )
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Noiseless data in the ℓ∞ ball: M = I, of which the lower bound speaks, and M of blocks of 2, which Theorem 5.4 allows too."
        " Models learn by Adam until they rest, clean and with FGM. The cubic knows the features; kernels of degree 3 and 5 do not;"
        " there are as many tangent neurons as the network has. Opponents, not sizes, are compared: the paper scale is the standard"
        " one."
    ),
)
