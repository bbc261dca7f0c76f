"""The 50 % radius against the number of clusters, for both kinds of supervision and unequal classes."""

from featureprism.networks import BinaryReadout
from featureprism.papers.feature_averaging.setting import (
    BASELINE,
    attack_facts,
    bracket,
    problem,
    train_k_class,
    train_two_class,
)
from featureprism.records import Claim, Experiment, Progress, Row, judge, log_slope, rows_of

RATE = 7.5e-3  # 7.5 times the baseline: the margins of many clusters grow slowly, and averaging does not mind (Figure 6)


def measure(setting: Row, seed: int, progress: Progress) -> list[Row]:
    """Radii of the two-class and the k-class network on k clusters."""
    data = problem(setting, seed)
    two = train_two_class(setting, data.train, seed)
    progress(0.3)
    fine = BinaryReadout(train_k_class(setting, data.train, seed), data.clusters.labels)
    progress(0.7)
    rows = []
    for name, net in (("two-class", two), ("k-class", fine)):
        found = bracket(net, data.test, gap=0.01)
        radius, proven = float(found.attacked.median()), float(found.certified.median())
        rows.append(
            {
                "kind": "radius",
                "network": name,
                "clusters": data.clusters.num_clusters,
                **attack_facts(found),
                "radius": radius / setting["dim"] ** 0.5,
                "certified_radius": proven / setting["dim"] ** 0.5,
            }
        )
    return rows


def slope(rows: list[Row], network: str, split: str, seed: int) -> float:
    """Least-squares slope of log radius against log k."""
    found = rows_of(rows, "radius", network=network, split=split, seed=seed)
    return log_slope([r["clusters"] for r in found], [r["radius"] for r in found])


def _claims(rows: list[Row]) -> list[Claim]:
    seeds = sorted({r["seed"] for r in rows})

    def claim(id: str, network: str, split: str, statement: str, bound: tuple[float, float]) -> Claim:
        return judge(
            f"scaling.{id}",
            "Section 4",
            statement,
            [slope(rows, network, split, s) for s in seeds],
            "in",
            bound,
        )

    return [
        claim(
            "two-class",
            "two-class",
            "equal",
            "two labels: slope of log radius against log k, equal classes",
            (-0.54, -0.46),
        ),
        claim("k-class", "k-class", "equal", "k labels: the same slope", (-0.05, 0.05)),
        claim(
            "two-class-unequal",
            "two-class",
            "unequal",
            "two labels, one class three times the other",
            (-0.54, -0.46),
        ),
        claim(
            "k-class-unequal",
            "k-class",
            "unequal",
            "k labels, one class three times the other",
            (-0.05, 0.05),
        ),
    ]


def _settings(counts: tuple[int, ...], dim: int, test_points: int) -> list[Row]:
    return [
        {
            **BASELINE,
            "dim": dim,
            "positive": k // 2 if split == "equal" else 3 * k // 4,
            "negative": k // 2 if split == "equal" else k // 4,
            "points": 40 * k,
            "step_size": RATE,
            "steps": 20 * k,
            "test_points": test_points,
            "split": split,
        }
        for split in ("equal", "unequal")
        for k in (counts if split == "equal" else (counts[0], counts[-1]))
    ]


SCALING = Experiment(
    id="feature-averaging/scaling",
    source="Li et al. 2025, Section 4",
    title="Two labels: the radius falls like 1/√k; k labels: it stays",
    scales={
        "quick": _settings((4, 8, 16), 1536, 24),
        "standard": _settings((4, 8, 16, 32), 4096, 200),
        "paper": _settings((4, 8, 16, 32, 64), 8192, 500),
    },
    measure=measure,
    claims=_claims,
    about=(
        "50 % radii (attacked end, with the proven end beside it) for 40 points a cluster, steps in proportion to k. Unequal: three"
        " quarters of the clusters are positive."
    ),
)
