"""How far data is from the mixture that a Gaussian head believes in, and what that distance does to its promises.

For any event the probabilities under data and mixture differ by at most the total variation; so does the share of points that hold up
to a radius. From below: each statistic of a point and its label has a known law under the mixture, and the largest gap between its
distribution functions (Kolmogorov-Smirnov) is at most the total variation. Compare arXiv 2605.25352: certificates that degrade with
the distance between data and mixture.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from featureprism.heads.gaussian import GaussianHead
from featureprism.lab.rows import Row

DRAWN = 400  # points of the mixture whose radii are compared with those of the data
FAILURE = 0.05  # probability that chance alone makes a gap as large as what is taken off


@dataclass(frozen=True)
class MixtureDistance:
    """Gaps of distribution functions, of distances from the mean and towards other classes; accuracy and radius of data and mixture."""

    shape_gap: float  # of (x - m)ᵀΣ⁻¹(x - m), which should be χ²_d
    direction_gap: float  # the largest towards another class, which should be normal
    by_chance: float  # what is taken off, for points are few
    accuracy: float
    mixture_accuracy: float
    radius: float  # medians, proven
    mixture_radius: float

    @property
    def variation_at_least(self) -> float:
        """A lower bound of the total variation between data and mixture, right with 95 % probability."""
        return max(max(self.shape_gap, self.direction_gap) - self.by_chance, 0.0)

    def as_row(self) -> Row:
        """The distance as a flat row."""
        names = ("shape_gap", "direction_gap", "by_chance", "accuracy", "mixture_accuracy", "radius")
        row = {name: getattr(self, name) for name in (*names, "mixture_radius", "variation_at_least")}
        return {"kind": "mixture", **row}


def mixture_distance(head: GaussianHead, X: Any, y: Any, *, radius: float | None = None) -> MixtureDistance:
    """The distance of points that the head was not fitted on; `radius`: the median that is proven of them, where it is known."""
    x, index = np.asarray(X, dtype=np.float64), head.class_indices(y).numpy()
    ranks = _ranks(head, x, index)
    gaps = [kolmogorov(column) for column in ranks.T]
    drawn, labels = head.sample(DRAWN, 0)
    believed = head.robust_radius(drawn, labels)
    known = head.robust_radius(x[:DRAWN], y[:DRAWN]).half_radius[0] if radius is None else radius
    return MixtureDistance(
        shape_gap=gaps[0],
        direction_gap=max(gaps[1:]),
        by_chance=math.sqrt(math.log(2 * len(gaps) / FAILURE) / (2 * len(x))),  # Massart 1990, and a union
        accuracy=float((head.predict(x) == np.asarray(y)).mean()),
        mixture_accuracy=float((believed.attacked > 0).mean()),
        radius=known,
        mixture_radius=believed.half_radius[0],
    )


def _ranks(
    head: GaussianHead, x: Float[np.ndarray, "n d"], index: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "n k"]:
    """Uniform on [0, 1] under the mixture: ranks of the distance from the own mean, and of the way towards each other class."""
    from scipy.special import gammainc, ndtr  # take a while

    k, d = head.means_.shape
    ranks = np.zeros((len(x), k))
    for c in range(k):
        rows, covariance = index == c, head.covariances_[min(c, len(head.covariances_) - 1)]
        noise = x[rows] - head.means_[c]
        solved = np.linalg.solve(covariance, noise.T).T
        ranks[rows, 0] = gammainc(d / 2, (noise * solved).sum(axis=1) / 2)
        for step in range(1, k):
            way = head.means_[(c + step) % k] - head.means_[c]
            spread = np.sqrt(max(way @ np.linalg.solve(covariance, way), 1e-300))
            ranks[rows, step] = ndtr(solved @ way / spread)
    return ranks


def kolmogorov(ranks: Float[np.ndarray, " n"]) -> float:
    """The largest gap between the distribution of numbers in [0, 1] and the uniform one."""
    ordered, n = np.sort(ranks), len(ranks)
    steps = np.arange(n + 1) / n
    return float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
