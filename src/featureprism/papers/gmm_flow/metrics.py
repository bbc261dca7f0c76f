"""Proposition 1 in other metrics: its bound ½‖μ_k - μ_l‖ holds in every norm, but in ℓ1 and ℓ∞ the Bayes rule is far from it."""

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.lab import Claim, Experiment, Rows, Values, at_least, between
from featureprism.papers.gmm_flow.setting import Mixture, Setting, mixture
from featureprism.records import Row
from featureprism.theory import gmm_flow as theory

NORMS = {1.0: inf, 2.0: 2.0, inf: 1.0}  # each with its dual


@dataclass(frozen=True, kw_only=True)
class Metrics(Setting):
    """One mixture, every metric."""

    positive: int = 12
    negative: int = 8
    per_cluster: int = 1


def measure(s: Metrics, seed: int, context: Context) -> list[Row]:
    """Mean radius over test points in each metric ÷ the bound: of the nearest-cluster rule and of the nearest centre in the metric."""
    data = mixture(s, seed)
    rows: list[Row] = []
    for norm in NORMS:
        rule, matched = _radii(data, norm)
        bound = _bound(data, norm)
        rows.append(
            {
                "kind": "metric",
                "norm": "inf" if norm == inf else f"{norm:g}",
                "bound": bound,
                "rule": float(rule.mean()) / bound,
                "matched": float(matched.mean()) / bound,
                "predicted": 1.0 if norm == 2 else theory.metric_share(s.dim),
            }
        )
    context.progress(1.0)
    return rows


def _bound(data: Mixture, norm: float) -> float:
    """Where Proposition 1 breaks a cluster, half the way to the nearest centre of the other class: the mean over clusters."""
    mu, labels = data.clusters.mu, data.clusters.labels
    ways = _distances(mu, mu, norm).masked_fill(labels.unsqueeze(1) == labels, inf)
    return float(ways.amin(dim=1).mean()) / 2


def _distances(x: Tensor, centres: Tensor, norm: float) -> Tensor:
    return torch.stack([torch.linalg.vector_norm(x - centre, norm, dim=1) for centre in centres], dim=1)


def _radii(data: Mixture, norm: float) -> tuple[Tensor, Tensor]:
    """For each test point a radius that is proven for the nearest-cluster rule, and for the nearest centre in the metric.

    The rule compares scores ⟨x, μ_k⟩: nothing shorter than the least (gap of two scores)/‖μ_k - μ_l‖_q' flips it, and the attack
    along one coordinate (ℓ1) or all signs (ℓ∞) does. A nearest-centre rule holds up to half the gap of the two least distances.
    """
    mu, labels, x, y = data.clusters.mu, data.clusters.labels, data.test.x, data.test.y
    own = labels.unsqueeze(0) == y.unsqueeze(1)
    scores = x @ mu.T
    best = scores.masked_fill(~own, -inf).argmax(dim=1)
    gap = scores.gather(1, best.unsqueeze(1)) - scores
    slopes = _distances(mu, mu, NORMS[norm])[best]
    rule = (gap / slopes.clamp_min(1e-12)).masked_fill(own, inf).amin(dim=1)
    ways = _distances(x, mu, norm)
    matched = (ways.masked_fill(own, inf).amin(dim=1) - ways.masked_fill(~own, inf).amin(dim=1)) / 2
    return rule, matched


def _both(rows: Rows, column: str) -> Values:
    """The mean over ℓ1 and ℓ∞."""
    return (rows.of("metric", norm="1").mean(column) + rows.of("metric", norm="inf").mean(column)) / 2


CLAIMS = (
    Claim(
        "others",
        "Proposition 1 in ℓ1 and ℓ∞",
        "in ℓ2 the Bayes rule attains the bound, in ℓ1 and ℓ∞ it does not: radius ÷ ½‖μ_k - μ_l‖, mean of the two, ÷ the"
        " predicted √(π/2)/max|g|",
        lambda rows: _both(rows, "rule") / _both(rows, "predicted"),
        between(0.85, 1.15),
        origin="featureprism",
        note=lambda rows: f"{_both(rows, 'rule').mean():.2f} of the bound",
    ),
    Claim(
        "matched",
        "Proposition 1 in ℓ1 and ℓ∞",
        "but the bound is no worse there: the nearest centre in the metric itself reaches it, mean radius ÷ bound in ℓ∞",
        lambda rows: rows.of("metric", norm="inf").mean("matched"),
        at_least(0.9),
        origin="featureprism",
    ),
)


METRICS = Experiment(
    id="gmm-flow/metrics",
    source="Min & Vidal 2025, Proposition 1",
    title="The best possible radius in other metrics",
    scales={
        "quick": [Metrics(dim=400, test_points=200)],
        "standard": [Metrics(dim=dim, test_points=1000) for dim in (400, 2000)],
        "paper": [Metrics(dim=dim, test_points=2000) for dim in (400, 2000, 10000)],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "The attack of Proposition 1 goes to the midpoint of two centres, which is the midpoint in every norm. Whoever knows the"
        " centres can come near that bound in each metric, but not with one rule: the Bayes rule is best in ℓ2 alone."
    ),
)
