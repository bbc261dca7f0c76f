"""Distance to the ideal network against noise and sample size: where the α² law of Theorem 1 gives way to α/√N."""

from math import ceil

from featureprism.papers.gmm_flow import theorem
from featureprism.records import Claim, Experiment, Progress, Row, judge, log_slope, rows_of, seeds_of

COLUMNS = ("distance", "predicted_distance", "mass_error", "ended")


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """The least distance along one flow, beside κ_p α/√N."""
    summary = theorem.measure(setting, seed, progress)[0]
    return [{"kind": "cell", **{name: summary[name] for name in COLUMNS}}]


def on_the_line(row: Row) -> bool:
    """Whether N = α⁻², the boundary of the two laws."""
    return row["per_cluster"] == points_for(row["alpha"])


def points_for(alpha: float) -> int:
    """N = α⁻², a whole number."""
    return ceil(alpha**-2 - 1e-9)


def slopes(rows: list[Row], against: str, fixed: str) -> list[float]:
    """Per seed the slope of log distance against one parameter at fixed values of the other, averaged over these."""
    means = []
    for seed in seeds_of(rows):
        own = rows_of(rows, "cell", seed=seed)
        lines = [[r for r in own if r[fixed] == value] for value in sorted({r[fixed] for r in own})]
        found = [log_slope([r[against] for r in line], [r["distance"] for r in line]) for line in lines]
        means.append(sum(found) / len(found))
    return means


def _claims(rows: list[Row]) -> list[Claim]:
    lines = [[r for r in rows_of(rows, "cell", seed=s) if on_the_line(r)] for s in seeds_of(rows)]
    ratios = [
        [r["distance"] / r["predicted_distance"] for r in rows_of(rows, "cell", seed=s)]
        for s in seeds_of(rows)
    ]
    source = "beyond gmm-flow, Theorem 1"
    return [
        judge(
            "phase-noise.exponent",
            source,
            "with N = α⁻² points a cluster the distance falls like α²: slope of log distance against log α along that line",
            [log_slope([r["alpha"] for r in line], [r["distance"] for r in line]) for line in lines],
            "in",
            (1.7, 2.3),
        ),
        judge(
            "phase-noise.exponent-fixed-n",
            source,
            "with any fixed number of points it falls like α only: the same slope at fixed N, mean over N",
            slopes(rows, "alpha", "per_cluster"),
            "in",
            (0.8, 1.4),
        ),
        judge(
            "phase-noise.exponent-points",
            source,
            "and with more points like 1/√N: slope of log distance against log N at fixed α, mean over α",
            slopes(rows, "per_cluster", "alpha"),
            "in",
            (-0.65, -0.35),
        ),
        judge(
            "phase-noise.law",
            source,
            "one law on both sides of the line: distance ÷ κ_p α/√N in the cell where it is largest",
            [max(values) for values in ratios],
            "in",
            (0.9, 1.6),
            f"least over cells: {min(min(v) for v in ratios):.2f}" if ratios else "",
        ),
    ]


def _settings(dim: int, alphas: tuple[float, ...], num_times: int) -> list[Row]:
    size = {
        "dim": dim,
        "positive": 2,
        "negative": 2,
        "neurons_per_cluster": 2,
        "test_points": 1,
        "num_times": num_times,
    }
    return [{**size, "alpha": a, "per_cluster": points_for(b)} for a in alphas for b in alphas]


PHASE_NOISE = Experiment(
    id="beyond/phase-noise",
    source="beyond gmm-flow, Theorem 1",
    title="Where the α² law gives way to α/√N",
    scales={
        "quick": _settings(400, (0.2, 0.1, 0.05), 12),
        "standard": _settings(1000, (0.2, 0.126, 0.08, 0.05), 41),
        "paper": _settings(2000, (0.2, 0.126, 0.08, 0.05, 0.035), 81),
    },
    measure=measure,
    claims=_claims,
    about=(
        "Gradient flow on K = 2+2 clusters as in gmm-flow/theorem-1, over noise α and points a cluster N. The least distance"
        " sup|f - F^(p)| along the flow is κ_p α/√N everywhere; it is the α² of Theorem 1 on the line N = α⁻², larger below it,"
        " smaller above."
    ),
)
