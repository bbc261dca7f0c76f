"""Points brought to common units before training, and the network brought back: radii are in the units of the points as given."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import unit_rows
from featureprism.heads.descent import Neurons, Points
from featureprism.heads.network import HeadNet

SCALINGS = ("auto", "points", "features")
UNITS_DIFFER = (
    100  # times the median variance: a mean variance above that is of a few features with large units
)
CHUNK = 4096  # sparse rows that are made dense at a time


@dataclass(frozen=True, eq=False)
class Scaling:
    """x ↦ (x - centre)/scale, feature by feature, and behind it a constant 1 for the bias where there is one."""

    centre: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    lifted: bool

    def points(self, X: Any, dtype: torch.dtype) -> Points:
        """Rows in the units of training; sparse ones stay sparse until a batch is asked for."""
        if is_sparse(X):
            return SparseRows(X, self, dtype)
        return self._dense(X, dtype)

    def _dense(self, X: Float[np.ndarray, "n d"], dtype: torch.dtype) -> Float[Tensor, "n e"]:
        x = torch.tensor((X - self.centre) / self.scale, dtype=dtype)
        return torch.cat([x, torch.ones(len(x), 1, dtype=dtype)], dim=1) if self.lifted else x

    def absorbed(self, W: Float[Tensor, "h e"], neurons: Neurons, p: float) -> HeadNet:
        """‖w_j‖ [⟨w_j/‖w_j‖, ((x - m)/s, 1)⟩]₊^p as a function of x, in float64."""
        W, centre = W.double(), torch.as_tensor(self.centre)
        U, norms = unit_rows(W), torch.linalg.vector_norm(W, dim=1)
        bias = U[:, -1] if self.lifted else torch.zeros(len(U), dtype=U.dtype)
        U = U[:, : len(centre)] / torch.as_tensor(self.scale)
        return HeadNet(U, bias - U @ centre, norms, neurons.owner, neurons.num_classes, p)


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a sparse matrix, dense and scaled when they are asked for."""

    X: Any
    scaling: Scaling
    dtype: torch.dtype

    def __len__(self) -> int:
        return self.X.shape[0]

    def __getitem__(self, batch: Tensor) -> Tensor:
        return self.scaling._dense(self.X[batch.numpy()].toarray(), self.dtype)


def is_sparse(X: Any) -> bool:
    """Whether this is a matrix or array of scipy.sparse."""
    return hasattr(X, "tocsr")


def fitted_scaling(X: Any, weight: Float[np.ndarray, " n"] | None, kind: str, lifted: bool) -> Scaling:
    """Points centred at their mean; in units of their root-mean-square distance from it ("points"), or of that of each feature.

    "auto" takes features where units differ by much, as in tables (iris 2, wine 11 600; embeddings and pixels 1 to 2); never for sparse
    points, whose rare features would drown the others.
    """
    centre, variance = _moments(X, weight)
    total = float(variance.sum())
    if not total > 0:
        raise ValueError(f"All {X.shape[0]} points are the same: constant features tell no classes apart.")
    varies = variance > 0
    differ = variance[varies].mean() > UNITS_DIFFER * np.median(variance[varies]) and not is_sparse(X)
    if kind == "features" or (kind == "auto" and differ):
        scale = np.where(varies, np.sqrt(variance * varies.sum()), np.sqrt(total))
    elif is_sparse(X):
        scale = np.full(len(centre), np.sqrt(total))
    else:
        scale = np.full(len(centre), np.sqrt(np.average(((X - centre) ** 2).sum(axis=1), weights=weight)))
    return Scaling(centre, scale, lifted)


def _moments(X: Any, weight: Float[np.ndarray, " n"] | None) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of every feature; one that varies by no more than rounding has variance 0."""
    num, eps = X.shape[0], np.finfo(np.float64).eps
    if is_sparse(X):
        share = np.full(num, 1 / num) if weight is None else weight / weight.sum()
        centre = np.asarray(X.T @ share)
        variance = np.asarray(X.multiply(X).T @ share) - centre**2
        rounding = num * eps * centre**2
    else:
        centre = np.average(X, axis=0, weights=weight)
        variance = np.average((X - centre) ** 2, axis=0, weights=weight)
        rounding = (num * eps * centre) ** 2
    return centre, np.where(variance > rounding, variance, 0.0)
