"""Which KKT points exist, and at which one gradient flow ends: inner product of the means × noise × width, inside Assumption 2.2."""

from dataclasses import dataclass
from math import log, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
import torch

from featureprism.attacks import flipping_norm
from featureprism.lab import Claim, Experiment, Rows, at_most, between, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.explored import seen_with
from featureprism.papers.double_edged.setting import (
    Problem,
    TrainingSetting,
    critical_norm,
    direction,
    flow_end,
    premises,
    problem,
)
from featureprism.training import flow_limit, pattern_point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTOR = 1.25  # from one level of noise to the next
LEVELS = tuple(FACTOR**power for power in range(-3, 4))  # noise ÷ that of the law's boundary
QUIET = LEVELS[0]


@dataclass(frozen=True, kw_only=True)
class PhaseSetting(TrainingSetting):
    """Means with one inner product, noise at one level; `draws` training sets, and `starts` of the flow for each of the `widths`."""

    product: float
    level: float
    draws: int = 4
    widths: tuple[int, ...] = (20, 50, 100)
    starts: int = 2

    @classmethod
    def at(cls, product: float, level: float, dim: int, clusters: int, **other: int) -> "PhaseSetting":
        """Ten points a cluster; the noise is `level` times that of the law's boundary."""
        points = 10 * clusters
        spread = level * theory.boundary_noise(clusters, points, product)
        means = {"means": "equal cosines", "cosine": product / dim, "test_points": 200}
        noise = {"sigma": spread / sqrt(dim), "case": "phase", "regime": "inside"}
        return cls(
            dim=dim,
            clusters=clusters,
            points=points,
            product=product,
            level=level,
            **means,  # pyright: ignore[reportArgumentType]
            **noise,  # pyright: ignore[reportArgumentType]
            **other,
        )


def measure(s: PhaseSetting, seed: int, context: Context) -> list[Row]:
    """Whether one neuron for each cluster is a KKT point, of how many samples; and the limits of gradient flow."""
    rows: list[Row] = []
    noise = s.sigma * sqrt(s.dim)
    cell = 100 * (round(-s.product) + 1000 * round(100 * s.level))  # other samples in every cell
    for draw in range(s.draws):
        data = problem(s, seed, cell + draw)
        members = torch.arange(s.clusters)
        pattern = data.train.cluster.unsqueeze(1) == members
        point = pattern_point(data.train.x, data.train.y, data.clusters.labels, pattern)
        law = theory.one_a_cluster_probability(s.clusters, s.points, s.product, noise)
        kept = {"keeps": float(point.num_changes == 0), "law": law}
        rows.append({"kind": "pattern", "noise": noise, "norm": _norm(point.net, data)} | kept)
    data = problem(s, seed)
    for width in s.widths:
        for start in range(s.starts):
            rows.append(
                {"noise": noise} | _limit(s, data, width, seed + 1000 * (start + 1) + round(-s.product))
            )
            context.progress(len(rows) / (s.draws + s.starts * len(s.widths)))
    return rows + premises(s, data)


def _limit(s: PhaseSetting, data: Problem, width: int, seed: int) -> Row:
    """The KKT point to which the flow goes; without numbers where it does not separate the points."""
    train = data.train
    sized = TrainingSetting(
        **{name: getattr(s, name) for name in TrainingSetting.__dataclass_fields__} | {"width": width}  # pyright: ignore[reportArgumentType]
    )
    net = flow_end(sized, train, seed)
    with torch.no_grad():
        if not bool((train.y * net(train.x) > 0).all()):
            return {"kind": "limit", "neurons_width": width, "one_a_class": None, "norm": None}
    limit = flow_limit(net, train.x, train.y).net
    law = theory.one_a_class_probability(s.clusters, width)
    return {
        "kind": "limit",
        "neurons_width": width,
        "neurons": len(limit.a),
        "one_a_class": float(len(limit.a) == 2),
        "law": law,
        "norm": _norm(limit, data),
    }


def _norm(net: TwoLayerNet, data: Problem) -> float:
    """Norm along u that flips half of the test points ÷ (‖u‖/k)."""
    seen, x, along = seen_with(net, data.test.x, direction(data))
    return flipping_norm(seen, x, data.test.y, along) / critical_norm(data)


def _boundary(rows: Rows) -> Values:
    """Measured ÷ predicted boundary: the geometric mean of the noise at which a pattern stops being kept (Spearman, Kärber)."""

    def ratio(run: Rows) -> float:
        over = run.column("keeps") - run.column("law")
        return float(np.exp(log(FACTOR) * len(LEVELS) * over.mean()))

    return rows.of("pattern").per_seed(ratio)


def _limits(rows: Rows, level: float) -> Rows:
    return rows.of("limit", level=level).where(lambda row: row["one_a_class"] is not None)


def _over_width_law(rows: Rows) -> Values:
    """Share of limits with one neuron for each class minus the law, mean over widths, where the noise is small."""

    def excess(run: Rows) -> float:
        return float((run.column("one_a_class") - run.column("law")).mean()) if len(run) else nan

    return _limits(rows, QUIET).per_seed(excess)


def _widest(rows: Rows) -> Rows:
    limits = _limits(rows, QUIET).having(clusters=8)
    return limits.having(neurons_width=max(limits.distinct("neurons_width"), default=0))


def _by_width(rows: Rows) -> str:
    words = []
    for (k, width), run in _limits(rows, QUIET).groups("clusters", "neurons_width").items():
        share, norm = run.column("one_a_class").mean(), run.column("norm")
        words.append(
            f"k = {k}, width {width}: {share:.2f} (law {run.column('law').mean():.2f}), norms up to {norm.max():.2f} ‖u‖/k"
        )
    return "; ".join(words)


CLAIMS = (
    Claim(
        "boundary",
        source="behind Theorem 4.2",
        says="One neuron for each cluster is a KKT point as long as the noise is too small to open a neuron to any point of another"
        " cluster: up to the noise that a law without free constants gives.",
        quantity="noise at which half of the samples lose this KKT point ÷ the law's, mean over inner products",
        formula=r"\Phi\Big(\frac{-\langle\mu,\mu'\rangle - 1}{\sigma\sqrt{d\,(1 + k/n)}}\Big)^{n(k/2 - 1)} = \tfrac12",
        bound=between(0.9, 1.1),
        because="the law takes n(k/2 - 1) responses for independent; levels of noise are a factor of 1.25 apart",
        value=_boundary,
        origin="featureprism",
        premises=requires("assumption-2-2"),
    ),
    Claim(
        "width",
        source="behind Theorem 4.2",
        says="With obtuse means and little noise the start decides where gradient flow ends: at one neuron for each class if, in both"
        " classes, some neuron sees all of its clusters at the start.",
        quantity="share of starts that end at one neuron for each class minus the law, mean over widths",
        formula=r"\big(1 - (1 - 2^{-k/2})^{h/2}\big)^2",
        bound=between(-0.1, 0.1),
        because="in the law a neuron sees each cluster at the start with probability ½; h/2 neurons have the sign of a class",
        value=_over_width_law,
        origin="featureprism",
        note=_by_width,
        premises=requires("assumption-2-2"),
    ),
    Claim(
        "fragile",
        source="behind Theorem 4.2",
        says="Of the KKT points with one neuron for each class, for pairs or for each of eight clusters, gradient flow of a wide"
        " network ends near the most fragile one, which breaks at ‖u‖/k.",
        quantity="norm along u that flips half of the test points of the limit of the flow ÷ (‖u‖/k), mean over starts of the widest"
        " network, k = 8",
        bound=at_most(1.05),
        because="by the law of the width 92 % of the starts end at 1, and pairs of clusters would break at 4/3",
        value=lambda rows: _widest(rows).mean("norm"),
        origin="featureprism",
        premises=requires("assumption-2-2"),
    ),
)


def draw(rows: Rows) -> "Figure":
    """Breaking norms over inner product and noise, of the most robust pattern and of the flow; and the law of the width."""
    from featureprism.lab.style import COLOURS, panels

    figure, (left, middle, right) = panels(3, width=3.6, height=3.1)
    k = min(rows.distinct("clusters"))
    narrow = min(rows.of("limit").distinct("neurons_width"))
    cells = {
        left: rows.of("pattern", clusters=k),
        middle: rows.of("limit", clusters=k, neurons_width=narrow).where(lambda row: row["norm"] is not None),
    }
    shown = None
    for axes, group in cells.items():
        places = list(group.groups("product", "level").values())
        x = [part.column("noise").mean() for part in places]
        y = [-part[0]["product"] for part in places]
        colour = [part.column("norm").mean() for part in places]
        shown = axes.scatter(x, y, c=colour, cmap="viridis", vmin=1.0, vmax=1.6, s=60)
        products = np.geomspace(min(y) / 1.5, max(y) * 1.5, 30)
        points = int(group[0]["points"])
        axes.plot(
            [theory.boundary_noise(k, points, -p) for p in products], products, color="0.4", linestyle="--"
        )
        axes.set(xscale="log", yscale="log", xlabel="noise σ√d")
    left.set(ylabel="-⟨μ, μ'⟩ of the means", title="(a) one neuron a cluster: KKT above the law")
    middle.set(title=f"(b) where flow ends, width {narrow}")
    if shown is not None:
        figure.colorbar(shown, ax=middle, label="breaking norm ÷ (‖u‖/k)")
    for index, (clusters, group) in enumerate(_limits(rows, QUIET).groups("clusters").items()):
        widths = sorted(group.distinct("neurons_width"))
        many = np.geomspace(widths[0] / 2, widths[-1] * 2, 50)
        law = [theory.one_a_class_probability(clusters, width) for width in many]
        right.plot(many, law, color=COLOURS[index], linestyle="--")
        share = [group.having(neurons_width=width).column("one_a_class").mean() for width in widths]
        right.plot(widths, share, "o", color=COLOURS[index], label=f"k = {clusters}")
    right.set(xscale="log", ylim=(-0.03, 1.03), xlabel="width", ylabel="share with one neuron a class")
    right.set_title("(c) the start decides, little noise")
    right.legend()
    return figure


def _settings(
    products: tuple[float, ...], dim: int = 10**6, clusters: int = 8, **other: int
) -> list[PhaseSetting]:
    return [
        PhaseSetting.at(product, level, dim, clusters, **other) for product in products for level in LEVELS
    ]


PHASE = Experiment(
    id="double-edged/phase",
    source="Frei et al. 2023, behind Theorem 4.2",
    title="Which KKT points exist, and at which one gradient flow ends",
    scales={
        "quick": _settings((-16.0, -64.0, -256.0)),
        "standard": [
            *_settings((-16.0, -32.0, -64.0, -128.0, -256.0), draws=8, starts=4),
            *_settings((-32.0, -128.0), clusters=12, draws=8, starts=4),
        ],
        "paper": [
            *_settings((-16.0, -32.0, -64.0, -128.0, -256.0), dim=10**7, draws=16, starts=8),
            *_settings((-32.0, -128.0), dim=10**7, clusters=12, draws=16, starts=8),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Clusters whose means have one negative inner product, in 10⁶ dimensions and inside Assumption 2.2: whether one neuron for each"
        " cluster is a KKT point of a sample, and the KKT points to which gradient flow goes from random starts, with the norms along"
        " u = Σ y_q μ_q at which they break; over inner product, noise and width."
    ),
    draw=draw,
)
