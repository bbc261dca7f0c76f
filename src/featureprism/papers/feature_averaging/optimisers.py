"""Theorem 4.5 beyond gradient descent: momentum, sign descent and Adam, with centres along the axes and in general position."""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from featureprism.data import GaussianClusters, class_labels, orthogonal_clusters, sample
from featureprism.data.dataset import Dataset
from featureprism.lab import Claim, Experiment, Rate, Rows, at_least, at_most, between, rate
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import ReLU, TwoLayerNet
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.setting import (
    Baseline,
    attack_facts,
    average_cosines,
    bracket,
    clean_accuracy,
    two_class_start,
)
from featureprism.seeds import generator_for

AXES, ROTATED = "axes", "rotated"
CLEAN_POINTS = 2000  # new points on which accuracy is measured
BETA, SECOND_BETA, TINY_ROOT = 0.9, 0.999, 1e-8  # of momentum and of Adam, as usual

Update = Callable[[Tensor], Tensor]


def momentum() -> Update:
    """v ← βv + g."""
    velocity = torch.zeros(())

    def update(gradient: Tensor) -> Tensor:
        nonlocal velocity
        velocity = BETA * velocity + gradient
        return velocity

    return update


def adam() -> Update:
    """Mean ÷ root mean square of the gradients, both decaying and corrected for their start (Kingma & Ba, 2015)."""
    first, second, steps = torch.zeros(()), torch.zeros(()), 0

    def update(gradient: Tensor) -> Tensor:
        nonlocal first, second, steps
        steps += 1
        first = BETA * first + (1 - BETA) * gradient
        second = SECOND_BETA * second + (1 - SECOND_BETA) * gradient**2
        mean, square = first / (1 - BETA**steps), second / (1 - SECOND_BETA**steps)
        return mean / (square.sqrt() + TINY_ROOT)

    return update


class Optimiser(NamedTuple):
    """Makes an update rule, and its step size in units of that of descent: margins end between 0.5 and 5 with all of them."""

    rule: Callable[[], Update]
    step: float


OPTIMISERS = {
    "descent": Optimiser(lambda: lambda gradient: gradient, 1.0),
    "momentum": Optimiser(momentum, 1 - BETA),
    "sign": Optimiser(lambda: torch.sign, 0.04),
    "adam": Optimiser(adam, 0.04),
}


@dataclass(frozen=True, kw_only=True)
class Coordinates(Baseline):
    """Whether the centres lie along the axes or in general position."""

    coordinates: str


def clusters_in(s: Coordinates, seed: int) -> GaussianClusters:
    """√d e_j, or orthogonal centres in a random position."""
    if s.coordinates == AXES:
        mu = sqrt(s.dim) * torch.eye(s.num_clusters, s.dim, dtype=torch.float64)
        return GaussianClusters(mu, class_labels(s.positive, s.negative), 1.0)
    return orthogonal_clusters(s.dim, s.positive, s.negative, 1.0, generator=generator_for("centres", seed))


def train(
    start: TwoLayerNet, data: Dataset, optimiser: Optimiser, step_size: float, steps: int
) -> TwoLayerNet:
    """Full-batch training of the first layer on the logistic loss; ReLU'(0) = 1."""
    assert start.b is not None
    a, y, rate = start.a.detach(), data.y, optimiser.step * step_size
    weights = torch.cat([start.W.detach(), start.b.detach().unsqueeze(1)], dim=1)  # the bias as a last column
    x = torch.cat([data.x, torch.ones_like(data.x[:, :1])], dim=1)
    update = optimiser.rule()
    for _ in range(steps):
        z = x @ weights.T
        residual = -y * torch.sigmoid(-y * (z.clamp_min(0) @ a)) / len(x)
        weights = weights - rate * update(((z >= 0) * residual.unsqueeze(1) * a).T @ x)
    return TwoLayerNet(weights[:, :-1], a, weights[:, -1], activation=ReLU())


def measure(s: Coordinates, seed: int, context: Context) -> list[Row]:
    """Cosines, accuracy and 50 % radius of the network of every optimiser, from one start on one sample."""
    clusters = clusters_in(s, seed)
    data = sample(clusters, s.points, generator=generator_for("train", seed))
    test = sample(clusters, s.test_points, generator=generator_for("test", seed))
    more = sample(clusters, CLEAN_POINTS, generator=generator_for("clean test", seed))
    rows: list[Row] = []
    for index, (name, optimiser) in enumerate(OPTIMISERS.items()):
        net = train(two_class_start(s, seed), data, optimiser, s.step_size, s.steps)
        radii = bracket(net, test, gap=0.02)
        same, opposite = average_cosines(net.W, torch.sign(net.a.detach()), clusters)
        with torch.no_grad():
            margin = float((data.y * net(data.x)).mean())
        rows.append(
            {
                "kind": "summary",
                "optimiser": name,
                "clusters": s.num_clusters,
                "same_class": same,
                "opposite": opposite,
                "margin": margin,
                "clean_accuracy": clean_accuracy(net, more),
                **attack_facts(radii),
                "half_radius": radii.half_radius[1],
                "certified_half_radius": radii.half_radius[0],
                "critical": theory.critical_radius(s.dim, s.num_clusters),
            }
        )
        context.progress((index + 1) / len(OPTIMISERS))
    return rows


def _largest_dim(rows: Rows, optimiser: str, coordinates: str) -> Rows:
    chosen = rows.of("summary", optimiser=optimiser, coordinates=coordinates)
    return chosen.having(dim=max(chosen.distinct("dim"))) if len(chosen) else chosen


def _in_dimension(rows: Rows, optimiser: str, coordinates: str) -> Rate:
    chosen = rows.of("summary", optimiser=optimiser, coordinates=coordinates)
    return rate(chosen, x="dim", y="half_radius")


def _momentum_error(rows: Rows) -> Values:
    """|50 % radius ÷ √(d/k) - 1| with momentum, the larger of both coordinate systems."""
    errors = []
    for coordinates in (AXES, ROTATED):
        chosen = _largest_dim(rows, "momentum", coordinates)
        errors.append(np.abs(chosen.per_seed("half_radius") / chosen.per_seed("critical") - 1))
    return np.maximum(*errors)


def _axes_over_rotated(rows: Rows, optimiser: str) -> Values:
    axes, rotated = (_largest_dim(rows, optimiser, coordinates) for coordinates in (AXES, ROTATED))
    return axes.per_seed("half_radius") / rotated.per_seed("half_radius")


def _accuracy_lost(rows: Rows, optimiser: str) -> Values:
    axes, rotated = (_largest_dim(rows, optimiser, coordinates) for coordinates in (AXES, ROTATED))
    return rotated.per_seed("clean_accuracy") - axes.per_seed("clean_accuracy")


CLAIMS = (
    Claim(
        "momentum",
        source="beyond Theorem 4.5",
        says="Gradient descent with momentum averages features too, and its network breaks at √(d/k) in every coordinate system.",
        quantity="|radius at which an attack breaks half of the test points ÷ √(d/k) - 1|, the larger of centres along the axes"
        " and in general position",
        bound=at_most(0.05),
        because="five percent, as for plain descent in Figure 3",
        value=_momentum_error,
        origin="featureprism",
    ),
    Claim(
        "sign-rotated",
        source="beyond Theorem 4.5",
        says="With centres in general position, sign descent finds a network whose radius is √(2/π) = 0.80 of √(d/k).",
        quantity="radius at which an attack breaks half of the test points of sign descent ÷ √(2d/(πk))",
        formula=r"w \propto \operatorname{sign}\Bigl(\sum_{\text{own}} \mu_j\Bigr),\qquad"
        r" \cos\bigl(w, \textstyle\sum_{\text{own}} \mu_j\bigr) = \sqrt{2/\pi}",
        bound=between(0.95, 1.08),
        because="the sign of a Gaussian vector has the cosine √(2/π) with it",
        value=lambda rows: (
            _largest_dim(rows, "sign", ROTATED).per_seed("half_radius")
            / (sqrt(2 / pi) * _largest_dim(rows, "sign", ROTATED).per_seed("critical"))
        ),
        origin="featureprism",
    ),
    Claim(
        "sign-axes",
        source="beyond Theorem 4.5",
        says="With centres along the coordinate axes, the radius of a network trained by sign descent does not grow with the"
        " dimension.",
        quantity="exponent in d of the radius at which an attack breaks half of the test points of sign descent",
        formula=r"\delta_{1/2} = O(1), \text{ where descent has } \sqrt{d/k}",
        bound=between(-0.2, 0.2),
        because="every one of d - k coordinates of pure noise gets a weight as large as a coordinate of signal: ‖w‖ = c√d, and the"
        " output at a centre is c√d too",
        value=lambda rows: _in_dimension(rows, "sign", AXES),
        origin="featureprism",
    ),
    Claim(
        "adam-axes",
        source="beyond Theorem 4.5",
        says="Adam's network is far less robust when the centres lie along the coordinate axes than when the same problem is rotated.",
        quantity="radius at which an attack breaks half of the test points of Adam, centres along the axes ÷ in general position",
        bound=at_most(0.2),
        because="a fifth or less; for plain descent the two are equal",
        value=lambda rows: _axes_over_rotated(rows, "adam"),
        origin="featureprism",
    ),
    Claim(
        "adam-accuracy",
        source="beyond Theorem 4.5",
        says="When the centres lie along the coordinate axes, Adam's network even misclassifies new points that it classifies"
        " correctly when the same problem is rotated.",
        quantity="accuracy of Adam on new points, centres in general position minus along the axes",
        bound=at_least(0.05),
        because="one point in twenty",
        value=lambda rows: _accuracy_lost(rows, "adam"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """50 % radius against the dimension, for every optimiser and both coordinate systems."""
    from featureprism.lab.style import COLOURS, over_seeds, panels, plain_ticks

    figure, axes = panels(2, width=3.6, height=3.0)
    for panel, coordinates in zip(axes, (ROTATED, AXES), strict=True):
        for colour, name in zip(COLOURS, OPTIMISERS, strict=False):
            own = rows.of("summary", optimiser=name, coordinates=coordinates)
            if own:
                x, low, mean, high = over_seeds(own, "dim", "half_radius")
                panel.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
                panel.plot(x, mean, "o-", color=colour, label=name, markersize=4)
        x, _, critical, _ = over_seeds(rows.of("summary"), "dim", "critical")
        panel.plot(x, critical, ":", color="black", label="√(d/k)")
        title = "along the axes" if coordinates == AXES else "in general position"
        panel.set(
            xscale="log", yscale="log", xlabel="dimension d", ylabel="50 % radius", title=f"centres {title}"
        )
        plain_ticks(panel, x)
    axes[0].legend()
    return figure


def _settings(dims: tuple[int, ...], test_points: int) -> list[Coordinates]:
    # step sizes and starts in proportion to 1/d, so that margins end alike
    return [
        Coordinates(
            coordinates=coordinates,
            dim=dim,
            step_size=1e-3 * 3072 / dim,
            start=1e-5 * 3072 / dim,
            test_points=test_points,
        )
        for coordinates in (ROTATED, AXES)
        for dim in dims
    ]


OPTIMISERS_COMPARED = Experiment(
    id="feature-averaging/optimisers",
    source="beyond Li et al. 2025, Theorem 4.5",
    title="Sign descent and Adam: the radius depends on the coordinate system",
    scales={
        "quick": _settings((384, 3072), 80),
        "standard": _settings((384, 1024, 3072), 200),
        "paper": _settings((384, 1024, 3072, 6144), 300),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Theorem 4.5 is about gradient descent, whose networks turn with the data. Sign descent and Adam do not: they give every"
        " coordinate the same step. Where the features are spread over all coordinates (general position) that costs a factor √(2/π)"
        " of the radius; where each feature is a coordinate, the d - k coordinates of pure noise get weights as large as the k"
        " features, the noise of the training points is memorised, and a radius of order √(d/k) becomes one of order 1. All from the"
        " same start, on the same points, full batch, 100 steps."
    ),
)
