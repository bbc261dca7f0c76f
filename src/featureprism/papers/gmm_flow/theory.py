"""Min & Vidal, "Gradient Flow Provably Learns Robust Classifiers for Orthonormal GMMs" (ICML 2025), as data.

Premises and predictions from the setting alone. Where the paper's constant is wrong the corrected one stands beside the
printed one, and says so. Times are on the clock of the per-cluster loss (1/N) Σ_i ½(y_i - f(x_i))².
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.geometry import row_norms
from featureprism.lab import Premise, Theorem

LARGEST_RADIUS = math.sqrt(2) / 2  # Propositions 1 and 2
EULER = 0.5772156649015329  # H_q = digamma(q + 1) + EULER


@dataclass(frozen=True, kw_only=True)
class OrthonormalGMM:
    """K₁ positive and K₂ negative orthonormal clusters in D dimensions, noise of norm α, N points a cluster, pReLU of power p."""

    dim: int
    positive: int
    negative: int
    alpha: float
    per_cluster: int
    p: float = 3.0  # Section 5 and Appendix B

    @property
    def num_clusters(self) -> int:
        """K = K₁ + K₂."""
        return self.positive + self.negative

    @property
    def log_epsilon(self) -> float:
        """ln ε of the largest start that Theorem 1 allows, ε = α^(8K)."""
        return 8 * self.num_clusters * math.log(self.alpha)


@dataclass(frozen=True)
class RobustnessBound:
    """P(robust at `radius`) ≥ `probability`; vacuous when that is no more than 0."""

    radius: float
    probability: float

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound says nothing."""
        return self.probability <= 0 or self.radius <= 0


def proposition_1(s: OrthonormalGMM) -> float:
    """No classifier has less robust error at √2/2 than min(K₁, K₂)/K. Eq. (2)."""
    return min(s.positive, s.negative) / s.num_clusters


def shared_radius(gain: float | Tensor) -> float:
    """Radius of the centres of a class when the neurons of the other class have the gain G: 1/√(1 + G²). Not in the paper.

    A neuron along the sum of s centres of its class fits them all when it puts out ⟨x, μ_1 + … + μ_s⟩^p. From a centre ν of the other
    class the border is where that equals ⟨x, ν⟩^p, the hyperplane ⟨x, μ_1 + … + μ_s - ν⟩ = 0 at distance 1/√(s+1): √2/2 for s = 1, 1/√3
    for two, ½ for three. In general the other class puts out at most (Gρ)^p at ρ times a unit vector of the span of its centres, G = √s
    above, and the line b = Gρ passes ν = (0, 1) at 1/√(1 + G²). A centre ν that shares its own neuron with s' - 1 others breaks
    earlier, at 1/√(s + s').
    """
    return 1 / math.sqrt(1 + gain**2)


def lemma_1_count(values: Float[Tensor, "rows columns"]) -> int:
    """Rows with an entry ≤ 0 plus columns with an entry ≥ 0; at least min(rows, columns) for every matrix.

    With values[k, l] = f((μ_k + μ_l)/2 + ε) it counts the clusters that the attack of Proposition 1 breaks.
    """
    return int((values <= 0).any(dim=1).sum() + (values >= 0).any(dim=0).sum())


def proposition_2(s: OrthonormalGMM, nu: float) -> RobustnessBound:
    """The Bayes rule at radius (√2 - ν)/2: P ≥ 1 - 2K exp(-Dν²/(64α²)). Eq. (3)."""
    failure = 2 * s.num_clusters * math.exp(-s.dim * nu**2 / (64 * s.alpha**2))
    return RobustnessBound((math.sqrt(2) - nu) / 2, 1 - failure)


def expected_maximum(num: int) -> float:
    """E max of `num` independent standard normal variables, ∫ x d(Φ^num), by the trapezoidal rule."""
    x = torch.linspace(-9, 9, 20_001, dtype=torch.float64)
    below = torch.special.ndtr(x) ** num
    return float(torch.trapezoid(1 - below, x)) - 9.0


def bayes_loss(s: OrthonormalGMM) -> float:
    """√2/2 minus the mean radius of the Bayes rule: (α/√(2D)) E max over the other class, averaged over clusters.

    The rule is nearest-centre up to α² ln K/D, so the radius of μ_k + ε is min_l (1 + ⟨ε, μ_k - μ_l⟩)/√2 over the centres of the other
    class: the noise along μ_k has mean 0, and that along the other centres its largest value. Sharper than Proposition 2.
    """
    towards_negative, towards_positive = expected_maximum(s.negative), expected_maximum(s.positive)
    largest = (s.positive * towards_negative + s.negative * towards_positive) / s.num_clusters
    return s.alpha / math.sqrt(2 * s.dim) * largest


def proposition_2_premises(s: OrthonormalGMM, nu: float) -> list[Premise]:
    """2√2 α² ln K / D ≤ ν ≤ √2."""
    least = 2 * math.sqrt(2) * s.alpha**2 * math.log(s.num_clusters) / s.dim
    return [
        Premise("proposition-2.least-nu", "ν (from below)", nu, ">=", least, "Proposition 2"),
        Premise("proposition-2.largest-nu", "ν (from above)", nu, "<=", math.sqrt(2), "Proposition 2"),
    ]


def proposition_3(s: OrthonormalGMM, nu: float) -> RobustnessBound:
    """A classifier within ν of F^(p): P ≥ 1 - 2K exp(-Dν^(2/p)/(2K²α²)) - 4 exp(-3/(8α²)) at (√2 - 8ν^(1/p))/2.

    Printed for functions of degree 1 in x, which neither F^(p) nor a pReLU network is; the same bound holds for degree p
    (corrected: with ‖x + δ‖ ≤ √(17/2) + √2/2 instead of 3 the constants still close). Eq. (10).
    """
    k = s.num_clusters
    failure = 2 * k * math.exp(-s.dim * nu ** (2 / s.p) / (2 * k**2 * s.alpha**2))
    failure += 4 * math.exp(-3 / (8 * s.alpha**2))
    return RobustnessBound((math.sqrt(2) - 8 * nu ** (1 / s.p)) / 2, 1 - failure)


def proposition_3_premises(s: OrthonormalGMM, nu: float) -> list[Premise]:
    """0 < ν ≤ (√2/8)^p, p > 2."""
    largest = (math.sqrt(2) / 8) ** s.p
    return [
        Premise("proposition-3.p", "p", s.p, ">", 2.0, "Proposition 3"),
        Premise("proposition-3.nu", "ν = dist(f, F^(p))", nu, "<=", largest, "Proposition 3"),
    ]


def assumption_1(W: Float[Tensor, "h d"], a: Float[Tensor, " h"]) -> list[Premise]:
    """Balanced: |a_j| = ‖w_j‖ for every neuron, relative to ‖w_j‖ (tolerance 1e-6)."""
    norms = row_norms(W)
    gap = ((a.abs() - norms).abs() / norms).max()
    name = "max_j ||a_j| - ‖w_j‖|/‖w_j‖"
    return [Premise("assumption-1.balance", name, float(gap), "<=", 1e-6, "Assumption 1")]


def assumption_2(margin: Float[Tensor, " h"], region: Int[Tensor, " h"], num_clusters: int) -> list[Premise]:
    """Non-degenerate shape: every region has a neuron and the gap Δ = 1 - √(1 - m²) is positive.

    The paper calls the cosine margin m and the gap Δ by one name; Δ ≈ m²/2, so both are listed. "Θ(1)" is read as
    m ≥ 0.1 (Δ ≥ 0.005), a reading, not the paper's number.
    """
    counts = torch.bincount(region[region >= 0], minlength=num_clusters)
    m = float(margin.min())
    gap = 1 - math.sqrt(1 - min(m, 1.0) ** 2)
    return [
        Premise(
            "assumption-2.regions",
            "neurons in the emptiest region",
            float(counts.min()),
            ">=",
            1.0,
            "Definition 2",
        ),
        Premise(
            "assumption-2.margin",
            "least margin m over neurons",
            m,
            ">=",
            0.1,
            "Assumption 2, Θ(1) read as 0.1",
        ),
        Premise("assumption-2.gap", "non-degeneracy gap Δ", gap, ">", 0.0, "Assumption 2"),
    ]


def theorem_1_premises(s: OrthonormalGMM, log_eps: float) -> list[Premise]:
    """The regime of Theorem 1; its orders are read with constant 1.

    D ≥ α⁻², α⁻² ≤ N, √(ln N) α ≤ 1 (N ≤ exp(α⁻²)), ε ≤ α^(8K), p > 2.
    """
    where, ten = "Theorem 1, constant read as 1", math.log(10)
    many = s.alpha * math.sqrt(math.log(s.per_cluster))
    return [
        Premise("theorem-1.p", "p", s.p, ">", 2.0, "Theorem 1"),
        Premise("theorem-1.dim", "D α²", s.dim * s.alpha**2, ">=", 1.0, where),
        Premise("theorem-1.least-points", "N α²", s.per_cluster * s.alpha**2, ">=", 1.0, where),
        Premise("theorem-1.most-points", "α √(ln N)", many, "<=", 1.0, where),
        Premise("theorem-1.epsilon", "log₁₀ ε", log_eps / ten, "<=", s.log_epsilon / ten, where),
    ]


@dataclass(frozen=True)
class Theorem1Prediction:
    """Sharp values behind the orders of Theorem 1 and Corollary 1, at the time the masses reach 1.

    tilt: angle of a neuron to its centre, the norm of the mean noise of its cluster, α/√N;
    distance: sup|f - F^(p)| = κ_p·tilt with κ_p = √p ((p-1)/p)^((p-1)/2), one cluster alone;
    mean_square: mean (y - f)² = p²α²/D; radius: √2/2 - α^(2/p), the order of Corollary 1 with constant 1.
    """

    tilt: float
    distance: float
    mean_square: float
    radius: float


def theorem_1(s: OrthonormalGMM) -> Theorem1Prediction:
    """What the flow should reach: α² shows only if N grows like α⁻², else the law is α/√N."""
    tilt = s.alpha / math.sqrt(s.per_cluster)
    mean_square = s.p**2 * s.alpha**2 / s.dim
    return Theorem1Prediction(tilt, kappa(s.p) * tilt, mean_square, LARGEST_RADIUS - s.alpha ** (2 / s.p))


def kappa(p: float) -> float:
    """κ_p = √p ((p-1)/p)^((p-1)/2): how far [⟨x,u⟩]₊^p and [⟨x,μ⟩]₊^p differ per unit of ‖u - μ‖.

    Largest at tan²φ = 1/(p-1) from μ; 1.1547 for p = 3.
    """
    return math.sqrt(p) * ((p - 1) / p) ** ((p - 1) / 2)


def window_length(s: OrthonormalGMM) -> float:
    """T* - t* of Theorem 1, α^(-min(p-2, 2)): its order read with constant 1 and without logarithms."""
    return s.alpha ** -min(s.p - 2, 2.0)


def drift_delay(p: float) -> float:
    """How long after a cluster's mass passes ½ its drift begins: H_(p/2)/2 with the harmonic number H.

    While S grows by dS/dt = 2S(1-S) the tilt τ obeys τ' = p(1-S)(ε̄ - τ) - p²S Ĉμ; with the integrating factor S^(p/2) its
    departure from ε̄ is -p²Ĉμ S^(-p/2) ∫S^(1+p/2) dt, and the integral tends to t - H_(p/2)/2.
    """
    return float(torch.special.digamma(torch.tensor(p / 2 + 1, dtype=torch.float64)) + EULER) / 2


def drift_tilt(s: OrthonormalGMM, since_half: float) -> float:
    """Expected ‖u - μ‖/⟨u, μ⟩ of a neuron, `since_half` after its cluster's mass passed ½, under the square loss.

    Once S z̄^p = 1, the residual of x_i is p⟨ε_i - ε̄, u⟩ and the direction follows u' = -p²Ĉu, Ĉ the sample covariance of
    the cluster: it fits the noise of the labels' margins. The tilt is ε̄ - p²t Ĉμ, whose parts are independent of norms α/√N and
    xγ^½, x = p²α²t/D, γ = D/N: a drift of p²α²t/√(DN). The next order is -x²(1+γ)γ^½/2 (moments of Marchenko and Pastur, the margin
    held at 1), here summed to xγ^½/(1 + x(1+γ)/2). Not in the paper, which has dc/dt ≥ -O(α^min(p,4)) in Lemma 12.
    """
    x = s.p**2 * s.alpha**2 / s.dim * max(0.0, since_half - drift_delay(s.p))
    ratio = s.dim / s.per_cluster
    drifted = math.sqrt(ratio) * x / (1 + x * (1 + ratio) / 2)
    return math.hypot(s.alpha / math.sqrt(s.per_cluster), drifted)


def tilted_distance(tilt: float, deficit: float, p: float) -> float:
    """sup over the sphere of |(1 - deficit)[⟨x, μ + tilt·e⟩]₊^p - [⟨x, μ⟩]₊^p| with a unit e ⊥ μ, on a fine grid of angles.

    κ_p·tilt for a small tilt alone. The length of μ + tilt·e stands for the mass, which keeps the margin at 1.
    """
    return float(_tilted_distances(torch.tensor([tilt]).double(), torch.tensor([deficit]).double(), p, 4001))


def _tilted_distances(
    tilt: Float[Tensor, " n"], deficit: Float[Tensor, " n"], p: float, num_angles: int
) -> Float[Tensor, " n"]:
    phi = torch.linspace(-math.pi / 2, math.pi / 2, num_angles, dtype=torch.float64)
    tilted = (phi.cos() + tilt.unsqueeze(1) * phi.sin()).clamp_min(0) ** p
    return ((1 - deficit).unsqueeze(1) * tilted - phi.cos().clamp_min(0) ** p).abs().amax(dim=1)


def drift_distance(s: OrthonormalGMM, since_half: float) -> float:
    """Expected sup|f - F^(p)|, `since_half` after the masses passed ½: the largest over K clusters.

    A cluster alone has the tilt of `drift_tilt` and a mass that is not 1: by e^(-2t) it has not grown yet, and by p⟨ε̄, μ⟩ of std
    pα/√(DN) it makes up for the mean of its points. Both scatter from cluster to cluster. The two parts of the tilt, of norms a and b,
    scatter by 1/(2D) and 1/(2D) + 1/(2N) (relative variances of the norms of Gaussian vectors), and by their inner product, of std
    ab/√D. Clusters do not add up on the sphere, so the distance is the largest of K independent ones: E max = ∫ v d(F(v)^K).
    """
    tilt = drift_tilt(s, since_half)
    mean_noise = s.alpha / math.sqrt(s.per_cluster)
    drifted = math.sqrt(max(0.0, tilt**2 - mean_noise**2))
    variance = mean_noise**4 / (2 * s.dim) + drifted**4 * (1 / (2 * s.dim) + 1 / (2 * s.per_cluster))
    spread = math.sqrt(variance + (mean_noise * drifted) ** 2 / s.dim) / tilt
    growing, settled = 1 - nominal_mass(0.5, since_half), s.p * s.alpha / math.sqrt(s.dim * s.per_cluster)
    z = torch.linspace(-4, 4, 33, dtype=torch.float64)
    weight = torch.exp(-(z**2) / 2)
    tilts, deficits = ((tilt + spread * z).clamp_min(0), growing + settled * z)
    values, order = _tilted_distances(
        tilts.repeat_interleave(len(z)), deficits.repeat(len(z)), s.p, 401
    ).sort()
    below = torch.outer(weight, weight).flatten()[order].cumsum(0)
    chance = (below / below[-1]) ** s.num_clusters
    return float((values * chance.diff(prepend=torch.zeros(1).double())).sum())


def stopping_time(s: OrthonormalGMM) -> float:
    """√D/(p²α) after the mass passed ½ the drift is as large as the tilt α/√N that no stopping avoids: stop before."""
    return math.sqrt(s.dim) / (s.p**2 * s.alpha)


def lemma_17(
    num_clusters: int, p: float, alignment_gap: float, mass_gap: float, void_mass: float
) -> tuple[float, float]:
    """(printed, corrected) bound on sup|f - F^(p)| from δ = 1 - min c, ν = max|1 - S_k|, ζ = void mass.

    Printed: K(1+ν)(2^p - 1)·2δ + Kν + ζ, which takes ‖u - μ‖ for 2(1-c); the true ‖u - μ‖ is √(2(1-c)).
    Corrected: K(1+ν)(2^p - 1)·√(2δ) + Kν + ζ, for √(2δ) ≤ 1.
    """
    slope, rest = num_clusters * (1 + mass_gap) * (2**p - 1), num_clusters * mass_gap + void_mass
    return slope * 2 * alignment_gap + rest, slope * math.sqrt(2 * alignment_gap) + rest


def good_event(data: Dataset, alpha: float, failure: float = 0.05) -> list[Premise]:
    """The four concentration events of Lemma 4 on a balanced sample; all hold with probability ≥ 1 - failure.

    Event 3 is printed with 2 ln(8K/δ); its proof gives 8 ln(16K/δ) (corrected). Both are listed.
    """
    noise = data.x - data.centres[data.cluster]
    k, dim, n = len(data.centres), data.x.shape[1], len(data.x)
    per_cluster = n // k
    sums = torch.zeros_like(data.centres).index_add(0, data.cluster, noise)
    squares = torch.zeros(k, dtype=noise.dtype).index_add(0, data.cluster, row_norms(noise) ** 2)
    largest_sum = float(row_norms(sums).max())
    root_n = math.sqrt(per_cluster)
    many, few = math.log(16 * n / failure), math.log(16 * k / failure)
    mixed = math.log(8 * k**2 * per_cluster / failure)
    printed = math.log(8 * k / failure)
    events = [
        ("1", "max ‖ε_i‖", float(row_norms(noise).max()), math.sqrt(8 * many) * alpha),
        (
            "2",
            "max |⟨μ_k, ε_i⟩|",
            float((noise @ data.centres.T).abs().max()),
            math.sqrt(2 * mixed / dim) * alpha,
        ),
        ("3-printed", "max_k ‖Σ ε_i‖", largest_sum, math.sqrt(2 * printed) * alpha * root_n),
        ("3-corrected", "max_k ‖Σ ε_i‖", largest_sum, math.sqrt(8 * few) * alpha * root_n),
        ("4", "max_k Σ ‖ε_i‖²", float(squares.max()), 8 * few * alpha**2 * per_cluster),
    ]
    return [
        Premise(f"lemma-4.{event}", name, measured, "<=", bound, f"Lemma 4, event {event}")
        for event, name, measured, bound in events
    ]


def nominal_alignment_field(
    c: Float[Tensor, "h k"], signs: Float[Tensor, " h"], labels: Float[Tensor, " k"], p: float
) -> Float[Tensor, "h k"]:
    """dc_kj/dt without noise while f ≈ 0: s_j p (y_k [c_kj]₊^(p-1) - c_kj Σ_l y_l [c_lj]₊^p).

    One target cluster: dc/dt = p c^(p-1) (1 - c²). Source: (13) and (E.5) at α = 0.
    """
    positive = c.clamp_min(0)
    attraction = labels * torch.where(c > 0, positive ** (p - 1), torch.zeros_like(c))
    growth = (positive**p) @ labels
    return signs.unsqueeze(1) * p * (attraction - c * growth.unsqueeze(1))


def nominal_mass(initial: float, time: float) -> float:
    """S(t) = 1/(1 + (1/S₀ - 1) e^(-2t)), from dS/dt = 2S(1-S).

    (14) prints (1-S)S; with the 1/N of Appendix E the factor 2 belongs there (corrected, as in Lemma 13).
    """
    return 1 / (1 + (1 / initial - 1) * math.exp(-2 * time))


def alignment_time(cosine: float, p: float) -> float:
    """Time for dc/dt = p c^(p-1)(1-c²) to leave a small cosine c₀: about 1/(p(p-2)c₀^(p-2)), p > 2."""
    return 1 / (p * (p - 2) * cosine ** (p - 2))


def learning_time(log_mass: float, cosine: float, p: float) -> float:
    """t* ≈ alignment time + ½ ln(1/S₀), S₀ = exp(log_mass): when the slowest cluster mass reaches O(1)."""
    return alignment_time(cosine, p) + 0.5 * max(0.0, -log_mass)


def _cosine(u: float, p: float) -> float:
    return math.sqrt(max(0.0, 1 - math.cosh(u) ** (-2 * p)))


def proposition_1_premises(s: OrthonormalGMM) -> list[Premise]:
    """Orthonormal centres of both classes."""
    fewest = float(min(s.positive, s.negative))
    return [
        Premise("proposition-1.clusters", "min(K₁, K₂)", fewest, ">=", 1.0, "Section 2"),
        Premise(
            "proposition-1.dim",
            "D",
            float(s.dim),
            ">=",
            float(s.num_clusters),
            "Section 2, orthonormal centres",
        ),
    ]


_FIGURE_2 = {"dim": 2000, "positive": 12, "negative": 8, "alpha": 0.1, "per_cluster": 1000, "p": 3.0}
_LETTERS = {"D": "dim", "K1": "positive", "K2": "negative", "α": "alpha", "N": "per_cluster", "ν": "nu"}
_START = "Assumptions 1 and 2 ask for a balanced, non-degenerate start."


def _theorem_1_at(log10_epsilon: float, **sizes: float) -> list[Premise]:
    return theorem_1_premises(OrthonormalGMM(**sizes), log10_epsilon * math.log(10))  # type: ignore[arg-type]


THEOREMS = (
    Theorem(
        "proposition-1",
        "No classifier is robust at √2/2 on more than max(K₁, K₂)/K of the points.",
        _FIGURE_2,
        lambda **sizes: proposition_1_premises(OrthonormalGMM(**sizes)),
        _LETTERS,
    ),
    Theorem(
        "proposition-2",
        "The Bayes classifier is robust at (√2 - ν)/2 with high probability.",
        {**_FIGURE_2, "nu": 0.1},
        lambda nu, **sizes: proposition_2_premises(OrthonormalGMM(**sizes), nu),
        _LETTERS,
    ),
    Theorem(
        "proposition-3",
        "A classifier within ν of F^(p) is robust at (√2 - 8ν^(1/p))/2 with high probability.",
        {**_FIGURE_2, "nu": 0.001},
        lambda nu, **sizes: proposition_3_premises(OrthonormalGMM(**sizes), nu),
        _LETTERS,
    ),
    *(
        Theorem(name, says, {**_FIGURE_2, "log10_epsilon": -7.0}, _theorem_1_at, _LETTERS, _START)
        for name, says in (
            ("theorem-1", "Gradient flow from a start of size ε comes within O(α²) of F^(p)."),
            (
                "corollary-1",
                "Gradient flow from a small start finds a classifier that is robust up to √2/2 - o(1).",
            ),
            (
                "proposition-4",
                "At the end of the alignment phase every neuron is aligned with the centre of its region.",
            ),
        )
    ),
)
