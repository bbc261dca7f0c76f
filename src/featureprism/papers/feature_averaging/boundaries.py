"""Figure 1: the decision boundaries of both networks on a plane, and their distance from the centres along the universal direction."""

import numpy as np
import torch

from featureprism.context import Context
from featureprism.lab import SCALES, Claim, Experiment, Rows, Values, above, at_least, at_most, between
from featureprism.papers.feature_averaging.figures import classifiers, over_critical
from featureprism.papers.feature_averaging.setting import Setting, ours
from featureprism.records import Row

GRID = 31  # points of the slice in each direction
REACH = 1.3  # of the slice, in units of √d


def measure_1(s: Setting, seed: int, context: Context) -> list[Row]:
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


def linearity(own: Rows) -> float:
    """R² of the best linear function on the slice: share of the variance of f that it explains."""
    x = np.stack([own.column("along"), own.column("across"), np.ones(len(own))], axis=1)
    f = own.column("value")
    if np.isnan(f).any() or len(own) < 4:
        return float("nan")
    left = f - x @ np.linalg.lstsq(x, f, rcond=None)[0]
    return float(1 - left.var() / f.var())


def _linear(rows: Rows, network: str) -> Values:
    return rows.of("slice", network=network).per_seed(linearity)


CLAIMS_1 = (
    Claim(
        "linear",
        "Section 7 (1)",
        "the two-class network is approximately linear: R² of a linear function on the slice",
        lambda rows: _linear(rows, "two-class"),
        at_least(0.9),
        note="read as 90 % of the variance; the schematic Figure 4 has nothing to measure",
    ),
    ours(
        "less-linear",
        "beside Section 7 (1)",
        "the network of ten labels is less so: unexplained variance, ten labels ÷ two",
        lambda rows: (1 - _linear(rows, "ten-class")) / (1 - _linear(rows, "two-class")),
        above(1.5),
    ),
    ours(
        "two-class",
        "Remark 4.2, sharp",
        "from a centre, the universal direction crosses the two-class boundary: distance ÷ √(d/k), mean over centres",
        lambda rows: over_critical(rows.of("centre", network="two-class"), "flips_at"),
        between(0.97, 1.03),
    ),
    ours(
        "ten-class",
        "beside Figure 1",
        "and not that of the network with labels for each cluster: share of centres from which it is crossed within √d",
        lambda rows: rows.of("centre", network="ten-class").per_seed("flipped"),
        at_most(0.0),
    ),
)


FIGURE_1 = Experiment(
    id="feature-averaging/figure-1",
    source="Li et al. 2025, Figure 1",
    title="One direction crosses one boundary and not the other",
    scales={scale: [Setting(test_points=10)] for scale in SCALES},
    measure=measure_1,
    claims=CLAIMS_1,
    about=(
        "The paper sketches the two decision boundaries; here they are, on the plane through the origin, the universal direction"
        " Σ y_j μ_j and the first centre, for networks trained with two labels and with one label for each cluster. How far points are"
        " from them in all directions is `figure-3.farther`. The sketch has 3+2 clusters with Σ μ_j = 0; these are the"
        " 5+5 of Section 6."
    ),
)
