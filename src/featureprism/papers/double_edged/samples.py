"""How many points Theorem 3.1 needs: the test error against n/k is that of the clusters that no training point came from."""

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from featureprism.data import GaussianClusters
from featureprism.lab import Claim, Experiment, Rows, above, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.models.one_layer import stack
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.setting import (
    MixtureSetting,
    clusters_of,
    premises_of,
    test_blocks,
    training_set,
)
from featureprism.training import max_margin_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATIOS = (0.5, 1.0, 2.0, 3.0, 4.0)  # n/k
FEWEST = RATIOS[:3]  # where many clusters are lost
LOUD, STILL = "few points, σ = 1", "few points, σ = 1/√d"


@dataclass(frozen=True, kw_only=True)
class SampleSizeSetting(MixtureSetting):
    """Training sets of n = ratio · k points, `draws` of them for each ratio; `points` is not used."""

    ratios: tuple[float, ...] = RATIOS
    draws: int

    @classmethod
    def loud_and_still(cls, dim: int, clusters: int, **other: Any) -> "list[SampleSizeSetting]":
        """σ = 1 and σ = 1/√d, under names of their own: Theorem 3.1 speaks of more points."""
        loud, still = cls.usual(dim, clusters, **other), cls.within(dim, clusters, **other)
        return [replace(loud, case=LOUD), replace(still, case=STILL)]


def measure(s: SampleSizeSetting, seed: int, context: Context) -> list[Row]:
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


def _draw(
    s: SampleSizeSetting, clusters: GaussianClusters, seed: int, draw: int
) -> tuple[TwoLayerNet, Tensor]:
    """The KKT point of one training set that has both classes, and which clusters it has no point of."""
    names = (f"{s.points} points, {draw}, {attempt}" for attempt in count())
    drawn = (training_set(s, clusters, seed, name) for name in names)
    train = next(data for data in drawn if len(torch.unique(data.y)) == 2)
    lost = torch.ones(s.clusters, dtype=torch.bool).index_fill(0, train.cluster, value=False)
    return max_margin_network(train.x, train.y).net, lost


@torch.no_grad()
def _errors(
    s: SampleSizeSetting, clusters: GaussianClusters, seed: int, nets: TwoLayerNet, lost: Tensor
) -> Row:
    """Means over training sets: wrong with sign(0) = -1, wrong or 0, clusters lost, and wrong on lost and on seen clusters."""
    sums = torch.zeros(4, dtype=torch.float64)
    for block in test_blocks(s, clusters, seed):
        margins = block.y * nets(block.x)  # (draws, n)
        wrong = (margins < 0) | ((margins == 0) & (block.y > 0))
        is_lost = lost[:, block.cluster]
        sums += torch.stack([mask.double().sum() for mask in (wrong, margins <= 0, wrong & is_lost, is_lost)])
    total = s.test_points * s.draws
    error, strict, wrong_lost, in_lost = sums.tolist()
    return {
        "error": error / total,
        "strict_error": strict / total,
        "lost": float(lost.double().mean()),
        "lost_error": wrong_lost / in_lost if in_lost else None,
        "seen_error": (error - wrong_lost) / (total - in_lost),
    }


def _seen(rows: Rows) -> str:
    largest = rows.of("sample").column("seen_error").max()
    return f"one point of a cluster is enough: the error on clusters with a point is at most {largest:.1g}"


CLAIMS = (
    Claim(
        "samples",
        source="Theorem 3.1, sharp",
        says="With few training points the max-margin network errs on half of the points of the clusters that it has never seen, and"
        " on no others.",
        quantity="|test error - ½(1 - 1/k)^n|, largest over n/k from 0.5 to 4, σ = 1",
        formula=r"\Pr[\text{wrong}] = \tfrac12 (1 - 1/k)^n",
        bound=at_most(0.04),
        because="four standard errors of the mean over 100 training sets of 8 points from 16 clusters",
        value=lambda rows: abs(rows.of("sample", case=LOUD).farthest("excess", 0.0)),
        origin="featureprism",
        note=_seen,
        premises=requires("theorem-3-1", case=LOUD),
    ),
    Claim(
        "samples-small-noise",
        source="beyond Theorem 3.1",
        says="Where the noise is small a max-margin network does worse than a coin flip on clusters that it has never seen.",
        quantity="error on unseen clusters, mean over n/k up to 2, σ = 1/√d",
        bound=above(0.52),
        because="a coin flip has 0.5; the biases vote for the class of which more clusters were seen, and an unseen cluster is more"
        " often of the other class",
        value=lambda rows: (
            rows.of("sample", case=STILL).where(lambda row: row["ratio"] in FEWEST).mean("lost_error")
        ),
        origin="featureprism",
        premises=requires("theorem-3-1", case=STILL),
    ),
)


def draw(rows: Rows) -> "Figure":
    """Test error against n/k beside that of lost clusters."""
    from featureprism.lab.style import COLOURS, over_seeds, panels

    figure, (axes,) = panels(1, width=4.2, height=3.0)
    for colour, (case, group) in zip(COLOURS, rows.of("sample").groups("case").items(), strict=False):
        x, low, mean, high = over_seeds(group, "ratio", "error")
        axes.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, label=case)
    x, _, law, _ = over_seeds(rows.of("sample"), "ratio", "law")
    axes.plot(x, law, "--", color="0.4", label="½(1 - 1/k)^n")
    axes.set(xlabel="training points for each cluster, n/k", ylabel="test error")
    axes.legend()
    return figure


SAMPLES = Experiment(
    id="double-edged/samples",
    source="Frei et al. 2023, Theorem 3.1",
    title="How many points it takes: one from each cluster",
    scales={
        "quick": SampleSizeSetting.loud_and_still(1000, 16, draws=100),
        "standard": SampleSizeSetting.loud_and_still(1000, 16, draws=200, test_points=4000),
        "paper": SampleSizeSetting.loud_and_still(6000, 16, draws=200, test_points=10000),
    },
    measure=measure,
    claims=CLAIMS,
    about="Max-margin networks of many small training sets: the test error against n/k, on clusters with and without a training point.",
    draw=draw,
)
