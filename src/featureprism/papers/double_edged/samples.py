"""How many points Theorem 3.1 needs: the test error against n/k is that of the clusters that no training point came from."""

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor

from featureprism.context import Context
from featureprism.data import GaussianClusters
from featureprism.lab import Rows, Values, above, between, requires
from featureprism.networks import TwoLayerNet, stack
from featureprism.papers.double_edged.setting import (
    Setting,
    clusters_of,
    ours,
    premises_of,
    test_blocks,
    training_set,
)
from featureprism.records import Row
from featureprism.theory import double_edged as theory
from featureprism.training import max_margin_network

RATIOS = (0.5, 1.0, 2.0, 3.0, 4.0)  # n/k
FEWEST = RATIOS[:3]  # where many clusters are lost
LOUD, STILL = "few points, σ = 1", "few points, σ = 1/√d"


@dataclass(frozen=True, kw_only=True)
class Sampled(Setting):
    """Training sets of n = ratio · k points, `draws` of them for each ratio; `points` is not used."""

    ratios: tuple[float, ...] = RATIOS
    draws: int

    @classmethod
    def loud_and_still(cls, dim: int, clusters: int, **other: Any) -> "list[Sampled]":
        """σ = 1 and σ = 1/√d, under names of their own: Theorem 3.1 speaks of more points."""
        loud, still = cls.usual(dim, clusters, **other), cls.within(dim, clusters, **other)
        return [replace(loud, case=LOUD), replace(still, case=STILL)]


def measure_samples(s: Sampled, seed: int, context: Context) -> list[Row]:
    """Test errors of exact KKT points of many small training sets, for every ratio n/k."""
    clusters = clusters_of(s, seed)
    rows: list[Row] = []
    for index, ratio in enumerate(s.ratios):
        few = replace(s, points=round(ratio * s.clusters))
        nets, lost = zip(*(_draw(few, clusters, seed, draw) for draw in range(s.draws)), strict=True)
        errors = _errors(few, clusters, seed, stack(nets), torch.stack(lost))
        law = theory.lost_cluster_error(s.clusters, few.points)
        strict = theory.lost_cluster_strict_error(s.clusters, few.points)
        excess = {"excess": errors["error"] - law, "strict_excess": errors["strict_error"] - strict}
        rows.append(
            {"kind": "sample", "ratio": ratio, "num_points": few.points, "law": law, **errors, **excess}
        )
        context.progress((index + 1) / len(s.ratios))
    most = replace(s, points=round(max(s.ratios) * s.clusters))
    return rows + premises_of(most, theory.separation(s, clusters.mu, clusters.labels))


def _draw(s: Sampled, clusters: GaussianClusters, seed: int, draw: int) -> tuple[TwoLayerNet, Tensor]:
    """The KKT point of one training set that has both classes, and which clusters it has no point of."""
    names = (f"{s.points} points, {draw}, {attempt}" for attempt in count())
    drawn = (training_set(s, clusters, seed, name) for name in names)
    train = next(data for data in drawn if len(torch.unique(data.y)) == 2)
    lost = torch.ones(s.clusters, dtype=torch.bool).index_fill(0, train.cluster, value=False)
    return max_margin_network(train.x, train.y).net, lost


@torch.no_grad()
def _errors(s: Sampled, clusters: GaussianClusters, seed: int, nets: TwoLayerNet, lost: Tensor) -> Row:
    """Means over training sets: wrong with sign(0) = -1, wrong or 0, clusters lost, and wrong on lost and on seen clusters."""
    sums = torch.zeros(4, dtype=torch.float64)
    for block in test_blocks(s, clusters, seed):
        margins = block.y * nets(block.x)  # (draws, n)
        wrong = (margins < 0) | ((margins == 0) & (block.y > 0))
        is_lost = lost[:, block.cluster]
        sums += torch.stack([part.double().sum() for part in (wrong, margins <= 0, wrong & is_lost, is_lost)])
    total = s.test_points * s.draws
    error, strict, wrong_lost, in_lost = sums.tolist()
    return {
        "error": error / total,
        "strict_error": strict / total,
        "lost": float(lost.double().mean()),
        "lost_error": wrong_lost / in_lost if in_lost else None,
        "seen_error": (error - wrong_lost) / (total - in_lost),
    }


def _farthest(rows: Rows, field: str) -> Values:
    return rows.of("sample", case=LOUD).farthest(field, 0.0)


def _seen(rows: Rows) -> str:
    largest = rows.of("sample").column("seen_error").max()
    return f"one point of a cluster is enough: the error on clusters with a point is at most {largest:.1g}"


SAMPLE_CLAIMS = (
    ours(
        "samples",
        "Theorem 3.1, sharp",
        "n ~ k points are needed because of lost clusters: test error (sign(0) = -1) minus ½(1 - 1/k)^n, farthest from 0 over n/k = 0.5"
        " to 4, σ = 1",
        lambda rows: _farthest(rows, "excess"),
        between(-0.04, 0.04),
        note=_seen,
        premises=requires("theorem-3-1", case=LOUD),
    ),
    ours(
        "samples-strict",
        "Theorem 3.1, sharp",
        "the same with y N(x) ≤ 0 as an error, as the theorem has it: minus ⅝(1 - 1/k)^n (N = 0 on ¼ of a lost cluster)",
        lambda rows: _farthest(rows, "strict_excess"),
        between(-0.04, 0.04),
        premises=requires("theorem-3-1", case=LOUD),
    ),
    ours(
        "samples-small-noise",
        "beyond Theorem 3.1",
        "with σ = 1/√d a lost cluster is worse than a coin flip: error on lost clusters, mean over n/k up to 2",
        lambda rows: (
            rows.of("sample", case=STILL).where(lambda row: row["ratio"] in FEWEST).mean("lost_error")
        ),
        above(0.52),
        note="there the biases decide, and they vote for the class of which more clusters were seen",
        premises=requires("theorem-3-1", case=STILL),
    ),
)
