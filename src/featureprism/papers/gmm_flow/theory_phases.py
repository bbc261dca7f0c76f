"""The alignment phase of gmm-flow in sharp laws, the constants its lemmas print, and the growth under other losses.

Times are on the clock of the per-cluster loss, while f ≈ 0 and without noise unless said otherwise. Source: Min & Vidal, ICML 2025,
Section 3.2.3 and Appendices A, F and G; the laws are their nominal equations, solved.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.papers.gmm_flow.theory import OrthonormalGMM, nominal_alignment_field

STEP, STEPS = (
    0.0125,
    1000,
)  # of the fourth-order integration of the nominal equations, and how many at most; error below 1e-5


class Nominal(NamedTuple):
    """Cosines (times, h, k) and growth of the log-norms (times, h) along the nominal alignment."""

    times: Float[Tensor, " t"]
    cosines: Float[Tensor, "t h k"]
    growth: Float[Tensor, "t h"]


def nominal_alignment(
    c: Float[Tensor, "h k"],
    signs: Float[Tensor, " h"],
    labels: Float[Tensor, " k"],
    p: float,
    t_end: float,
) -> Nominal:
    """The nominal equation of (13) with all clusters, and ρ' = s Σ_l y_l [c_l]₊^p, by Runge-Kutta of order 4."""
    steps = min(STEPS, math.ceil(t_end / STEP))
    step = t_end / steps

    def field(state: Tensor) -> Tensor:
        now = state[:, :-1]
        grows = signs * ((now.clamp_min(0) ** p) @ labels)
        return torch.cat([nominal_alignment_field(now, signs, labels, p), grows.unsqueeze(1)], dim=1)

    state = torch.cat([c, torch.zeros_like(c[:, :1])], dim=1)
    states = [state]
    for _ in range(steps):
        k1 = field(state)
        k2 = field(state + step / 2 * k1)
        k3 = field(state + step / 2 * k2)
        state = state + step / 6 * (k1 + 2 * k2 + 2 * k3 + field(state + step * k3))
        states.append(state)
    every = torch.stack(states)
    return Nominal(torch.arange(steps + 1).double() * step, every[..., :-1], every[..., -1])


def aligning_time(start: float, end: float, p: float) -> float:
    """Time of dc/dt = p c^(p-1)(1-c²) from one cosine to another: ∫ dξ/(p tanh^(p-1) ξ), c = tanh ξ.

    Towards 1 it grows like ln(1/(1-c))/(2p), so t₁ like ln(1/α)/p.
    """
    xi = torch.linspace(math.atanh(start), math.atanh(end), 4001, dtype=torch.float64)
    return float(torch.trapezoid(torch.tanh(xi) ** (1 - p), xi)) / p


def mass_gain(start: float, end: float, p: float) -> float:
    """S at cosine `end` ÷ S at cosine `start` while f ≈ 0: ((1-c₀²)/(1-c²))^(1/p), as d ln S/dc = 2c/(p(1-c²)).

    The law behind Lemma 14. For a void neuron, repelled by one centre of the other class from c₀ to 0, it is (1-c₀²)^(1/p) < 1: behind
    Lemma 16.
    """
    return ((1 - start**2) / (1 - end**2)) ** (1 / p)


def lemma_5(gap: float, p: float) -> tuple[float, float]:
    """(Δ̃₁, Δ̃₂) as printed: √((1/(1-Δ)² - 1)/2) and 1 - (1 - √(2Δ))^(p-2).

    The first is no lower bound of c_k(0) for Δ > 1 - 1/√2; the sharp one is √(2Δ - Δ²) (corrected).
    """
    return math.sqrt(((1 - gap) ** -2 - 1) / 2), 1 - (1 - math.sqrt(2 * gap)) ** (p - 2)


def alignment_end(s: OrthonormalGMM, width: int, log_eps: float) -> float:
    """t₂ as printed in the proof of Proposition 4 and in Lemma 8: ln(1/(2^(p-1)√h ε))/(2^(p+2)K).

    At ε = α^(8K) it is below 2^(1-p) ln(1/α), while t₁ grows like ln(1/α)/p, and 2^(1-p) < 1/p for every p > 2: [t₁, t₂] is empty
    for small α. It takes ε ≤ α^(2^(p+2)K/p). Sharp: S grows like e^(2t), so f is small until about ln(1/ε).
    """
    return -((s.p - 1) * math.log(2) + 0.5 * math.log(width) + log_eps) / (2 ** (s.p + 2) * s.num_clusters)


def travel_time_9(rate: float, start: float, p: float) -> float:
    """Lemma 9: from z' ≥ C z^(p-1), T ≤ 1/((p-2) C z₀^(p-2))."""
    return 1 / ((p - 2) * rate * start ** (p - 2))


def travel_time_10(rate: float, end: float) -> float:
    """Lemma 10: from z' ≥ C(1-z), T ≤ ln(1/(1-z₁))/C."""
    return math.log(1 / (1 - end)) / rate


def travel_time_15(log_start: float, end: float, gap: float) -> float:
    """Lemma 15: from z' ≥ (1-z-Δ)z, T ≤ 2(ln 1/(1-z₁-Δ) + ln 1/z₀), for Δ < ¼ and z₀ ≤ ¼; takes ln z₀, which may be -1000."""
    return 2 * (math.log(1 / (1 - end - gap)) - log_start)


def second_leg(alpha: float, p: float) -> tuple[float, float]:
    """(printed, corrected) bound on the time from c = √(4/5) to 1 - α², second term of t̄₁.

    Printed: rate p(2^(p-1) - 2), which is no lower bound of p c^(p-1)(1 - 2^(2-p)); corrected: p(4/5)^((p-1)/2)(1 - 2^(2-p)).
    """
    right = p * 0.8 ** ((p - 1) / 2) * (1 - 2 ** (2 - p))
    return travel_time_10(p * (2 ** (p - 1) - 2) / 2, 1 - alpha**2), travel_time_10(right / 2, 1 - alpha**2)


PULLS = {
    "square": lambda S: 1 - S,
    "exponential": lambda S: torch.exp(-S),
    "logistic": lambda S: torch.sigmoid(-S),
}  # -∂ℓ/∂f at margin S, y = 1


def mass_under(kind: str, start: float, times: Float[Tensor, " t"]) -> Float[Tensor, " t"]:
    """S(t) of dS/dt = 2 S·(-∂ℓ/∂f)(S) from S(0) = start, for t ≥ 0: the nominal growth of a cluster mass under a loss.

    Appendix A prints z' = e^(-z) z for the exponential loss, without the factor 2 of the 1/N clock; it ends like ln(2t ln 2t). By
    inverting t(S) = ∫ dS/(2S·pull), on a grid of ln S that is dense near 1, where the square loss ends.
    """
    low, high = math.log(start), math.log(1 - 1e-12) if kind == "square" else math.log(60.0)
    share = torch.linspace(0, 1, 200_001, dtype=torch.float64)
    log_mass = high - (high - low) * (1 - share) ** 4  # never quite `high` twice
    log_mass = log_mass[log_mass.diff(prepend=log_mass[:1] - 1) > 0]
    speed = 2 * PULLS[kind](log_mass.exp())
    passed = torch.cumulative_trapezoid(1 / speed, log_mass)
    passed = torch.cat([torch.zeros(1, dtype=torch.float64), passed])
    index = torch.searchsorted(passed, times).clamp(1, len(passed) - 1)
    part = (times - passed[index - 1]) / (passed[index] - passed[index - 1])
    return (log_mass[index - 1] + part.clamp_max(1) * (log_mass[index] - log_mass[index - 1])).exp()


def tilt_under_margin_loss(s: OrthonormalGMM, mass: float) -> float:
    """Expected tilt of a neuron whose cluster has this mass, under the exponential loss (and the logistic one for large masses).

    Points weigh e^(-S z^p), so u' = p e^(-S)(ε̄ - τ - (pS - p + 1)Ĉμ) while S' = 2S e^(-S): in the time ln S the tilt follows
    ε̄ - (p²S/(p+2) - p + 1)Ĉμ. As S grows like ln t, the drift that is linear in t under the square loss is logarithmic here. Not in
    the paper, which leaves classification losses open (Appendix A).
    """
    drifted = (s.p**2 * mass / (s.p + 2) - s.p + 1) * s.alpha**2 / math.sqrt(s.dim * s.per_cluster)
    return math.hypot(s.alpha / math.sqrt(s.per_cluster), drifted)


def critical_power(cosine: float, positive: int, negative: int) -> float:
    """The power p above which neurons of the positive class leave the mean of its centres for single centres, all cosines equal.

    While f ≈ 0 a direction climbs Σ_own c^p - Σ_other c^p on the sphere. Along a difference of own centres the mean m of K₁ centres is
    a maximum unless (p-1)(1-ρ)c^(p-2) > K₁c^p - K₂c'^p, with c = cos(m, μ_own), c' = cos(m, μ_other): p > 2 + K₁ρ/(1-ρ) if K₂ = 0, and
    p > 2 for orthogonal centres. Not in the paper, whose centres are orthonormal.
    """
    own = math.sqrt((1 + (positive - 1) * cosine) / positive)
    other = max(0.0, cosine) / own

    def stays(p: float) -> bool:
        return (p - 1) * (1 - cosine) * own ** (p - 2) <= positive * own**p - negative * other**p

    low, high = 1.0, 1000.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if stays(middle) else (low, middle)
    return high


def best_radius(cosine: float) -> float:
    """Half the way between two unit centres with this cosine, √((1-ρ)/2)."""
    return math.sqrt((1 - cosine) / 2)


def unequal_radius(norms: Float[Tensor, " k"], labels: Float[Tensor, " k"]) -> Float[Tensor, " k"]:
    """From orthogonal centres of norms r to the border that the flow learns, r r'/√(r²+r'²), the least over the other class.

    A cluster is fitted when S r^p = 1, so f = Σ ±(⟨x, μ_k⟩/r_k²)^p and the border between two centres is ⟨x, μ⟩/r² = ⟨x, μ'⟩/r'²: the
    line through the origin and (r, r') in their plane. The best border is half the way, √(r²+r'²)/2; both agree for equal norms only.
    A centre with smaller norm is learned later, growing with rate r^p. Not in the paper, whose centres are orthonormal.
    """
    pairs = norms.unsqueeze(1) * norms / (norms.unsqueeze(1) ** 2 + norms**2).sqrt()
    return pairs.masked_fill(labels.unsqueeze(1) == labels, math.inf).min(dim=1).values


def averaged_radius(cosine: float, positive: int) -> float:
    """From a centre to the border between the means of two classes of K₁ centres each: √((1-ρ)/(2K₁)), 1/√K₁ of the best."""
    return best_radius(cosine) / math.sqrt(positive)
