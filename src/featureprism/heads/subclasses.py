"""Labels finer than the task needs: given with the data, or found by clustering within each class."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits
from torch import Tensor

from featureprism.heads.descent import Points

CLUSTERED = 10_000  # points of a class that k-means sees; the others join the nearest centre
NUMBERS = 10**8  # coordinates that are dense at a time
POINTS_EACH = 10  # points a sub-class has at least on average when their number is left open
MOST = 100  # and the largest number then


class Subclasses(NamedTuple):
    """The sub-class of every point, the class of every sub-class, and the mean of each."""

    label: Int[Tensor, " n"]
    parent: Int[Tensor, " s"]
    centre: Float[Tensor, "s d"]


def at_a_time(x: Points) -> int:
    """How many rows may be dense together."""
    return max(1, min(CLUSTERED, NUMBERS // x[torch.zeros(1, dtype=torch.long)].shape[1]))


def _centres(x: Points, label: Tensor, num: int) -> Float[Tensor, "s d"]:
    """The mean of every sub-class."""
    sums = torch.zeros_like(x[torch.zeros(1, dtype=torch.long)]).repeat(num, 1)
    for rows in torch.arange(len(x)).split(at_a_time(x)):
        sums.index_add_(0, label[rows], x[rows])
    return sums / torch.bincount(label, minlength=num).clamp_min(1).unsqueeze(1).to(sums.dtype)


def classes_alone(x: Points, y: Int[Tensor, " n"], num_classes: int) -> Subclasses:
    """Each class as its only sub-class."""
    return Subclasses(y, torch.arange(num_classes), _centres(x, y, num_classes))


def given_subclasses(x: Points, y: Int[Tensor, " n"], num_classes: int, fine: np.ndarray) -> Subclasses:
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
    x: Points,
    y: Int[Tensor, " n"],
    num_classes: int,
    num_subclasses: int | None,
    seed: int,
    weight: Float[Tensor, " n"] | None = None,
) -> Subclasses:
    """`num_subclasses` clusters of every class by k-means, one for each point of a class that has fewer.

    None: one for every 10 points of the smallest class, at most 100.
    """
    from sklearn.cluster import KMeans  # takes a second

    sizes, at_once = torch.bincount(y, minlength=num_classes), at_a_time(x)
    num = num_subclasses or max(1, min(MOST, int(sizes.min()) // POINTS_EACH))
    if num > int(sizes.max()):
        raise ValueError(
            f"Cannot split classes of at most {int(sizes.max())} points into {num} sub-classes; "
            "lower num_subclasses or give more points."
        )
    label, centres, parent = torch.zeros_like(y), [], []
    for c, size in enumerate(sizes.tolist()):
        rows, own, first = torch.nonzero(y == c)[:, 0], min(num, size), len(parent)
        step = -(-size // max(at_once, num))
        counts = None if weight is None else weight[rows[::step]].numpy()
        with threadpool_limits(1):  # waiting for each other costs threads more than they gain here
            means = KMeans(own, n_init="auto", random_state=seed).fit(
                x[rows[::step]].numpy(), sample_weight=counts
            )
            for part in rows.split(at_once):
                label[part] = torch.as_tensor(means.predict(x[part].numpy())).to(label.dtype) + first
        centres.append(torch.as_tensor(means.cluster_centers_))
        parent += [c] * own
    return Subclasses(label, torch.tensor(parent), torch.cat(centres))
