"""Figure 1: the decision boundaries of both networks on a plane, and their distance from the centres along the universal direction."""

from math import sqrt
from typing import Any

import numpy as np
import torch

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between
from featureprism.lab.context import Context
from featureprism.lab.experiment import SCALES
from featureprism.lab.rows import Row
from featureprism.papers.feature_averaging.classifiers import classifiers, over_critical
from featureprism.papers.feature_averaging.drawing import NETWORKS
from featureprism.papers.feature_averaging.setting import Baseline

GRID = 31  # points of the slice in each direction
REACH = 1.3  # of the slice, in units of √d


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """Both classifiers on the plane through 0, the universal direction u and the first centre; and from every centre along u."""
    data, nets = classifiers(s, seed, context.progress)
    mu, labels, root = data.clusters.mu, data.clusters.labels, s.dim**0.5
    u = labels @ mu / (labels @ mu).norm()
    across = mu[0] - (mu[0] @ u) * u
    across = across / across.norm()
    axis = torch.linspace(-REACH, REACH, GRID, dtype=torch.float64) * root
    plane = (axis[:, None, None] * u + axis[None, :, None] * across).reshape(-1, s.dim)
    distances = torch.linspace(0, 1, 401, dtype=torch.float64) * root
    rows: list[Row] = []
    for name in ("two-class", "ten-class"):
        net = nets[name]
        with torch.no_grad():
            values = net(plane).reshape(GRID, GRID).tolist()
            away = [
                y * net(centre - y * distances.unsqueeze(1) * u) for centre, y in zip(mu, labels, strict=True)
            ]
        flipped = torch.stack(away) <= 0  # (k, distances)
        flips_at = torch.where(flipped.any(dim=1), distances[flipped.int().argmax(dim=1)], root)
        rows += [
            {"kind": "slice", "network": name, "along": x, "across": y, "value": values[i][j]}
            for i, x in enumerate(axis.tolist())
            for j, y in enumerate(axis.tolist())
        ]
        rows.append(
            {
                "kind": "centre",
                "network": name,
                "along": float(mu[0] @ u),
                "across": float(mu[0] @ across),
                "flips_at": float(flips_at.mean()),
                "flipped": float(flipped.any(dim=1).double().mean()),
            }
        )
    return rows


def linearity(rows: Rows) -> float:
    """R² of the best linear function on the slice: share of the variance of f that it explains."""
    x = np.stack([rows.column("along"), rows.column("across"), np.ones(len(rows))], axis=1)
    f = rows.column("value")
    if np.isnan(f).any() or len(rows) < 4:
        return float("nan")
    residual = f - x @ np.linalg.lstsq(x, f, rcond=None)[0]
    return float(1 - residual.var() / f.var())


CLAIMS = (
    Claim(
        "linear",
        source="Section 7 (1)",
        says="A two-layer ReLU network trained with two labels is approximately a linear classifier.",
        quantity="share of the variance of the output, on a plane through the first centre, that a linear function explains",
        bound=at_least(0.9),
        because="approximately linear is read as nine tenths of the variance",
        value=lambda rows: rows.of("slice", network="two-class").per_seed(linearity),
    ),
    Claim(
        "two-class",
        source="Remark 4.2, sharp",
        says="With two labels, a step of length √(d/k) from a cluster centre along the difference of the class means crosses the"
        " decision boundary.",
        quantity="distance from a centre to the boundary in that direction ÷ √(d/k), mean over centres",
        formula=r"\delta = \sqrt{d/k},\qquad \rho \parallel -y \textstyle\sum_j y_j \mu_j",
        bound=between(0.97, 1.03),
        because="the averaging classifier is linear along that direction and changes its sign at exactly √(d/k)",
        value=lambda rows: over_critical(rows.of("centre", network="two-class"), "flips_at"),
        origin="featureprism",
    ),
    Claim(
        "ten-class",
        source="beside Figure 1",
        says="With a label for each cluster, no step shorter than √d along the difference of the class means crosses the decision"
        " boundary from any cluster centre.",
        quantity="share of the centres from which the boundary is crossed within √d",
        bound=at_most(0.0),
        because="no centre may be an exception",
        value=lambda rows: rows.of("centre", network="ten-class").per_seed("flipped"),
        origin="featureprism",
        aggregate="worst",
    ),
)


def draw(rows: Rows) -> Any:
    """Both decision boundaries on the plane of the universal direction and a centre, first seed."""
    from featureprism.lab.style import panels

    rows = rows.having(seed=rows.seeds[0])
    names = rows.of("slice").distinct("network")
    figure, axes = panels(len(names), width=3.6, height=3.3)
    for panel, name in zip(axes, names, strict=True):
        own = rows.of("slice", network=name)
        root, k = sqrt(own[0]["dim"]), own[0]["positive"] + own[0]["negative"]
        along, across = (sorted(own.distinct(key)) for key in ("along", "across"))
        values = {(r["along"], r["across"]): r["value"] for r in own}
        grid = np.array([[values[a, c] for a in along] for c in across])
        panel.contourf(
            np.array(along) / root,
            np.array(across) / root,
            np.sign(grid),
            levels=[-2, 0, 2],
            colors=["#f5c9b0", "#bcd9ec"],
        )
        (centre,) = rows.of("centre", network=name)
        x, y = centre["along"] / root, centre["across"] / root
        panel.plot(x, y, "o", color="black", markersize=5)
        panel.annotate("μ₁", (x, y), xytext=(4, 4), textcoords="offset points")
        panel.annotate("", (x - 1 / sqrt(k), y), (x, y), arrowprops={"arrowstyle": "->", "color": "black"})
        panel.set(
            xlabel="along Σ y_j μ_j (units of √d)", ylabel="across", title=NETWORKS[name], aspect="equal"
        )
    return figure


FIGURE_1 = Experiment(
    id="feature-averaging/figure-1",
    source="Li et al. 2025, Figure 1",
    title="One direction crosses one boundary and not the other",
    scales={scale: [Baseline(test_points=10)] for scale in SCALES},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The paper sketches the two decision boundaries; here they are, on the plane through the origin, the universal direction"
        " Σ y_j μ_j and the first centre, for networks trained with two labels and with one label for each cluster. How far points are"
        " from them in all directions is measured in `figure-3`. The sketch has 3+2 clusters with Σ μ_j = 0; these are the"
        " 5+5 of Section 6."
    ),
)
