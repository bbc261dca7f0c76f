"""What linear classifiers can do on XOR clusters."""

from math import cosh, e
from typing import Any

import torch

from featureprism.data import XorClusters
from featureprism.data.xor import LAWS
from featureprism.lab import Claim, Experiment, Rows, at_least, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification.setting import C, NoisyXor, problem
from featureprism.seeds import generator_for

AXES = 4  # along which directions are tried that a skewed law gives away
SKEWED = "exponential"  # the only law at hand that is not symmetric about its centre
# of an axis plus σμ₂: for z = Exp(1) - 1, (P(z > -1) + P(z > 1))/2 - P(z > 0) = (cosh 1 - 1)/e
SKEWED_ERROR = 0.5 - (cosh(1) - 1) / (2 * e)


def best_linear(
    x: torch.Tensor, y: torch.Tensor, directions: torch.Tensor, *, bias: bool
) -> tuple[torch.Tensor, float]:
    """The direction (and threshold, if `bias`) with the least training error among candidates and their opposites."""
    scores = x @ directions.T  # (n, c)
    order = scores.argsort(dim=0)
    sorted_y = y.unsqueeze(1).expand_as(scores).gather(0, order)
    # threshold after the i-th score: points up to it are called -1
    wrong = torch.cumsum((sorted_y > 0).double(), dim=0) - torch.cumsum((sorted_y < 0).double(), dim=0)
    errors = (wrong + (y < 0).sum()) / len(y)  # (n, c)
    if not bias:
        plain = ((torch.where(scores > 0, 1.0, -1.0) * y.unsqueeze(1)) < 0).double().mean(dim=0)
        return directions[plain.argmin()], 0.0
    row, column = divmod(int(errors.argmin()), errors.shape[1])
    return directions[column], float(scores[order[row, column], column])


def skewed_directions(clusters: XorClusters) -> torch.Tensor:
    """Coordinate axes, less their part along μ1 and μ2, plus σμ1 or σμ2: noise, and a signal of its size for one label alone."""
    mu = clusters.directions
    axes = torch.eye(mu.shape[1], dtype=mu.dtype)[:AXES]
    axes = axes - axes @ mu.T @ mu
    return torch.cat([axes + clusters.sigma * direction for direction in mu])


def measure(s: NoisyXor, seed: int, context: Context) -> list[Row]:
    """Test error of the best linear classifier found, through the origin and with a bias: half of the points fit, half choose."""
    data = problem(s, seed)
    (fit, x), (labels, y) = (part.chunk(2) for part in (data.train.data.x, data.train.data.y))
    mu = data.clusters.directions
    fitted = torch.linalg.lstsq(fit, labels.unsqueeze(1)).solution.T
    random = torch.randn(200, x.shape[1], generator=generator_for("directions", seed), dtype=torch.float64)
    known = torch.cat([mu, mu[:1] + mu[1:], mu[:1] - mu[1:], skewed_directions(data.clusters)])
    directions = torch.cat([known, fitted, random])
    directions = torch.cat([directions, -directions])
    rows: list[Row] = []
    for name in ("origin", "bias"):
        w, threshold = best_linear(x, y, directions, bias=name == "bias")
        answers = torch.where(data.test.data.x @ w > threshold, 1.0, -1.0).double()
        error = float((answers != data.test.clean).double().mean())
        rows.append({"kind": "linear", "through": name, "error": error})
    context.progress(1.0)
    return rows


CLAIMS = (
    Claim(
        "origin",
        source="Abstract, Section 1",
        says="On XOR clusters no linear classifier through the origin is better than random guessing.",
        quantity="test error of the best one found, for clusters of centred exponential law",
        bound=at_least(0.45),
        because="guessing errs on one half; a tenth less counts as better",
        value=lambda rows: rows.of("linear", through="origin", law=SKEWED).per_seed("error"),
        reported=0.5,
        headline=True,
        note="with clusters symmetric about their centres it is 1/2 by symmetry; Section 2.1 asks for log-concave ones only",
    ),
    Claim(
        "bias",
        source="Abstract, Section 1",
        says="On XOR clusters no linear classifier with a bias is better than random guessing.",
        quantity="test error of the best one found, least over laws of the clusters",
        bound=at_least(0.45),
        because="guessing errs on one half; a tenth less counts as better",
        value=lambda rows: rows.of("linear", through="bias").least("error"),
        reported=0.5,
        note="a threshold cuts off one of the four clusters, whatever their law: the error is 1/4",
    ),
    Claim(
        "skewed",
        source="beyond Section 1",
        says="On XOR clusters with centred exponential noise, the best linear classifier follows an axis of the noise with a little of"
        " one centre, and errs on 1/2 - (cosh 1 - 1)/(2e) = 0.40 of the points.",
        quantity="test error of the best linear classifier through the origin, divided by 0.40",
        formula=r"w = v + \sigma\mu_2, \qquad \Pr(\text{error}) = \tfrac12 - \tfrac{\cosh 1 - 1}{2e}",
        bound=between(0.92, 1.08),
        because="1 is the law; eight percent are left because the classifier is chosen among noisy candidates",
        value=lambda rows: rows.of("linear", through="origin", law=SKEWED).per_seed("error") / SKEWED_ERROR,
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """Errors of the best linear classifiers, through the origin and with a bias, for each law of the clusters."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=4.0, height=2.8)
    laws = rows.of("linear").distinct("law")
    for place, (key, text) in enumerate({"origin": "through the origin", "bias": "with a bias"}.items()):
        errors = [rows.of("linear", through=key, law=law).column("error").mean() for law in laws]
        heights = [index + 0.4 * place for index in range(len(laws))]
        axes.barh(heights, errors, height=0.35, color=COLOURS[place], label=text)
    axes.set_yticks([index + 0.2 for index in range(len(laws))], laws)
    axes.set(xlabel="test error of the best linear classifier", xlim=(0, 1))
    guide(axes, 0.5, "chance")
    axes.legend(loc="center right")
    return figure


def _settings(points: int, dim: int) -> list[NoisyXor]:
    sizes = {"dim": dim, "points": points, "width": 2, "test_points": 4000}
    return [NoisyXor.on_edge(C, law=law, **sizes) for law in LAWS]


LINEAR = Experiment(
    id="feature-amplification/linear",
    source="Frei et al. 2023, Abstract, Section 1",
    title="What linear classifiers can and cannot do",
    scales={
        "quick": _settings(2000, 200),
        "standard": _settings(5000, 200),
        "paper": _settings(8000, 500),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The best of least squares, the cluster directions, their sums, 200 random directions and axes off the plane of the centres,"
        " with a signal as small as the noise; chosen on training points that least squares has not seen, with a bias the best"
        " threshold of each. Errors under clean labels."
    ),
)
