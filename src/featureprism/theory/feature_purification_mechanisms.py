"""The lemmas in the appendix of Allen-Zhu & Li 2020 as numbers of a setting: what a probe of a proof's mechanism should show.

The paper gives orders; where the distribution of the hidden vector fixes the constant, it stands here with the reason.
"""

import math
from typing import NamedTuple

import numpy as np

from featureprism.data.sparse_coding import HiddenVector

TAIL = 1e-12  # probability of what is left out of a sum of many coordinates


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
    """Exact: coordinates are independent, so that the numbers of positive minus negative ones of each level are nearly independent
    walks; jointly, one coordinate has at most one level, which the generating function Π_j(1 - q + Σ_v p_v(e^{iv} + e^{-iv})/2) knows.

    It is evaluated by convolving the law of a single coordinate with itself, over the lattice of (level, count).
    """
    if hidden.spread or len(hidden.levels) > 2:
        raise ValueError("The exact law of the score is for hidden vectors of at most two levels.")
    (first, p), (second, q) = (*hidden.levels, (0.0, 0.0))[:2]
    reach = [max(4, math.ceil(num * rate + 12 * math.sqrt(num * rate))) for rate in (p, q)]
    shape = [2 * r + 1 for r in reach]
    one = np.zeros(shape)
    one[0, 0] = 1 - p - q
    one[1, 0] = one[-1, 0] = p / 2
    one[0, 1] = one[0, -1] = one[0, 1] + q / 2
    law = np.real(np.fft.ifft2(np.fft.fft2(one) ** num)).clip(0)
    steps = [np.fft.fftfreq(n, 1 / n) for n in shape]
    values = steps[0][:, None] * first + steps[1][None, :] * second
    return Score(values.ravel(), (law / law.sum()).ravel())


def label_correlation(hidden: HiddenVector, size: float) -> float:
    """E[y | z_j = size] for w*_j = 1 = P(S > -size) - P(S < -size) = P(-size < S < size) + P(|S| = size)/2 by symmetry of the rest."""
    rest = score(hidden, hidden.dim - 1)
    return rest.between(-size, size) + (rest.within(size) - rest.between(-size, size)) / 2


def signal_growth(hidden: HiddenVector, alignment: float, bias: float) -> float:
    """d·E[y 1{⟨w_i, x⟩ ≥ b} z_j] of a neuron that only feature j opens: ½ d Σ_v P(|z_j| = v) v E[y | z_j = v] over v·alignment > b.

    Lemma C.8 says Θ(1); the small level counts only from |⟨w_i, M_j⟩| = √k b on.
    """
    levels = [(v, p) for v, p in hidden.levels if v * alignment > bias]
    return hidden.dim * sum(p * v * label_correlation(hidden, v) for v, p in levels) / 2


def normal_tail(size: float) -> float:
    """P(|N(0, 1)| ≥ size)."""
    return math.erfc(size / math.sqrt(2))


def noise_reach(norm: float, noise: float, dim: int, level: float) -> float:
    """P(|⟨w, ξ⟩| ≥ level), ⟨w, ξ⟩ ~ N(0, σ_x²‖w‖²/d): how often noise alone lifts a neuron so far. Lemma C.19 has level b/10."""
    return normal_tail(level * math.sqrt(dim) / (noise * norm))


def coupling_radius(bias: float, largest_norm: float) -> float:
    """b/max‖w_i‖: Lemma F.11 speaks of τ far below, where no closed neuron can open."""
    return bias / largest_norm


def dimension_for_noise(norm: float, noise: float, level: float, neurons: int) -> float:
    """The d from which noise lifts none of so many neurons to a level, 2 ln(neurons) σ_x²‖w‖²/level²."""
    return 2 * math.log(neurons) * (noise * norm / level) ** 2
