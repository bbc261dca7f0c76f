"""The lemmas in the appendix of Allen-Zhu & Li 2020 as numbers of a setting: what a probe of a proof's mechanism should show.

The paper gives orders; where the distribution of the hidden vector fixes the constant, it stands here with the reason.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data.sparse_coding import HiddenVector

RARE = 1e-7  # probability of values of the score that are left out


class Score(NamedTuple):
    """The distribution of S = Σ_j w*_j z_j over `num` coordinates with w* = ±1: values and their probabilities."""

    values: np.ndarray
    chances: np.ndarray

    def between(self, low: float, high: float) -> float:
        """P(low < S < high), ends left out."""
        inside = (self.values > low + 1e-9) & (self.values < high - 1e-9)
        return float(self.chances[inside].sum())

    def within(self, size: float) -> float:
        """P(|S| ≤ size), ends included."""
        return float(self.chances[np.abs(self.values) <= size + 1e-9].sum())


def score(hidden: HiddenVector, num: int) -> Score:
    """Exact: the law of one coordinate on the lattice of (count of the first level, count of the second), convolved `num` times.

    Counts beyond 12 standard deviations wrap around; their probability is below 1e-12.
    """
    if hidden.spread or len(hidden.levels) > 2:
        raise ValueError("The exact law of the score is for hidden vectors of at most two levels.")
    (first, p), (second, q) = (*hidden.levels, (0.0, 0.0))[:2]
    shape = [2 * math.ceil(4 + num * rate + 12 * math.sqrt(num * rate)) + 1 for rate in (p, q)]
    one = np.zeros(shape)
    one[0, 0] = 1 - p - q
    one[1, 0] = one[-1, 0] = p / 2
    one[0, 1] = one[0, -1] = q / 2
    law = np.real(np.fft.ifft2(np.fft.fft2(one) ** num)).clip(0)
    counts = [np.fft.fftfreq(n, 1 / n) for n in shape]
    values = counts[0][:, None] * first + counts[1][None, :] * second
    return Score(values.ravel(), (law / law.sum()).ravel())


def growth_law(
    hidden: HiddenVector,
    alignment: Float[Tensor, " n"],
    mixture: Float[Tensor, " n"],
    spread: Float[Tensor, " n"],
    bias: float,
) -> Float[Tensor, " n"]:
    """d·E[y 1{u ≥ b} z_j] w*_j, ties drawn again, for u = A w*_j z_j + β S + N(0, spread²), S = Σ_{j' ≠ j} w*_j' z_j', w* = ±1.

    A = ⟨w_i, M_j⟩ w*_j and β, the mean of the others, is the regression of the rest on S, which decides y. By symmetry
        ½ d Σ_v P(|z_j| = v) v E_S[sign(v + S) (Φ((vA + βS - b)/spread) + Φ((-vA - βS - b)/spread))] / P(no tie),
    S exact. For A > b it is Θ(1), Lemma C.8, and more with β > 0; for A far below b it is of the order of Γ, Lemma C.10.
    """
    rest = score(hidden, hidden.dim - 1)
    common = rest.chances > RARE
    S, chance = (torch.from_numpy(part[common]).to(alignment.dtype) for part in rest)
    total = torch.zeros_like(alignment)
    for value, rate in hidden.levels:
        sign = torch.sign(torch.where((value + S).abs() < 1e-9, torch.zeros_like(S), value + S))
        u = value * alignment.unsqueeze(1) + mixture.unsqueeze(1) * S
        width = spread.unsqueeze(1)
        opened = torch.special.ndtr((u - bias) / width) + torch.special.ndtr((-u - bias) / width)
        total = total + hidden.dim * rate * value / 2 * (opened @ (chance * sign))
    return total / (1 - score(hidden, hidden.dim).within(0.0))


def normal_tail(size: float) -> float:
    """P(|N(0, 1)| ≥ size)."""
    return math.erfc(size / math.sqrt(2))


def noise_reach(norm: float, noise: float, dim: int, level: float) -> float:
    """P(|⟨w, ξ⟩| ≥ level), ⟨w, ξ⟩ ~ N(0, σ_x²‖w‖²/d): how often noise alone lifts a neuron so far. Lemma C.19 has level b/10."""
    return normal_tail(level * math.sqrt(dim) / (noise * norm))


def dimension_for_noise(norm: float, noise: float, level: float, neurons: int) -> float:
    """The d from which noise lifts none of so many neurons to a level, 2 ln(neurons) σ_x²‖w‖²/level²."""
    return 2 * math.log(neurons) * (noise * norm / level) ** 2
