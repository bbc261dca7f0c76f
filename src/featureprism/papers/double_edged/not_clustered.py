"""Section 5's second question: do KKT points generalise as well as the max-margin linear classifier on data without clusters?"""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from featureprism._nonnegative import nonnegative_minimum
from featureprism.lab import Claim, Experiment, Rows, above, at_most, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.probes import kkt_points
from featureprism.seeds import generator_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RIDGE = 1e-12  # of the mean diagonal of a Gram matrix
START = 0.1  # size of the start of the flow, as everywhere in this paper


@dataclass(frozen=True, kw_only=True)
class HalfspaceSetting:
    """n Gaussian points in d dimensions, those with |x₁| < `margin` left out, labelled by the sign of x₁."""

    dim: int
    points: int
    margin: float = 3.0
    patterns: int = 3
    starts: int = 2
    width: int = 20
    test_points: int = 200_000


def first_coordinates(s: HalfspaceSetting, labels: Tensor, generator: torch.Generator) -> Tensor:
    """x₁ = y|x₁| with |x₁| normal beyond the margin."""
    normal = torch.distributions.Normal(0.0, 1.0)
    below = normal.cdf(torch.tensor(s.margin, dtype=torch.float64))
    return labels * normal.icdf(
        below + (1 - below) * torch.rand(len(labels), generator=generator, dtype=torch.float64)
    )


def max_margin_linear(x: Tensor, y: Tensor) -> Tensor:
    """(w, b) of least norm with y(⟨w, x⟩ + b) ≥ 1, the bias counted in the norm as in the networks."""
    signed = (y.unsqueeze(1) * torch.cat([x, torch.ones_like(x[:, :1])], dim=1)).numpy()
    gram = signed @ signed.T
    size = np.trace(gram) / len(gram)
    multipliers = nonnegative_minimum(gram / size + RIDGE * np.eye(len(gram)), np.ones(len(gram)))
    assert multipliers is not None
    return torch.from_numpy(multipliers @ signed / size)


def measure(s: HalfspaceSetting, seed: int, context: Context) -> list[Row]:
    """Test errors of every KKT point that is found and of the max-margin linear classifier."""
    generator = generator_for("halfspace", seed)
    y = torch.ones(s.points, dtype=torch.float64)
    y[1::2] = -1
    x = torch.randn(s.points, s.dim, generator=generator, dtype=torch.float64)
    x[:, 0] = first_coordinates(s, y, generator)
    basis, span = torch.linalg.qr(x.T)  # all that training can see of d dimensions
    points = kkt_points(
        span.T,
        y,
        num_patterns=s.patterns,
        num_starts=s.starts,
        width=s.width,
        start_size=START * sqrt((s.points + 1) / (s.dim + 1)),
        generator=generator,
    )
    context.progress(0.8)
    linear = max_margin_linear(span.T, y)
    slope, bias = linear[:-1].unsqueeze(0), linear[-1:]
    rows: list[Row] = [{"kind": "linear", "error": _error(s, slope @ basis.T, bias, None, seed)}]
    for point in points:
        net = point.net
        assert net.b is not None
        error = _error(s, net.W.detach() @ basis.T, net.b.detach(), net, seed)
        worth = theory.halfspace_points(s.dim, error, s.margin) / s.points
        over = {"error": error, "over_linear": error / rows[0]["error"], "worth": worth}
        rows.append({"kind": "point"} | point.as_row() | over)
    context.progress(1.0)
    return rows


@torch.no_grad()
def _error(s: HalfspaceSetting, W: Tensor, b: Tensor, net: TwoLayerNet | None, seed: int) -> float:
    """Share of fresh points with y N(x) ≤ 0; they are drawn in the span of the neurons, which is all that a network sees of them."""
    generator = generator_for("halfspace test", seed)
    labels = torch.ones(s.test_points, dtype=torch.float64)
    labels[1::2] = -1
    first = first_coordinates(s, labels, generator)
    _, rest = torch.linalg.qr(W[:, 1:].T)
    noise = torch.randn(s.test_points, len(rest), generator=generator, dtype=torch.float64) @ rest
    inputs = first.unsqueeze(1) * W[:, 0] + noise + b
    outputs = inputs[:, 0] if net is None else inputs.clamp_min(0) @ net.a
    return float((labels * outputs <= 0).double().mean())


def _errors(rows: Rows) -> str:
    words = []
    for (dim, points), group in rows.of("point").groups("dim", "points").items():
        linear = rows.of("linear", dim=dim, points=points).column("error").mean()
        words.append(f"d = {dim}, n = {points}: {group.column('error').mean():.4f} against {linear:.4f}")
    return "mean error of KKT points against the linear classifier: " + "; ".join(words)


CLAIMS = (
    Claim(
        "worse-than-linear",
        source="Section 5, second question",
        says="On separable data without clusters, in high dimension, every KKT point that was found generalises worse than the"
        " max-margin linear classifier of the same points.",
        quantity="test error of a KKT point ÷ that of the max-margin linear classifier, least over KKT points and sizes",
        bound=above(1.0),
        because="the paper asks whether KKT points generalise at least as well, which would be a ratio of at most 1",
        value=lambda rows: rows.of("point").least("over_linear"),
        origin="featureprism",
        note=_errors,
        headline=True,
    ),
    Claim(
        "half-of-the-points",
        source="Section 5, second question",
        says="The KKT point with one neuron for each class errs as often as a max-margin linear classifier that was trained on little"
        " more than half of the points.",
        quantity="number of points with which a max-margin linear classifier would err as often ÷ n, mean over sizes",
        formula=r"\mathbb{E}\, \Phi\big(-|x_1|\, \mathbb{E}|x_1| \sqrt{n'/d}\big) = \text{error}",
        bound=between(0.45, 0.75),
        because="a neuron has the points of its class, n/2; of the other class those help at which it would be on, less than half",
        value=lambda rows: rows.of("point", origin="one neuron a class").mean("worth"),
        origin="featureprism",
    ),
    Claim(
        "generalises",
        source="Section 5, second question",
        says="Every KKT point that was found generalises all the same, once there are as many points as a linear classifier needs.",
        quantity="test error of the worst KKT point with the most points",
        bound=at_most(0.05),
        because="ε = 0.05 as in the theorems; n = d/γ² is what a linear classifier of margin γ among points of norm √d needs",
        value=lambda rows: (
            rows.of("point").having(points=max(rows.distinct("points"), default=0)).largest("error")
        ),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Test error against the number of points: KKT points, the linear classifier, and the law of the latter."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=5.0, height=3.0)
    sizes = sorted(rows.distinct("points"))
    dim = max(rows.distinct("dim"))
    margin = float(rows[0]["margin"])
    many = np.geomspace(sizes[0], sizes[-1], 40)
    for kind, name, colour, share, law in (
        ("point", "KKT points", COLOURS[0], 0.5, "linear, half of the points"),
        ("linear", "max-margin linear classifier", COLOURS[1], 1.0, "linear, all points"),
    ):
        errors = [theory.halfspace_error(dim, share * points, margin) for points in many]
        axes.plot(many, errors, color=colour, linestyle="--", label=f"law: {law}")
        group = rows.of(kind, dim=dim)
        axes.plot(group.column("points"), group.column("error"), "o", color=colour, alpha=0.5, label=name)
    axes.set(xscale="log", yscale="log", xlabel="training points", ylabel="test error")
    axes.set_title(f"ReLU networks need more points than a linear classifier (d = {dim})")
    axes.legend()
    return figure


NOT_CLUSTERED = Experiment(
    id="double-edged/not-clustered",
    source="Frei et al. 2023, Section 5",
    title="KKT points on separable data that are not clustered",
    scales={
        "quick": [HalfspaceSetting(dim=2000, points=points) for points in (50, 100, 200)],
        "standard": [
            HalfspaceSetting(dim=4000, points=points, patterns=6, starts=4) for points in (100, 200, 400)
        ],
        "paper": [
            HalfspaceSetting(dim=10_000, points=points, patterns=6, starts=4) for points in (250, 500, 1000)
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Gaussian points with a margin of 3 along one direction and no clusters: test errors of KKT points by activation pattern and"
        " from starts of gradient flow, beside the max-margin linear classifier of the same points."
    ),
    draw=draw,
)
