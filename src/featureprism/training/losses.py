"""Losses with their normalisation named.

Gradient flow on c·L is gradient flow on L with time multiplied by c, so the normalisation sets the clock. With
K clusters of N points each, n = KN:

    sum           Σ_i ℓ_i            gmm-flow, eq. (7)
    per-cluster   (1/N) Σ_i ℓ_i      gmm-flow, Appendix E; every rate in the theory uses this clock
    mean          (1/n) Σ_i ℓ_i      gmm-flow, Appendix B.1; the other papers

    t_per-cluster = N · t_sum = t_mean / K
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

KINDS = ("square", "exponential", "logistic")
NORMALISATIONS = ("sum", "per-cluster", "mean")


@dataclass(frozen=True)
class Loss:
    """A loss L = scale · Σ_i ℓ(y_i, f(x_i)).

    Parameters
    ----------
    kind : str
        "square" for ½(y - f)², "exponential" for e^(-yf), "logistic" for ln(1 + e^(-yf)).
    normalisation : str
        "mean" divides by the number of points, "sum" by nothing, "per-cluster" by the points of a cluster.
    num_clusters : int, optional
        Needed for "per-cluster".

    Examples
    --------
    >>> import featureprism as fp
    >>> fp.training.Loss("logistic", "sum").kind
    'logistic'
    >>> fp.training.Loss("square", "per-cluster", num_clusters=4).num_clusters
    4
    """

    kind: str = "square"
    normalisation: str = "mean"
    num_clusters: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"Unknown loss {self.kind!r}; use square, exponential or logistic.")
        if self.normalisation not in NORMALISATIONS:
            raise ValueError(f"Unknown normalisation {self.normalisation!r}; use sum, per-cluster, mean.")
        if self.normalisation == "per-cluster" and not self.num_clusters:
            raise ValueError("The per-cluster loss needs num_clusters.")

    def scale(self, num_points: int) -> float:
        """What Σ_i ℓ_i is multiplied by: 1, K/n or 1/n."""
        if self.normalisation == "sum":
            return 1.0
        return (self.num_clusters or 1 if self.normalisation == "per-cluster" else 1) / num_points

    def value(self, f: Float[Tensor, "*s n"], y: Float[Tensor, " n"]) -> Float[Tensor, "*s"]:
        """L, for each network of a stack."""
        if self.kind == "square":
            terms = (y - f) ** 2 / 2
        elif self.kind == "exponential":
            terms = torch.exp(-y * f)
        else:
            terms = softplus(-y * f)
        return self.scale(y.shape[0]) * terms.sum(dim=-1)

    def residual(self, f: Float[Tensor, "*s n"], y: Float[Tensor, " n"]) -> Float[Tensor, "*s n"]:
        """g_i = ∂L/∂f(x_i), the scale included."""
        if self.kind == "square":
            slope = f - y
        elif self.kind == "exponential":
            slope = -y * torch.exp(-y * f)
        else:
            slope = -y * torch.sigmoid(-y * f)
        return self.scale(y.shape[0]) * slope
