"""Distance to the ideal network against noise and sample size: where the α² law of Theorem 1 gives way to α/√N."""

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values, log_slope
from featureprism.papers.beyond.phases import draw_phase
from featureprism.papers.gmm_flow import theorem_1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("distance", "predicted_distance", "over_predicted", "mass_error", "ended")
LINE = "N = α⁻²"  # the series on the boundary of the two laws
SOURCE = "beyond gmm-flow, Theorem 1"


def measure(s: theorem_1.ClosestApproach, seed: int, context: Context) -> list[Row]:
    """The least distance along one flow, beside κ_p α/√N, and the premises of Theorem 1."""
    summary, *rows = theorem_1.measure_closest(s, seed, context)
    cell = {"kind": "cell", **{name: summary[name] for name in COLUMNS}}
    return [cell, *(row for row in rows if row["kind"] == "premise")]


def points_for(alpha: float) -> int:
    """N = α⁻², a whole number."""
    return ceil(alpha**-2 - 1e-9)


def _mean_slope(rows: Rows, against: str, fixed: str) -> Values:
    """The slope of log distance against one parameter at fixed values of the other, averaged over these."""

    def mean_slope(run: Rows) -> float:
        lines = run.groups(fixed).values()
        return float(np.mean([log_slope(line.column(against), line.column("distance")) for line in lines]))

    return rows.of("cell").per_seed(mean_slope)


def _least_ratio(rows: Rows) -> str:
    return f"least over cells: {rows.of('cell').column('over_predicted').min():.2f}"


CLAIMS = (
    Claim(
        "exponent-fixed-n",
        source=SOURCE,
        says="With a fixed number of points a cluster, the least distance of the flow to the ideal network falls only like α.",
        quantity="exponent of α in the least distance along the flow at fixed N, mean over N",
        bound=between(0.8, 1.4),
        because="1 is the law κ_p α/√N; the α² of Theorem 1 needs N ≥ α⁻²",
        value=lambda rows: _mean_slope(rows, "alpha", "per_cluster"),
        origin="featureprism",
    ),
    Claim(
        "exponent-points",
        source=SOURCE,
        says="At fixed noise, the least distance of the flow to the ideal network falls like 1/√N.",
        quantity="exponent of N in the least distance along the flow at fixed α, mean over α",
        bound=between(-0.65, -0.35),
        because="-1/2 is the law κ_p α/√N",
        value=lambda rows: _mean_slope(rows, "per_cluster", "alpha"),
        origin="featureprism",
    ),
    Claim(
        "law",
        source=SOURCE,
        says="One law, κ_p α/√N, gives the least distance of the flow to the ideal network on both sides of N = α⁻².",
        quantity="least distance along the flow divided by κ_p α/√N, largest over cells",
        formula=r"\min_t \sup_x |f_t(x) - F^{(p)}(x)| \approx \kappa_p\, \alpha/\sqrt N",
        bound=between(0.9, 1.6),
        because="1 is the law of one cluster; the largest of several cells lies above it",
        value=lambda rows: rows.of("cell").largest("over_predicted"),
        origin="featureprism",
        note=_least_ratio,
    ),
)


def draw(rows: Rows) -> "Figure":
    """The distance over noise and points, with the law's contours and the line N = α⁻²."""
    return draw_phase(
        rows.of("cell"),
        "alpha",
        "per_cluster",
        "distance",
        theory="predicted_distance",
        boundary=lambda alpha: alpha**-2,
        label=LINE,
    )


def _settings(dim: int, alphas: tuple[float, ...], num_times: int) -> list[theorem_1.ClosestApproach]:
    return [
        theorem_1.ClosestApproach(
            series=LINE if alpha == other else "elsewhere",
            dim=dim,
            positive=2,
            negative=2,
            alpha=alpha,
            per_cluster=points_for(other),
            neurons_per_cluster=2,
            num_times=num_times,
            test_points=1,
        )
        for alpha in alphas
        for other in alphas
    ]


PHASE_NOISE = Experiment(
    id="beyond/phase-noise",
    source=SOURCE,
    title="Where the α² law gives way to α/√N",
    scales={
        "quick": _settings(400, (0.2, 0.1, 0.05), 12),
        "standard": _settings(1000, (0.2, 0.1, 0.05), 21),
        "paper": _settings(2000, (0.2, 0.126, 0.08, 0.05), 41),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Gradient flow on K = 2+2 clusters as in gmm-flow/theorem-1, over noise α and points a cluster N. The least distance"
        " sup|f - F^(p)| along the flow is κ_p α/√N everywhere; it is the α² of Theorem 1 on the line N = α⁻², larger below it,"
        " smaller above."
    ),
)
