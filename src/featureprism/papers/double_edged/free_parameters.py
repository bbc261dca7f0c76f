"""Theorem 4.2's breaking norm where classes, means, norms and noise are free: it is ‖u‖/k, of which √(d/k) is the orthogonal case."""

from math import sqrt
from typing import Any

from featureprism.lab import Claim, Rows, Values, between, requires
from featureprism.papers.double_edged.setting import Trained, ours

LAW = between(0.95, 1.06)  # of norm ÷ (‖u‖/k)
OBTUSE = (1 / 4, -0.1)  # class balance and cosine of the setting in which clusters break at different norms


def free(case: str, dim: int, clusters: int, sigma: float = 1.0, **other: Any) -> Trained:
    """A setting of which only the exact KKT point is measured."""
    return Trained.of(dim, clusters, sigma=sigma, case=case, width=0, **other)


def _balance(
    dim: int, clusters: int, sigma: float, positives: tuple[int, ...], case: str = "balance"
) -> list[Trained]:
    return [free(case, dim, clusters, sigma, positives=number) for number in positives]


def _inside(dim: int, clusters: int, positives: tuple[int, ...]) -> list[Trained]:
    """σ = 1/√d at sizes inside Assumption 2.2."""
    return _balance(dim, clusters, 1 / sqrt(dim), positives, "balance-inside")


def _correlated(dim: int, cosines: tuple[float, ...], clusters: int = 8) -> list[Trained]:
    """Equal cosines between all means, and cosines drawn from -0.1 to 0.3."""
    equal = [free("correlated", dim, clusters, means="equal cosines", cosine=c) for c in cosines]
    return [*equal, free("correlated", dim, clusters, means="mixed cosines")]


def _others(dim: int, clusters: int = 8) -> list[Trained]:
    """Unequal classes with correlated means, unequal norms, other noise, σ > 1."""
    share, obtuse = OBTUSE
    few = round(share * clusters)
    both = [
        free("both", dim, clusters, positives=few, means="equal cosines", cosine=cosine)
        for cosine in (obtuse, 0.3)
    ]
    noises = [free("noise", dim, clusters, noise=noise) for noise in ("signs", "uneven", "heavy")]
    loud = [free("loud", dim, clusters, sigma) for sigma in (2.0, 3.0)]
    return [*both, free("norms", dim, clusters, norm_spread=0.3), *noises, *loud]


FREE_QUICK = [
    *_balance(600, 16, 1 / sqrt(600), (1, 2, 8)),
    *_inside(3000, 8, (1,)),
    *_correlated(500, (-0.1, 0.1, 0.3)),
    *_others(500),
]
FREE_STANDARD = [
    *_balance(1000, 16, 1.0, (1, 2, 4, 8)),
    *_balance(1000, 16, 1 / sqrt(1000), (1, 2, 4, 8)),
    *_inside(3000, 8, (1, 2)),
    *_correlated(1000, (-0.1, 0.1, 0.2, 0.3)),
    *_others(1000),
]
FREE_PAPER = [
    *_balance(1000, 16, 1.0, (1, 2, 4, 8)),
    *_inside(6000, 16, (1, 2, 4, 8)),
    *_correlated(3072, (-0.1, 0.1, 0.2, 0.3), 10),
    *_others(3072),
]


def _farthest(rows: Rows, field: str = "norm", **fields: Any) -> Values:
    return rows.of("critical", network="exact", **fields).farthest(field, 1.0)


def _law(name: str, what: str, note: str = "") -> Claim:
    return ours(
        name,
        "Theorem 4.2, sharp",
        f"norm along u that flips half of the points ÷ (‖u‖/k), {what}, the setting farthest from 1",
        lambda rows: _farthest(rows, case=name),
        LAW,
        note=note,
        premises=requires("assumption-2-2", "theorem-3-1", case=name),
    )


def _obtuse(rows: Rows) -> Rows:
    share, cosine = OBTUSE
    return rows.of("critical", case="both", cosine=cosine).where(lambda row: row["balance"] == share)


def _range_of_clusters(rows: Rows) -> str:
    own = _obtuse(rows)
    low, high = own.column("least_of_clusters").min(), own.column("most_of_clusters").max()
    return f"in unequal classes with obtuse means clusters break between {low:.2f} and {high:.2f} of ‖u‖/k; their mean is the law"


FREE_CLAIMS = (
    _law(
        "balance",
        "classes with 1/16 to 1/2 of the clusters",
        "biases add k(1 - 2c)²/(d + 1) of it",
    ),
    _law("balance-inside", "unequal classes inside the assumption"),
    ours(
        "balance-exponent",
        "Theorem 4.2, sharp",
        "power of the class balance c in that norm (the theorem's bound √(d/(c²k)) allows -1)",
        lambda rows: rows.of("critical", case="balance").slope("balance", "absolute"),
        between(-0.02, 0.02),
        premises=requires("assumption-2-2", "theorem-3-1", case="balance"),
    ),
    _law("correlated", "cosines from -0.1 to 0.3"),
    ours(
        "orthogonal-law",
        "Theorem 4.2, sharp",
        "the norm ÷ √(d/k) at cosine 0.3: √(d/k) is wrong there by the factor √0.7 = 0.837",
        lambda rows: rows.of("critical", case="correlated", cosine=0.3).mean("over_orthogonal"),
        between(0.80, 0.87),
    ),
    ours(
        "both",
        "Theorem 4.2, sharp",
        "unequal classes and correlated means: mean over clusters of the norm that flips half of one ÷ (‖u‖/k), farthest from 1",
        lambda rows: _farthest(rows, "mean_of_clusters", case="both"),
        LAW,
        note=_range_of_clusters,
    ),
    _law("norms", "means of norm 0.7 √d to 1.3 √d"),
    _law("noise", "noise of signs, of uneven variances and of heavy tails"),
    _law("loud", "σ = 2 and 3, beyond the σ ≤ 1 of the assumption"),
)
