"""Distance to the ideal network against noise and sample size: where the α² law of Theorem 1 gives way to α/√N."""

from functools import partial
from math import ceil

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, Values, between, log_slope, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.gmm_flow import theorem_1
from featureprism.papers.gmm_flow.setting import THEOREM_1_PREMISES

COLUMNS = ("distance", "predicted_distance", "over_predicted", "mass_error", "ended")
LINE = "N = α⁻²"  # the series on the boundary of the two laws
SOURCE = "beyond gmm-flow, Theorem 1"
finding = partial(Claim, source=SOURCE, origin="featureprism")


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

    def mean_slope(own: Rows) -> float:
        lines = own.groups(fixed).values()
        return float(np.mean([log_slope(line.column(against), line.column("distance")) for line in lines]))

    return rows.of("cell").per_seed(mean_slope)


def _least_ratio(rows: Rows) -> str:
    return f"least over cells: {rows.of('cell').column('over_predicted').min():.2f}"


CLAIMS = (
    Claim(
        "exponent",
        "Min & Vidal 2025, Theorem 1, (12)",
        "with N = α⁻² points a cluster the distance falls like α²: slope of log distance against log α along that line",
        lambda rows: rows.of("cell", series=LINE).slope("alpha", "distance"),
        between(1.7, 2.3),
        premises=requires(*THEOREM_1_PREMISES, series=LINE),
    ),
    finding(
        "exponent-fixed-n",
        says="with any fixed number of points it falls like α only: the same slope at fixed N, mean over N",
        value=lambda rows: _mean_slope(rows, "alpha", "per_cluster"),
        bound=between(0.8, 1.4),
    ),
    finding(
        "exponent-points",
        says="and with more points like 1/√N: slope of log distance against log N at fixed α, mean over α",
        value=lambda rows: _mean_slope(rows, "per_cluster", "alpha"),
        bound=between(-0.65, -0.35),
    ),
    finding(
        "law",
        says="one law on both sides of the line: distance ÷ κ_p α/√N in the cell where it is largest",
        value=lambda rows: rows.of("cell").largest("over_predicted"),
        bound=between(0.9, 1.6),
        note=_least_ratio,
    ),
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
    about=(
        "Gradient flow on K = 2+2 clusters as in gmm-flow/theorem-1, over noise α and points a cluster N. The least distance"
        " sup|f - F^(p)| along the flow is κ_p α/√N everywhere; it is the α² of Theorem 1 on the line N = α⁻², larger below it,"
        " smaller above."
    ),
)
