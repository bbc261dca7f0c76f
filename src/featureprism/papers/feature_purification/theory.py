"""Premises and predictions of "Feature Purification", from the sizes of a setting alone.

The theorems speak of large d with exponents such as 0.0001. What can be computed stands here: ranges, schedules, expected numbers of
lottery tickets, the accuracy of the linear classifier (a floor) and of the pure network (a ceiling). An order O(1), Ω(1) or Θ(1) is
read as a constant between 0.1 and 10, o(1) as at most 0.1.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data.sparse_coding import DictionaryNorms, HiddenVector
from featureprism.lab import Premise, Theorem

SMALL_EXPONENT = 0.001  # c of Theorem 5.2
GAMMA = 0.1  # the largest γ of Lemma B.2
MOST_TIME = 4  # the Θ of T_g from above: so many times its order with every constant set to 1


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes and scales: dimension d, sparsity k, width m, noise σ_x, penalty λ in units of 1/d, the radius τ of the adversary."""

    dim: int
    sparsity: float
    width: int
    noise: float
    penalty: float
    radius: float

    @property
    def c0(self) -> float:
        """m = d^(1 + c0)."""
        return math.log(self.width) / math.log(self.dim) - 1

    @property
    def k_exponent(self) -> float:
        """k = d^exponent."""
        return math.log(self.sparsity) / math.log(self.dim)


def ticket_constants(c0: float, gamma: float = GAMMA) -> tuple[float, float]:
    """c1 = 2 + 2(1-γ)c0 and c2 = γ c0. Lemma B.2."""
    return 2 + 2 * (1 - gamma) * c0, gamma * c0


class Schedule(NamedTuple):
    """The printed schedules, with every Θ(1) set to 1: biases, σ_ρ/b of Phases I.1 and I.2, times in units of Σ step sizes."""

    start_bias: float  # b(0) = √c1 σ_0 √ln d
    bias_growth: float  # per unit of time, 1/d
    bias_cap: float  # 1/(√k Ξ2⁸), or k^(-0.5001) in the main text
    smoothing_first: float  # (lll d)³/√(c1 ln d)
    smoothing_later: float  # (lll d)³/(√c1 ln d)
    penalty: float  # λ = lll d/d
    time_first: float  # T_a = d σ_0 ln^2.5 d
    time_second: float  # T_b = d² σ_0/k
    time_clean: float  # T_c = d^1.01
    time_adversarial: float  # T_g = k^(2+c)


def printed_schedule(s: Sizes, start: float) -> Schedule:
    """Algorithms 1 and 2 as printed; lll d = ln ln ln d is negative below d = 16 and 0.5 at d = 200."""
    if s.dim < 16:
        raise ValueError(f"The printed schedules need ln ln ln d > 0, that is d ≥ 16; got {s.dim}.")
    c1, _ = ticket_constants(max(s.c0, 0.0))
    log, triple = math.log(s.dim), math.log(math.log(math.log(s.dim)))
    return Schedule(
        math.sqrt(c1 * log) * start,
        1 / s.dim,
        s.sparsity**-0.5001,
        triple**3 / math.sqrt(c1 * log),
        triple**3 / (math.sqrt(c1) * log),
        triple / s.dim,
        s.dim * start * log**2.5,
        s.dim**2 * start / s.sparsity,
        s.dim**1.01,
        s.sparsity ** (2 + SMALL_EXPONENT),
    )


class TicketCounts(NamedTuple):
    """Expected tickets of one feature at the start. Lemma B.2 says at least one sure one, for large d."""

    sure: float
    potential: float


def expected_tickets(width: int, dim: int, high: float, low: float) -> TicketCounts:
    """m (p₁/2)(1 - p₂)^(d-1) and m p₂, p = P(|N(0,1)| ≥ threshold); thresholds in units of σ_0."""
    p_high, p_low = (math.erfc(t / math.sqrt(2)) for t in (high, low))
    return TicketCounts(width * p_high / 2 * (1 - p_low) ** (dim - 1), width * p_low)


def ticket_premise(s: Sizes) -> Premise:
    """Lemma B.2 speaks of large d, where the start has more than one sure winner of a feature to expect."""
    c1, c2 = ticket_constants(s.c0)
    units = [math.sqrt((c1 + sign * c2) * math.log(s.dim)) for sign in (1, -1)]
    expected = expected_tickets(s.width, s.dim, *units).sure
    return Premise("lemma-b-2.size", "expected sure winners of a feature", expected, ">=", 1.0, "Lemma B.2")


def hidden_vector_premises(
    hidden: HiddenVector, z: Float[Tensor, "n d"], w: Float[Tensor, " d"]
) -> list[Premise]:
    """Assumption 2.1 on a sample: support, second moment, the two atoms, symmetry and independence.

    Independence is asked of pairs, of the sum ⟨w*, z⟩ and of the first principal component: a condition on ⟨w*, z⟩ moves every pair by
    1/d only, which no pair shows, and the sum by a constant.
    """
    d, k = hidden.dim, hidden.sparsity
    size, moment = z.abs().double(), d * float((z.double() ** 2).mean())
    nonzero = size[size > 0]
    large = d * float((size > 1 - 1e-5).double().mean())
    together = (
        "largest |corr(z_i², z_j²)| in units of √(2 ln d²/n)"  # heavy tails: z_i ≠ 0 in few samples, hence 8
    )
    parts = [
        ("support", "least non-zero |z_i| × √k", float(nonzero.min()) * math.sqrt(k), ">=", 1 - 1e-5),
        ("size", "largest |z_i|", float(nonzero.max()), "<=", 1 + 1e-5),
        ("least-moment", "d E z_i², from below", moment, ">=", 0.1),
        ("largest-moment", "d E z_i², from above", moment, "<=", 10.0),
        ("large-atom", "d P(|z_i| = 1)", large, ">=", 0.1),
        ("small-atom", "(d/k) P(0 < |z_i| ≤ 2/√k)", d / k * _share_small(size, k), ">=", 0.1),
        ("symmetry", "|E z| in standard errors", _standard_errors(z), "<=", 4.0),
        ("independence", together, _largest_correlation(z), "<=", 8.0),
        ("sum", "|Var⟨w*, z⟩/Σ w*_i² Var z_i - 1| in standard errors", _sum_excess(z, w), "<=", 4.0),
        ("principal", "first eigenvalue of corr(z) ÷ (1 + √(d/n))²", principal_ratio(z), "<=", 1.2),
    ]
    return [
        Premise(f"assumption-2-1.{part}", name, measured, relation, required, "Assumption 2.1")
        for part, name, measured, relation, required in parts
    ]


def _largest_correlation(z: Tensor) -> float:
    """max |corr(z_i², z_j²)| over pairs, ÷ √(2 ln d²/n), the order of the largest of d² independent ones."""
    squares = z.double() ** 2
    centred = squares - squares.mean(dim=0)
    spread = centred.square().sum(dim=0).sqrt().clamp_min(1e-300)
    correlation = (centred / spread).T @ (centred / spread)
    correlation.fill_diagonal_(0)
    n, d = z.shape
    return float(correlation.abs().max()) / math.sqrt(2 * math.log(d * d) / n)


def variance_ratio(z: Float[Tensor, "n d"], w: Float[Tensor, " d"]) -> float:
    """Var⟨w*, z⟩/Σ w*_i² Var z_i: 1 for independent coordinates."""
    z, w = z.double(), w.double()
    return float((z @ w).var() / (w**2 * z.var(dim=0)).sum())


def _sum_excess(z: Tensor, w: Tensor) -> float:
    """|ratio - 1| ÷ its standard error, √((E s⁴ - (E s²)²)/n)/E s² with s = ⟨w*, z⟩."""
    s = (z.double() @ w.double()).square()
    return abs(variance_ratio(z, w) - 1) / float(s.std() / s.mean() / math.sqrt(len(s)))


def principal_ratio(z: Float[Tensor, "n d"]) -> float:
    """First eigenvalue of the correlations of z ÷ (1 + √(d/n))², where it ends for independent coordinates (Marchenko and Pastur)."""
    z = z.double() - z.double().mean(dim=0)
    z = z / z.square().sum(dim=0).sqrt().clamp_min(1e-300)
    n, d = z.shape
    return float(torch.linalg.eigvalsh(z.T @ z)[-1]) / (1 + math.sqrt(d / n)) ** 2


def _share_small(size: Tensor, k: float) -> float:
    return float(((size > 0) & (size <= 2 / math.sqrt(k))).double().mean())


def _standard_errors(z: Tensor) -> float:
    z = z.double()
    return float(z.mean().abs() / (z.std() / math.sqrt(z.numel())))


def sparsity_premises(s: Sizes) -> list[Premise]:
    """The ranges of k = d^e in the theorems, as conditions on e.

    Theorem E.1 is printed with k > d^((1 - c0)/3). Its proof compares E♣ = δ₀ k²/Ξ₂⁷ with a deviation δ₀ Ξ₂³ √(kd) log d and so needs
    k^1.5 ≫ √d Ξ₂¹⁰ log d, more than d^(1/3): the printed range would contradict the section's own k = Ω̃(d^0.3334). With d^c0 for the
    factors Ξ₂ it is k > d^((1 + c0)/3).
    """
    e, c0, log = s.k_exponent, max(s.c0, 0.0), math.log(s.dim)
    robust = (1 - 2 * c0 - math.log(log) / log) / 2.5
    parts = [
        ("section-2", "for sparse coding", "<=", 0.499, "Section 2"),
        ("theorem-c-2", "for feature learning", "<", (1 - c0) / 2, "Theorem C.2"),
        ("theorem-e-1", "for non-robustness, corrected", ">", (1 + c0) / 3, "Theorem E.1"),
        ("printed-e-1", "for non-robustness, as printed", ">", (1 - c0) / 3, "Theorem E.1"),
        ("theorem-f-1", "for robustness (k^2.5 < d^(1-2c0)/ln d)", "<", robust, "Theorem F.1"),
        ("corollary-f-3", "for the gap of both", "<=", 0.3999, "Corollary F.3"),
    ]
    return [
        Premise(f"{theorem}.sparsity", f"k = d^e: e, {name}", e, relation, required, source)
        for theorem, name, relation, required, source in parts
    ]


def clean_premises(s: Sizes, time: float) -> list[Premise]:
    """Theorem 5.1: m > d, λ = Θ(1/d), σ_x = O(1), Σ step sizes of at least d^1.01.

    Printed is λ = ln ln ln d/d, "tightened to a constant" over d by a remark.
    """
    most = max(10.0, math.log(s.dim))
    return [
        Premise("theorem-5-1.width", "c0 of m = d^(1+c0)", s.c0, ">", 0.0, "Theorem 5.1"),
        Premise("theorem-5-1.least-penalty", "λ d, from below", s.penalty, ">=", 0.1, "Section 4"),
        Premise("theorem-5-1.largest-penalty", "λ d, from above", s.penalty, "<=", most, "Section 4"),
        Premise("theorem-5-1.noise", "σ_x", s.noise, "<=", 10.0, "Section 2, O(1)"),
        Premise("theorem-5-1.time", "Σ step sizes ÷ d^1.01", time / s.dim**1.01, ">=", 1.0, "Theorem 5.1"),
    ]


def rest_premise(change: float) -> Premise:
    """Theorem 5.1 speaks of the end of clean training: as many more clean steps as Algorithm 2 takes must change little."""
    return Premise(
        "theorem-5-1.rest", "Σ‖w - w'‖²/Σ‖w‖² of more clean steps", change, "<=", 0.1, "Theorem 5.1"
    )


def bias_rate_premise(bias_growth: float, winner_rate: float) -> Premise:
    """The bias grows by c_b/d with a small c_b: the proof of Lemma C.8 has a twentieth of a winner's rate, as in the proof."""
    share = bias_growth / winner_rate
    return Premise("section-4.bias-rate", "c_b ÷ the rate of a winner", share, "<=", 0.05, "Lemma C.8")


def adversarial_premises(s: Sizes, time: float) -> list[Premise]:
    """Theorem 5.3: τ ≤ k^-(0.5+c), Σ step sizes of order k^(2+c), at most that of Theorem F.1; there σ_x ≤ d^(2(1-2c0))/k^5.5.

    A network that is right with a margin of 1 - o(1) needs τ √k = o(1). Theorem E.1: τ from the radius on at which clean training
    breaks.
    """
    k, c0 = s.sparsity, max(s.c0, 0.0)
    wanted, most_noise = k ** (2 + SMALL_EXPONENT), s.dim ** (2 * (1 - 2 * c0)) / k**5.5
    breaks, longest = s.radius / (math.sqrt(s.dim) / k**2), time / adversarial_time(s)
    scaled = s.radius * math.sqrt(k)
    return [
        Premise("theorem-5-3.radius", "τ √k", scaled, "<=", k**-SMALL_EXPONENT, "Theorem 5.3"),
        Premise("theorem-5-3.small-radius", "τ √k, as o(1)", scaled, "<=", 0.1, "Theorem 5.3"),
        Premise("theorem-5-3.time", "Σ step sizes ÷ k^(2+c)", time / wanted, ">=", 1.0, "Theorem 5.3"),
        Premise(
            "theorem-5-3.most-time", "Σ step sizes ÷ (k² (m/d) ln d)", longest, "<=", MOST_TIME, "Theorem F.1"
        ),
        Premise("theorem-f-1.noise", "σ_x", s.noise, "<=", most_noise, "Theorem F.1"),
        Premise("theorem-e-1.radius", "τ ÷ (√d/k²)", breaks, ">=", 1.0, "Theorem E.1"),
    ]


def adversarial_time(s: Sizes) -> float:
    """T_g of Theorem F.1 in units of Σ step sizes, k² (m/d) ln d."""
    return s.sparsity**2 * s.width / s.dim * math.log(s.dim)


def bias_cap_premise(s: Sizes, bias: float) -> Premise:
    """Definition C.12: the bias stops at 1/(√k Ξ₂⁸), so that a winner stands at 2√k b = o(1), with 0.1 for it."""
    height = 2 * math.sqrt(s.sparsity) * bias
    return Premise("definition-c-12.cap", "2√k b", height, "<=", 0.1, "Definition C.12")


def linf_premises(s: Sizes, norms: DictionaryNorms, radius: float) -> list[Premise]:
    """Theorem 5.4: k ≤ d^0.399, τ = k^-(1.75+2c0), row and column sums of M at most d^0.1248 (Corollary F.6).

    Clean training breaks from τ = k^-2 on.
    """
    scaled, largest = radius * s.sparsity ** (1.75 + 2 * max(s.c0, 0.0)), s.dim**0.1248
    row, column = norms.largest_row_sum, norms.largest_column_sum
    return [
        Premise("theorem-5-4.sparsity", "k = d^e: e", s.k_exponent, "<=", 0.399, "Theorem 5.4"),
        Premise("theorem-5-4.radius", "τ k^(1.75+2c0)", scaled, "<=", 1.0, "Theorem 5.4"),
        Premise(
            "theorem-e-1.linf-radius", "τ k²", radius / breaking_radius_linf(s), ">=", 1.0, "Theorem 5.4"
        ),
        Premise("corollary-f-6.rows", "largest row sum of |M|", row, "<=", largest, "Corollary F.6"),
        Premise("corollary-f-6.columns", "largest column sum of |M|", column, "<=", largest, "Corollary F.6"),
    ]


def threshold_premise(s: Sizes) -> Premise:
    """Section 3: a threshold of 1/(2√k) withstands perturbations of o(1/√k), with 0.1 for o(1)."""
    scaled = s.radius * math.sqrt(s.sparsity)
    return Premise("section-3.radius", "τ √k", scaled, "<=", 0.1, "Section 3")


def lower_bound_premises(s: Sizes, M: Float[Tensor, "d D"]) -> list[Premise]:
    """Theorem 5.6 and Corollary 5.7: M = I, no noise, ℓ∞ radius k^-100 (corrected) below which nothing is said."""
    radius = -math.log(s.radius) / math.log(s.sparsity)
    away = float((M - torch.eye(*M.shape, dtype=M.dtype)).abs().max())
    return [
        Premise("theorem-5-6.dictionary", "largest entry of |M - I|", away, "<=", 0.0, "Theorem 5.6"),
        Premise("theorem-5-6.noise", "σ_x", s.noise, "<=", 0.0, "Theorem 5.6"),
        Premise("theorem-5-6.radius", "log_k(1/τ)", radius, "<=", 100.0, "Theorem 5.6"),
        Premise("theorem-g-1.sparsity", "k = d^e: e", s.k_exponent, "<=", 0.5, "Theorem G.1"),
    ]


def beta_bound(s: Sizes) -> float:
    """|β_ij| < k/d^(1-c). Theorem 5.2."""
    return s.sparsity / s.dim ** (1 - SMALL_EXPONENT)


def mean_beta(s: Sizes) -> float:
    """Mean β is within d^±c of k/d. Theorem 5.2."""
    return s.sparsity / s.dim


def breaking_radius(s: Sizes) -> float:
    """From where on Mw* flips all points after clean training: k^-(0.5+10c), Theorem 5.1(c), and √d/k², Theorem E.1; the larger."""
    k = s.sparsity
    return max(k ** -(0.5 + 10 * SMALL_EXPONENT), math.sqrt(s.dim) / k**2)


def breaking_radius_linf(s: Sizes) -> float:
    """The same in ℓ∞ for M = I, k^-(2-c1) with c1 → 0. Theorem 5.4."""
    return s.sparsity**-2.0


def winner_rate(z: Float[Tensor, "n d"], w: Float[Tensor, " d"]) -> float:
    """How fast the signed correlation of a winner grows in Phase I, in units of 1/d: (d/2) E[y sign(w*_j) z_j 1{|z_j| = 1}].

    A neuron that stands little above the bias opens for its feature at full size alone, ℓ' is 1/2 while f is near 0, and the penalty is
    of the order of the weights themselves. The bias grows by c_b/d: from c_b above this rate on it overtakes every winner. Small c_b
    means small beside it. Lemma C.8, with the constant.
    """
    z, w = z.double(), w.double()
    y = torch.where(z @ w > -1e-5, 1.0, -1.0).to(z.dtype)
    return float(0.5 * (y.unsqueeze(1) * w.sign() * z * (z.abs() > 1 - 1e-5)).mean(dim=0).sum())


def pure_accuracy(bias_ratio: float, scaled_radius: float = 0.0) -> float:
    """Robust accuracy of the pure network as d → ∞ without input noise: a ceiling that depends on t = b√k/α and ρ = τ√k alone.

    Coordinates of size 1 add A ~ Skellam(½, ½) to the score and those of size 1/√k add G ~ N(0, 1); the network gives A + (1 - t)G
    up to
    its scale, and an ℓ2 perturbation of length τ takes away τ√k, since k neurons are open. The label is sign(A + G), so that it is
    P(sign(A + G)(A + (1 - t)G) > ρ), a sum over A of normal probabilities. It is 1 for t = ρ = 0 only.
    """
    from scipy.special import iv, ndtr  # takes a while to import

    if not 0 <= bias_ratio < 1:
        raise ValueError(f"The bias must be below the signal, 0 ≤ b√k/α < 1, got {bias_ratio:g}.")
    total = 0.0
    for a in range(-25, 26):
        chance = math.exp(-1.0) * float(iv(abs(a), 1.0))
        right = max(-a, (scaled_radius - a) / (1 - bias_ratio))
        left = min(-a, -(scaled_radius + a) / (1 - bias_ratio))
        total += chance * float(ndtr(-right) + ndtr(left))
    return total


def linear_robust_accuracy(
    score: Float[Tensor, " n"], weights: Float[Tensor, " d"], noise: float, radius: float
) -> float:
    """Floor: P(|⟨w*, z⟩| + N(0, σ_x²‖w*‖²/d) > τ‖w*‖) of f(x) = ⟨Mw*, x⟩, exact for ℓ2, from hidden scores ⟨w*, z⟩."""
    norm = float(torch.linalg.vector_norm(weights.double()))
    room = score.double().abs() - radius * norm
    if noise == 0:
        return float((room > 0).double().mean())
    return float(torch.special.ndtr(room / (noise * norm / math.sqrt(len(weights)))).mean())


def _sized(s: Sizes, time: float, adversarial_time: float) -> list[Premise]:
    """Every premise that sizes and lengths of training decide."""
    return [
        *sparsity_premises(s),
        ticket_premise(s),
        *clean_premises(s, time),
        *adversarial_premises(s, adversarial_time),
    ]


def _theorem(name: str, says: str, *groups: str) -> Theorem:
    """A theorem with those groups of premises."""

    def premises(time: float, adversarial_time: float, **sizes: float) -> list[Premise]:
        every = _sized(Sizes(**sizes), time, adversarial_time)  # type: ignore[arg-type]
        return [p for p in every if any(p.id == group or p.id.startswith(f"{group}.") for group in groups)]

    return Theorem(name, says, _DEMONSTRATION, premises, _LETTERS, _DATA)


_DEMONSTRATION = {
    "dim": 400,
    "sparsity": 9.0,
    "width": 1200,
    "noise": 0.0,
    "penalty": 0.1,
    "radius": 0.1,
    "time": 1000.0,
    "adversarial_time": 200.0,
}
_LETTERS = {
    "d": "dim",
    "k": "sparsity",
    "m": "width",
    "σ_x": "noise",
    "λd": "penalty",
    "τ": "radius",
    "T": "time",
}
_DATA = "Assumption 2.1 asks for independent symmetric sparse features; schedules are those of Algorithms 1 and 2."
_CLEAN = ("section-2", "theorem-5-1", "theorem-c-2")
_ADVERSARIAL = (*_CLEAN, "theorem-5-3", "theorem-f-1")


def _theorem_5_4(largest_row_sum: float, largest_column_sum: float, **sizes: float) -> list[Premise]:
    s = Sizes(noise=0.0, penalty=0.1, **sizes)  # type: ignore[arg-type]
    return linf_premises(
        s, DictionaryNorms(largest_row_sum, largest_column_sum, math.nan, math.nan), s.radius
    )


def _theorem_5_6(**sizes: float) -> list[Premise]:
    s = Sizes(penalty=0.1, **sizes)  # type: ignore[arg-type]
    return [p for p in lower_bound_premises(s, torch.eye(1)) if p.id != "theorem-5-6.dictionary"]


THEOREMS = (
    _theorem(
        "theorem-5-1", "Clean training learns every feature and classifies new points correctly.", *_CLEAN
    ),
    _theorem(
        "theorem-5-2",
        "After clean training every feature has a neuron, which also holds every other feature with a weight of order k/d.",
        *_CLEAN,
        "theorem-e-1",
    ),
    _theorem(
        "theorem-5-3",
        "Adversarial training purifies the features and makes the network robust.",
        *_ADVERSARIAL,
    ),
    Theorem(
        "theorem-5-4",
        "Adversarial training makes the network robust to ℓ∞ perturbations too.",
        {
            "dim": 400,
            "sparsity": 9.0,
            "width": 1200,
            "radius": 0.01,
            "largest_row_sum": 1.0,
            "largest_column_sum": 1.0,
        },
        _theorem_5_4,
        _LETTERS,
        _DATA,
    ),
    Theorem(
        "theorem-5-6",
        "Models of the neural tangent features, and polynomials of low degree, are not robust.",
        {"dim": 400, "sparsity": 9.0, "width": 1200, "noise": 0.0, "radius": 0.01},
        _theorem_5_6,
        _LETTERS,
        "The dictionary M is the identity.",
    ),
    _theorem("lemma-b-2", "Every feature has a winning neuron at the start.", "lemma-b-2"),
    _theorem("theorem-c-2", "Clean training learns features.", *_CLEAN),
    _theorem("theorem-e-1", "A cleanly trained network breaks at the radius √d/k².", *_CLEAN, "theorem-e-1"),
    _theorem("theorem-f-1", "An adversarially trained network is robust.", *_ADVERSARIAL),
    _theorem(
        "corollary-f-3",
        "One radius breaks clean training and not adversarial training.",
        *_ADVERSARIAL,
        "theorem-e-1",
        "corollary-f-3",
    ),
)
