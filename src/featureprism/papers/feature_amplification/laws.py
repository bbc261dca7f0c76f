"""Sharp laws of the few steps of feature-amplification, with constants, derived here; none is printed in the paper.

Along one direction μ a neuron moves in one dimension. Let s be the number of right minus flipped labels in the cluster of μ, s' that
in the cluster of -μ, and one unit α/(2n√m), the size of what one point adds (the loss derivative is 1/2: outputs stay below 0.05 in
1 + 1/(4α) steps). At the start w·μ = ωz, z normal, and the neuron is active on the share p = Φ(z/(σ√d)) of the cluster and on 1 - p of
that opposite, so the first step adds g = s p - s'(1-p) for the neurons that vote for the label of ±μ and -g for those that vote
against it. From then on a neuron is active on one of the two clusters, whole: it gains s (or loses it, voting against) on the side of
μ, and s' on the side of -μ. Neurons that vote against are so thrown from side to side.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.papers.feature_amplification.theory import Sizes

NORMALS, FARTHEST = 400, 5.0  # the grid of z on [-5, 5]; an even number leaves out 0, where no neuron starts
SURPLUSES = 81  # the grid of each surplus, four standard deviations to either side


def first_gain(s: Sizes) -> float:
    """α(1-2η)/(8√m): what one step adds along a direction, n/4 points of which η are flipped."""
    return s.step_size * (1 - 2 * s.noise_rate) / (8 * math.sqrt(s.width))


def cosine_after_one_step(s: Sizes, z: float = 0.0) -> float:
    """(1+u)/√((1+u)²+1+q²), u = qz/√d, q = 8ω√(md)/(α(1-2η)) = 8/(C²α(1-2η)) on the edge of (A6); 1/√(2+q²) for large d.

    A gain along both directions, beside a start of norm ω√d, which has ωz of its own along μ.
    """
    q = s.start * math.sqrt(s.dim) / first_gain(s)
    along = 1 + q * z / math.sqrt(s.dim)
    return along / math.sqrt(along**2 + 1 + q**2)


def median_before(C0: float) -> float:
    """Median of √d cos(w_j, μ) over J_μ: of a normal variable beyond 1/(3C₀), Φ⁻¹(1 - Φ(-1/(3C₀))/2)."""
    tail = 0.5 * math.erfc(1 / (3 * C0) / math.sqrt(2))
    return _quantile(1 - tail / 2)


@dataclass(frozen=True)
class Positions:
    """Where neurons are along μ, in units of α/(2n√m): by their start z, whose weights sum to 1; for and against the label of μ."""

    before: Float[Tensor, "*s z"]
    right: Float[Tensor, "*s z"]
    wrong: Float[Tensor, "*s z"]
    weights: Float[Tensor, " z"]

    @property
    def output(self) -> Float[Tensor, "*s"]:
        """E φ(right) - E φ(wrong), of the sign of the margin at μ."""
        return ((self.right.clamp_min(0) - self.wrong.clamp_min(0)) * self.weights).sum(dim=-1)


def positions(s: Sizes, own: Float[Tensor, "*s"], opposite: Float[Tensor, "*s"]) -> Positions:
    """After all steps of the setting, for the surpluses of a cluster and of the cluster opposite."""
    z = torch.linspace(-FARTHEST, FARTHEST, NORMALS, dtype=torch.float64)
    weights = torch.exp(-(z**2) / 2)
    share = torch.special.ndtr(z / (s.sigma * math.sqrt(s.dim)))
    own, opposite = own.unsqueeze(-1), opposite.unsqueeze(-1)
    gain = own * share - opposite * (1 - share)
    before = (s.start / unit(s) * z).expand_as(gain)
    right, wrong = before + gain, before - gain
    for _ in range(s.steps - 1):
        right = torch.where(right > 0, right + own, right - opposite)
        wrong = torch.where(wrong > 0, wrong - own, wrong + opposite)
    return Positions(before, right, wrong, weights / weights.sum())


def unit(s: Sizes) -> float:
    """α/(2n√m): what one active point adds in one step."""
    return s.step_size / (2 * s.points * math.sqrt(s.width))


def even_positions(s: Sizes) -> Positions:
    """With surpluses as large as expected, n(1-2η)/4."""
    surplus = torch.tensor(s.points * (1 - 2 * s.noise_rate) / 4, dtype=torch.float64)
    return positions(s, surplus, surplus)


def margins(s: Sizes, own: Float[Tensor, "*s"], opposite: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """y f(μ) after all steps: m/2 neurons vote for the label and m/2 against it, each with 1/√m."""
    return positions(s, own, opposite).output * unit(s) * math.sqrt(s.width) / 2


def feature_change(s: Sizes) -> float:
    """‖φ(Wx) - φ(W⁰x)‖/‖φ(W⁰x)‖, with ‖φ(W⁰x)‖² = ω²(1+σ²d)m/2: near √(2d)(α+1/4)(1-2η)/16 ÷ ω√(md), √d more than the paper's."""
    at = even_positions(s)
    moved = sum((side.clamp_min(0) - at.before.clamp_min(0)) ** 2 for side in (at.right, at.wrong))
    after = math.sqrt(float((torch.as_tensor(moved) * at.weights).sum())) * unit(s)
    return after / (s.start * math.sqrt(1 + s.sigma**2 * s.dim))


def lost_cluster_chance(s: Sizes) -> float:
    """Chance that a cluster ends on the wrong side, which is the clean error to expect.

    Surpluses of a cluster and its opposite are sums over n independent points: mean n(1-2η)/4, variance n(1/4 - (1-2η)²/16),
    covariance -n(1-2η)²/16. The cluster is lost where the output is not positive; for σ√d → 0 and ω → 0 where s < 2s'/(3T-2), since all
    neurons that vote against it, also those thrown away first, come back to s' - (T-1)s. T → ∞: the majority of the labels decides.
    """
    signal = 1 - 2 * s.noise_rate
    variance, covariance = s.points * (0.25 - signal**2 / 16), -s.points * signal**2 / 16
    u = torch.linspace(-4, 4, SURPLUSES, dtype=torch.float64)
    weights = torch.exp(-(u**2) / 2) / torch.exp(-(u**2) / 2).sum()
    first, second = u.unsqueeze(1), u.unsqueeze(0)
    correlation = covariance / variance
    own = s.points * signal / 4 + math.sqrt(variance) * first.expand(SURPLUSES, SURPLUSES)
    other = correlation * first + math.sqrt(1 - correlation**2) * second
    lost = positions(s, own, s.points * signal / 4 + math.sqrt(variance) * other).output <= 0
    return float((lost.double() * weights.unsqueeze(1) * weights.unsqueeze(0)).sum())


def one_cluster_rate(s: Sizes, own: int, opposite: int) -> float:
    """The least rate η at which flips in one cluster alone lose it: its surplus is then own - 2ηn points, that opposite all its points.

    With equal sizes, σ√d → 0 and ω → 0: (1 - 2/(3T-2))/8, for T ≤ 4. NaN if it is never lost.
    """
    rates = torch.linspace(0, own / s.points, 1001, dtype=torch.float64)
    surplus = own - 2 * rates * s.points
    lost = positions(s, surplus, torch.full_like(rates, float(opposite))).output <= 0
    return float(rates[lost].min()) if bool(lost.any()) else math.nan


def _quantile(share: float) -> float:
    return float(torch.special.ndtri(torch.tensor(share, dtype=torch.float64)))
