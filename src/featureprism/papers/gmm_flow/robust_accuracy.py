"""Networks trained on one mixture and the radius at which each test point breaks, proven and attacked: what Figures 2 and 7 show."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import nan, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from featureprism._progress import Progress, part
from featureprism.attacks import structured_starts
from featureprism.geometry import row_norms, unit_rows
from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.models.activations import Activation
from featureprism.networks import (
    BayesClassifier,
    LinearClassifier,
    PolynomialReLU,
    PowerReLU,
    ReLU,
    Tanh,
    TwoLayerNet,
    gaussian_start,
)
from featureprism.networks.initial import gaussian_mlp
from featureprism.papers.gmm_flow.setting import Mixture, SampledGMM, mixture
from featureprism.papers.gmm_flow.theory import LARGEST_RADIUS, shared_radius
from featureprism.probes.self_test import self_test
from featureprism.seeds import generator_for
from featureprism.training import Loss, stochastic_descent
from featureprism.training.trajectory import Ended
from featureprism.verify import Budget, robust_radius

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTH = 4  # caption of Figure 2
MOMENTUM = 0.9  # not stated
BATCH_SIZE = 100  # not stated
TARGET_LOSS = 1e-3  # mean ½(y-f)²; the paper trains "until perfect training accuracy"
SMALLER_STD = 1e-3  # not stated for Figure 2; Figure 7 shows why smaller
LARGE_STD = 0.5  # Appendix B.2 gives the variance 0.25
UPPER = 1.0  # largest radius attacked
ASCENTS = 200  # of `class_gains`
RADII = torch.linspace(0, 0.85, 86, dtype=torch.float64)
AVERAGING_RADIUS = 1 / sqrt(20)  # where a network that averages the features of 20 clusters breaks
AS_ROBUST = 0.69  # √2/2 but for the noise of a test point
NOT_ROBUST = (AVERAGING_RADIUS + LARGEST_RADIUS) / 2  # the paper has no number
MIDPOINT = f"halfway from 1/√20 = {AVERAGING_RADIUS:.3f}, where averaged features break, to the best radius √2/2 = {LARGEST_RADIUS:.3f}"

# epochs are a cap: radii count only where every training point is fitted
SIZES: dict[str, dict[str, Any]] = {
    "quick": {"dim": 400, "per_cluster": 50, "test_points": 16, "epochs": 200, "max_cells": 4},
    "standard": {"dim": 1000, "per_cluster": 200, "test_points": 40, "epochs": 200, "max_cells": 60},
    "paper": {"dim": 2000, "per_cluster": 1000, "test_points": 100, "epochs": 100, "max_cells": 60},
}
FEWER_POINTS = {"quick": 16, "standard": 16, "paper": 40}  # where the radius of a point takes a second


@dataclass(frozen=True, kw_only=True)
class TrainedClassifier(SampledGMM):
    """One model trained on the mixture of Figure 2, whose caption gives the mixture and the width.

    `one_start`: entries N(0, 1e-6), the same numbers for every two-layer network, instead of the start of the recipe. `loss`,
    `step_size` and `std` (of the entries) are those of the recipe where they are empty or 0.
    """

    model: str
    epochs: int
    max_cells: int
    positive: int = 12
    negative: int = 8
    width: int = 200
    one_start: bool = False
    loss: str = ""
    step_size: float = 0.0
    std: float = 0.0


@dataclass(frozen=True)
class TrainingRecipe:
    """How one model is made: the network from the std of its entries, the step size and the loss."""

    start: Callable[[TrainedClassifier, float, torch.Generator], nn.Module]
    std: float = 1e-2  # Appendix B.2 gives the variance 1e-4
    step_size: float = 0.2
    loss: Loss = Loss("square", "mean")  # noqa: RUF009


def _two_layer(
    activation: Activation, s: TrainedClassifier, std: float, generator: torch.Generator
) -> nn.Module:
    return gaussian_start(s.width, s.dim, std, activation, generator=generator)


def _prelu(s: TrainedClassifier, std: float, generator: torch.Generator) -> nn.Module:
    return _two_layer(PolynomialReLU(s.p), s, std, generator)


def _polynomial(s: TrainedClassifier, std: float, generator: torch.Generator) -> nn.Module:
    return _two_layer(PowerReLU(s.p), s, std, generator)


def _mlp(s: TrainedClassifier, _std: float, generator: torch.Generator) -> nn.Module:
    return gaussian_mlp(s.dim, s.width, DEPTH, 1.0, generator=generator)


def _linear(s: TrainedClassifier, std: float, generator: torch.Generator) -> nn.Module:
    return LinearClassifier(std * torch.randn(s.dim, generator=generator))


# the paper states no step sizes for these networks
RECIPES: dict[str, TrainingRecipe] = {
    "relu": TrainingRecipe(partial(_two_layer, ReLU())),
    "mlp": TrainingRecipe(_mlp, step_size=0.05),
    "tanh": TrainingRecipe(partial(_two_layer, Tanh())),
    "logistic": TrainingRecipe(_linear, step_size=1.0, loss=Loss("logistic", "mean")),
    "prelu": TrainingRecipe(_prelu, std=SMALLER_STD, step_size=0.5),
    "prelu small": TrainingRecipe(_prelu, step_size=0.5),
    "polynomial small": TrainingRecipe(_polynomial, step_size=1.0),
    "prelu large": TrainingRecipe(_prelu, std=LARGE_STD, step_size=1.0),
    "polynomial large": TrainingRecipe(_polynomial, std=LARGE_STD, step_size=0.05),
}


def train(s: TrainedClassifier, data: Mixture, seed: int, progress: Progress) -> tuple[nn.Module, str]:
    """The network of one curve, trained by SGD in float32, and how that ended; Bayes needs no training."""
    if s.model == "bayes":
        return BayesClassifier(data.clusters.mu, data.clusters.labels, data.clusters.noise_std), "KNOWN"
    recipe, points = RECIPES[s.model], data.train.to(torch.float32)
    std, name = (SMALLER_STD, "one start") if s.one_start else (s.std or recipe.std, f"start of {s.model}")
    net = recipe.start(s, std, generator_for(name, seed)).float()
    run = stochastic_descent(
        net,
        points.x,
        points.y,
        loss=Loss(s.loss, "mean") if s.loss else recipe.loss,
        step_size=s.step_size or recipe.step_size,
        batch_size=BATCH_SIZE,
        epochs=s.epochs,
        momentum=MOMENTUM,
        target_loss=TARGET_LOSS,
        generator=generator_for(f"batches of {s.model}", seed),
        progress=progress,
    )
    finite = all(bool(torch.isfinite(parameter).all()) for parameter in net.parameters())
    return net, (run.ended if finite else Ended.DIVERGED).name


def measure(s: TrainedClassifier, seed: int, context: Context) -> list[Row]:
    """Train one model, bracket the radius of every test point, and give the curves of both sides; no radii where training diverged."""
    data = mixture(s, seed)
    net, ended = train(s, data, seed, part(context.progress, 0, 0.7))
    if ended == Ended.DIVERGED.name:
        return [{"kind": "summary", "ended": ended, "train_accuracy": None}]
    net = net.double()
    x, y, mu, labels = data.test.x, data.test.y, data.clusters.mu, data.clusters.labels
    with torch.no_grad():
        fitted = float((data.train.y * net(data.train.x) > 0).double().mean())
        clean = float((y * net(x) > 0).double().mean())
    bracket = robust_radius(
        net,
        x,
        y,
        starts=structured_starts(net, mu, labels),
        max_radius=UPPER,
        budget=Budget(branches=s.max_cells),
        progress=part(context.progress, 0.7, 1),
    )
    check = self_test(seed=seed)
    summary = {
        "kind": "summary",
        "half_radius": bracket.half_radius[1],
        "certified_half_radius": bracket.half_radius[0],
        "certified_by": ", ".join(sorted(set(bracket.method))),
        "clean_accuracy": clean,
        "train_accuracy": fitted,
        "ended": ended,
        "zero_gradient_share": bracket.zero_gradient_share,
        "blind_share": bracket.blind_share,
        "self_test_at_0.75": check.accuracy_at_break,
        "self_test_at_0.68": check.accuracy_at_hold,
        "self_test_passed": check.passed,
        **_sharing(net, data, torch.from_numpy(bracket.attacked)),
    }
    certified, attacked = bracket.accuracy(RADII)
    curve = [
        {"kind": "curve", "radius": r, "certified_accuracy": c, "attacked_accuracy": a}
        for r, c, a in zip(RADII.tolist(), certified.tolist(), attacked.tolist(), strict=True)
    ]
    return [summary, *curve]


def class_gains(net: TwoLayerNet, mu: Tensor, labels: Tensor) -> tuple[float, float]:
    """(positive, negative): G, where G^p is the largest output of the neurons of a class on unit vectors in the span of its centres.

    1 where every neuron serves one centre, √s where one serves s of them. The output of a class is convex and homogeneous, so that
    x ← ∇/‖∇‖ climbs; it starts from every neuron and every centre.
    """
    activation = net.activation
    assert isinstance(activation, PolynomialReLU)
    p, norms = activation.p, row_norms(net.W.detach())
    gains = []
    for sign in (1.0, -1.0):
        centres, chosen = mu[labels == sign], net.a.detach() * sign > 0
        c = (net.W.detach()[chosen] / norms[chosen].unsqueeze(1)) @ centres.T
        weight = (net.a.detach().abs() * norms)[chosen].unsqueeze(1)
        x = unit_rows(torch.cat([torch.eye(len(centres)).double(), c[c.amax(dim=1) > 0].clamp_min(0)]))
        for _ in range(ASCENTS):
            x = unit_rows(((c @ x.T).clamp_min(0) ** (p - 1) * weight).T @ c)
        gains.append(float(((c @ x.T).clamp_min(0) ** p * weight).sum(dim=0).max()) ** (1 / p))
    return gains[0], gains[1]


def _sharing(net: nn.Module, data: Mixture, radius: Tensor) -> Row:
    """How far neurons of a pReLU network are shared in each class, and the median radius of the class that this weakens."""
    if not (isinstance(net, TwoLayerNet) and isinstance(net.activation, PolynomialReLU)):
        return {}
    positive, negative = class_gains(net, data.clusters.mu, data.clusters.labels)
    weaker = radius[data.test.y == (-1.0 if positive >= negative else 1.0)]
    return {
        "positive_gain": positive,
        "negative_gain": negative,
        "shared_radius": float(weaker.median()) if len(weaker) else None,
        "predicted_shared_radius": shared_radius(max(positive, negative)),
    }


def half_radius(rows: Rows, model: str) -> Values:
    """50 % radius of a model; NaN where the attack failed its self-test or training did not fit every point."""

    def value(run: Rows) -> float:
        valid = run[0].get("self_test_passed") and run[0]["train_accuracy"] == 1
        return run[0]["half_radius"] if valid else nan

    return rows.of("summary", model=model).per_seed(value)


def as_robust(rows: Rows, model: str) -> Values:
    """1 where the 50 % radius of a model is at least AS_ROBUST, 0 where it is not, NaN where it has none."""
    radii = half_radius(rows, model)
    return np.where(np.isfinite(radii), radii >= AS_ROBUST, nan).astype(float)


def deviation_from_sharing(rows: Rows, model: str) -> Values:
    """|median radius of the weaker class ÷ 1/√(1 + G²) - 1|; 0 where no test point is of that class."""

    def value(run: Rows) -> float:
        radius, law = run[0].get("shared_radius"), run[0].get("predicted_shared_radius")
        if run[0]["train_accuracy"] != 1 or law is None:
            return nan
        return 0.0 if radius is None else abs(radius / law - 1)

    return rows.of("summary", model=model).per_seed(value)


def sharing_note(rows: Rows, model: str) -> str:
    """How many runs are as robust as possible, and where the others are beside the law of shared neurons."""
    runs = [row for row in rows.of("summary", model=model) if row["train_accuracy"] == 1]
    others = [row for row in runs if row["half_radius"] < AS_ROBUST]
    text = f"{len(runs) - len(others)} of {len(runs)} runs at √2/2"
    if not others:
        return text
    pairs = ", ".join(f"{row['shared_radius']:.3f} ({row['predicted_shared_radius']:.3f})" for row in others)
    return f"{text}; the others share neurons, median radius of the weaker class (law): {pairs}"


def draw_curves(rows: Rows, curves: Mapping[str, tuple[str, str]], dashed: tuple[str, ...] = ()) -> "Figure":
    """Robust accuracy against radius: a band from proven to attacked for each model, with its name and colour."""
    from featureprism.lab.style import FAILED_SELF_TEST, band, guide, over_seeds, panels

    figure, (axes,) = panels(1, width=5.6, height=3.4)
    summaries = rows.of("summary")
    trained = summaries.where(lambda row: "self_test_passed" in row)  # a network that diverged has no curve
    for model in trained.distinct("model"):
        name, colour = curves[model]
        run = rows.of("curve", model=model)
        x, _, attacked, _ = over_seeds(run, "radius", "attacked_accuracy")
        certified = over_seeds(run, "radius", "certified_accuracy")[2]
        band(axes, x, certified, attacked, attacked, colour, name, dashed=model in dashed)
    k = summaries[0]["positive"] + summaries[0]["negative"]
    guide(axes, 1 / sqrt(k), f"1/√{k}")
    guide(axes, LARGEST_RADIUS, "√2/2")
    passed = all(row["self_test_passed"] for row in trained)
    axes.set_title("How much of the accuracy survives an attack" if passed else FAILED_SELF_TEST)
    axes.set(
        xlabel="strength of the attack (ℓ2 radius)",
        ylabel="robust accuracy: proven to attacked",
        xlim=(0, 0.85),
        ylim=(0, 1.03),
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
