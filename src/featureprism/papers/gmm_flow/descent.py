"""Gradient descent of Appendix B.1 from small starts, as in Figures 5 and 6: alignment, loss and distance to F^(p) along the way."""

from dataclasses import dataclass
from math import inf, isfinite, log, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from featureprism._progress import part
from featureprism.data.dataset import Dataset
from featureprism.lab import Rows
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.models.one_layer import stack
from featureprism.networks import (
    PolynomialClassifier,
    PolynomialReLU,
    TwoLayerNet,
    gaussian_shape,
    nudge_to_own_class,
)
from featureprism.networks.initial import nudge_as_printed, random_signs
from featureprism.papers.gmm_flow import theory
from featureprism.papers.gmm_flow.setting import (
    Mixture,
    SampledGMM,
    Start,
    mixture,
    start_from,
    theorem_1_premises,
)
from featureprism.probes import alignment, sphere_distance
from featureprism.probes.alignment import alive, quartiles
from featureprism.probes.voronoi import nondegeneracy_gap
from featureprism.seeds import generator_for
from featureprism.training import Loss, gradient_descent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EPSILON = 1e-7  # Appendix B.1
STEP_SIZE = 0.2  # Appendix B.1
NUDGE = 0.05  # Appendix B.1
# D = 1000 and n = 5000 are those of Appendix B.1; width and number of steps are not stated. Steps beyond t = 50 only fit the noise.
SIZES: dict[str, dict[str, Any]] = {
    "quick": {"dim": 500, "per_cluster": 100, "width": 100, "steps": 200, "distance_every": 10},
    "standard": {"dim": 1000, "per_cluster": 200, "width": 100, "steps": 250, "distance_every": 10},
    "paper": {"dim": 1000, "per_cluster": 500, "width": 100, "steps": 250, "distance_every": 10},
}


@dataclass(frozen=True, kw_only=True)
class DescentFromSmallStarts(SampledGMM):
    """Descent from the named starts, on the mixture of Appendix B.1; the distance to F^(p) is measured now and then."""

    width: int
    steps: int
    distance_every: int
    starts: tuple[str, ...] = ("random",)
    positive: int = 5
    negative: int = 5


def starts_of(s: DescentFromSmallStarts, data: Mixture, seed: int) -> list[Start]:
    """The named starts, which share the random shape and the signs."""
    mu, labels = data.clusters.mu, data.clusters.labels
    shape = gaussian_shape(s.width, s.dim, generator=generator_for("shape", seed))
    signs = random_signs(s.width, generator=generator_for("signs", seed))
    nudge = generator_for("nudge", seed)
    shapes = {
        "random": lambda: shape,
        "nudged as printed": lambda: nudge_as_printed(shape, mu, NUDGE, generator=nudge),
        "nudged": lambda: nudge_to_own_class(shape, signs, mu, labels, NUDGE, generator=nudge),
    }
    return [start_from(shapes[name](), signs, log(EPSILON), data.clusters) for name in s.starts]


def measure(s: DescentFromSmallStarts, seed: int, context: Context) -> list[Row]:
    """Descent from the named starts, all in one stack; the premises are those of the last start."""
    data = mixture(s, seed)
    clusters, points = data.clusters, data.train.to(torch.float32)
    starts = starts_of(s, data, seed)
    trajectory = gradient_descent(
        stack([start.weights.to_net(PolynomialReLU(s.p)) for start in starts]).float(),
        points.x,
        points.y,
        loss=Loss("square", "per-cluster", clusters.num_clusters),
        step_size=STEP_SIZE,
        steps=s.steps,
        record=[*range(0, 100, 2), *range(100, s.steps, 10)],
        progress=part(context.progress, 0, 0.6),
    )
    ideal = PolynomialClassifier(clusters.mu, clusters.labels, s.p)
    rows: list[Row] = [
        {"kind": "shape", "start": name, "median_margin": float(start.margin.median())}
        for name, start in zip(s.starts, starts, strict=True)
    ]
    for index, (step, nets) in enumerate(zip(trajectory.times, trajectory.snapshots, strict=True)):
        for number, name in enumerate(s.starts):
            row = {"kind": "step", "start": name, "step": int(step), "ended": trajectory.ended.name}
            row |= _state(nets[number], clusters.mu, points)
            if int(step) % s.distance_every == 0:
                row["distance"] = sphere_distance(nets[number], ideal).value
            rows.append(row)
        context.progress(0.6 + 0.4 * (index + 1) / len(trajectory.times))
    return rows + _premises(s, data, starts[-1])


def _state(net: TwoLayerNet, mu: Tensor, points: Dataset) -> Row:
    with torch.no_grad():
        W, a = net.W.detach(), net.a.detach()
        cosine = alignment(W, mu)
        low, median, high = quartiles(cosine)
        return {
            "alignment_low": low,
            "alignment": median,
            "alignment_high": high,
            "alignment_alive": quartiles(cosine[alive(W, a)]).median,
            "mean_square": float(((points.y - net(points.x)) ** 2).mean()),
        }


def _premises(s: DescentFromSmallStarts, data: Mixture, start: Start) -> list[Row]:
    net = start.weights.to_net(PolynomialReLU(s.p))
    medians = {
        "kind": "start",
        "median_margin": float(start.margin.median()),
        "median_gap": float(nondegeneracy_gap(start.margin).median()),
    }
    balance = theory.assumption_1(net.W.detach(), net.a.detach())
    return [
        medians,
        *(premise.as_row() for premise in balance),
        *theorem_1_premises(s, data, start, log(EPSILON)),
    ]


def closest_over_tilt(run: Rows) -> float:
    """The least distance to F^(p) on the way ÷ (α/√N)."""
    distances = run.column("distance")
    least = distances[np.isfinite(distances)].min(initial=inf)
    return least * run[0]["per_cluster"] ** 0.5 / run[0]["alpha"] if isfinite(least) else nan


def draw(rows: Rows) -> "Figure":
    """Alignment, loss and distance along descent, one colour for each start."""
    from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels

    figure, (first, second, third) = panels(3, width=3.1, height=2.8)
    steps = rows.of("step")
    for colour, start in zip(COLOURS, steps.distinct("start"), strict=False):
        run, dashed = steps.having(start=start), start == "nudged as printed"
        x, _, median, _ = over_seeds(run, "step", "alignment")
        low, high = over_seeds(run, "step", "alignment_low")[2], over_seeds(run, "step", "alignment_high")[2]
        band(first, x, low, median, high, colour, start, dashed)
        band(second, *over_seeds(run, "step", "mean_square"), colour, start, dashed)
        band(third, *over_seeds(run, "step", "distance"), colour, start, dashed)
    sizes = steps[0]
    guide(second, sizes["p"] ** 2 * sizes["alpha"] ** 2 / sizes["dim"], "p²α²/D", along="y")
    tilt = sizes["alpha"] / sizes["per_cluster"] ** 0.5
    guide(third, theory.kappa(sizes["p"]) * tilt, "κ α/√N", along="y")
    first.set(xlabel="step", ylabel="largest cosine with a centre", title="(a) alignment: median, quartiles")
    second.set(xlabel="step", ylabel="mean square", yscale="log", title="(b) training loss")
    third.set(xlabel="step", ylabel="sup |f - F|", yscale="log", title="(c) distance to F³ on the sphere")
    first.legend(loc="lower right")
    return figure
