"""Points with labels and the clusters that they come from."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism._inputs import check_points


@dataclass(frozen=True)
class Dataset:
    """Points with labels ±1 and the cluster each point belongs to.

    Parameters
    ----------
    x : tensor (n, d)
        Points as rows.
    y : tensor (n,)
        Labels -1 or +1.
    cluster : tensor (n,)
        Index of the cluster of each point, the fine label.
    centres : tensor (k, d)
        Centres of the clusters.

    Examples
    --------
    >>> import featureprism as fp
    >>> clusters = fp.data.orthonormal_clusters(50, 2, 1, 0.1, generator=fp.generator_for("centres", 0))
    >>> data = fp.data.sample(clusters, 6, generator=fp.generator_for("data", 0))
    >>> data.x.shape, data.y.tolist()
    (torch.Size([6, 50]), [-1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """

    x: Float[Tensor, "n d"]
    y: Float[Tensor, " n"]
    cluster: Int[Tensor, " n"]
    centres: Float[Tensor, "k d"]

    def __post_init__(self) -> None:
        check_points(self.x, self.y)

    def to(self, dtype: torch.dtype) -> "Dataset":
        """The same data in another floating-point type."""
        return Dataset(self.x.to(dtype), self.y.to(dtype), self.cluster, self.centres.to(dtype))
