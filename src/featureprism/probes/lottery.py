"""Which neurons drew a winning ticket at the start, and what became of them."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featureprism.data.sparse_coding import SparseCoding


@dataclass(frozen=True)
class Thresholds:
    """The constants of Definition B.1; σ_w is defined by the bias: b = √c1 σ_w √ln d."""

    c1: float
    c2: float
    bias: float
    dim: int

    @property
    def sigma_squared_log(self) -> float:
        """σ_w² ln d = b²/c1."""
        return self.bias**2 / self.c1

    @property
    def high(self) -> float:
        """√((c1 + c2) ln d) σ_w: a sure winner is above."""
        return math.sqrt((self.c1 + self.c2) * self.sigma_squared_log)

    @property
    def low(self) -> float:
        """√((c1 - c2) ln d) σ_w: whoever is below has lost."""
        return math.sqrt((self.c1 - self.c2) * self.sigma_squared_log)


LEAST_SMALL = 0.1  # of d/ln d coefficients are below σ_w/ln d in S_ept; a Gaussian start has √(2/π) of them


class Tickets(NamedTuple):
    """S_sure and S_pot as (neuron, feature) masks, S_ept as a neuron mask. Definition B.1."""

    sure: Bool[Tensor, "h D"]
    potential: Bool[Tensor, "h D"]
    regular: Bool[Tensor, " h"]


def tickets(W: Float[Tensor, "h d"], coding: SparseCoding, t: Thresholds, few: float = 20) -> Tickets:
    """The sets of Definition B.1 at one time; `few` stands for its O(1) (20/c0 in the proof), LEAST_SMALL for its Ω(1)."""
    A, sign = _correlations(W, coding)
    above, log = A.abs() >= t.low, math.log(t.dim)
    alone = above.sum(dim=1, keepdim=True) == 1
    sure = (A.abs() >= t.high) & alone & (A.sign() == sign)
    variance = t.sigma_squared_log / log
    regular = (A**2).sum(dim=1) <= 2 * variance * t.dim
    regular &= above.sum(dim=1) < few
    regular &= (2 * variance * math.sqrt(log) <= A**2).sum(dim=1) <= 2 ** -math.sqrt(log) * t.dim
    regular &= (A.abs() <= math.sqrt(variance) / log).sum(dim=1) >= LEAST_SMALL * t.dim / log
    return Tickets(sure, above, regular)


def included(first: Tensor, second: Tensor) -> float:
    """Share of the first set that lies in the second; 1 for an empty first set."""
    return float((first & second).sum() / first.sum()) if bool(first.any()) else 1.0


def predicted_feature(
    start: Float[Tensor, "h d"], coding: SparseCoding
) -> tuple[Int[Tensor, " h"], Float[Tensor, " h"]]:
    """argmax_j and max_j of the signed initial correlation sign(w*_j)⟨w_i⁰, M_j⟩."""
    A, sign = _correlations(start, coding)
    value, feature = (A * sign).max(dim=1)
    return feature, value


def learned_feature(W: Float[Tensor, "h d"], coding: SparseCoding) -> Int[Tensor, " h"]:
    """argmax_j |⟨w_i, M_j⟩|."""
    return _correlations(W, coding)[0].abs().argmax(dim=1)


def ranking_quality(score: Float[Tensor, " h"], positive: Bool[Tensor, " h"]) -> float:
    """AUC: how often a positive has the larger score than a negative, ties counting one half; NaN without both."""
    own, other = score[positive].double(), score[~positive].double()
    if not len(own) or not len(other):
        return math.nan
    difference = own.unsqueeze(1) - other
    return float(((difference > 0).double() + 0.5 * (difference == 0)).mean())


def _correlations(W: Tensor, coding: SparseCoding) -> tuple[Tensor, Tensor]:
    return W @ coding.M.to(W.dtype), torch.sign(coding.w.to(W.dtype))
