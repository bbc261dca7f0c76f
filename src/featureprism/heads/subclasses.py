"""Labels finer than the task needs: given with the data, or found by clustering within each class."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

CLUSTERED = 10_000  # points of a class that k-means sees; the others join the nearest centre
POINTS_EACH = 10  # points a sub-class has at least on average when their number is left open
MOST = 100  # and the largest number then


class Subclasses(NamedTuple):
    """The sub-class of every point, the class of every sub-class, and the mean of each."""

    label: Int[Tensor, " n"]
    parent: Int[Tensor, " s"]
    centre: Float[Tensor, "s d"]


def _centres(x: Tensor, label: Tensor, num: int) -> Float[Tensor, "s d"]:
    sums = torch.zeros(num, x.shape[1], dtype=x.dtype).index_add_(0, label, x)
    return sums / torch.bincount(label, minlength=num).clamp_min(1).unsqueeze(1).to(x.dtype)


def classes_alone(x: Float[Tensor, "n d"], y: Int[Tensor, " n"], num_classes: int) -> Subclasses:
    """Each class as its only sub-class."""
    return Subclasses(y, torch.arange(num_classes), _centres(x, y, num_classes))


def given_subclasses(
    x: Float[Tensor, "n d"], y: Int[Tensor, " n"], num_classes: int, fine: np.ndarray
) -> Subclasses:
    """Sub-classes from the user's finer labels; each must lie within one class."""
    if fine.shape != (len(x),):
        raise ValueError(f"Need one fine label per point: {len(x)} points, fine labels {fine.shape}.")
    names, label = np.unique(fine, return_inverse=True)
    label = torch.as_tensor(label)
    table = torch.zeros(len(names), num_classes, dtype=torch.long)
    table.index_put_((label, y), torch.ones(len(x), dtype=torch.long), accumulate=True)
    torn = (table > 0).sum(dim=1) > 1
    if bool(torn.any()):
        name = names[int(torn.nonzero()[0])]
        raise ValueError(f"Each fine label must belong to one class; {name!r} occurs in several.")
    return Subclasses(label, table.argmax(dim=1), _centres(x, label, len(names)))


def discovered_subclasses(
    x: Float[Tensor, "n d"], y: Int[Tensor, " n"], num_classes: int, num_subclasses: int | None, seed: int
) -> Subclasses:
    """`num_subclasses` clusters of every class by k-means; None: one for every 10 points of the smallest class, at most 100."""
    from sklearn.cluster import KMeans  # takes a second

    smallest = int(torch.bincount(y, minlength=num_classes).min())
    num = num_subclasses or max(1, min(MOST, smallest // POINTS_EACH))
    if num > smallest:
        raise ValueError(
            f"Cannot split a class of {smallest} points into {num} sub-classes; lower num_subclasses or give more points."
        )
    label, centres = torch.zeros_like(y), []
    for c in range(num_classes):
        rows = torch.nonzero(y == c)[:, 0]
        points = x[rows].numpy()
        step = -(-len(rows) // max(CLUSTERED, num))
        with threadpool_limits(1):  # waiting for each other costs threads more than they gain here
            means = KMeans(num, n_init="auto", random_state=seed).fit(points[::step])
        label[rows] = torch.as_tensor(means.predict(points)).to(label.dtype) + c * num
        centres.append(torch.as_tensor(means.cluster_centers_))
    parent = torch.arange(num_classes).repeat_interleave(num)
    return Subclasses(label, parent, torch.cat(centres).to(x.dtype))
