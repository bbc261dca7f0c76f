"""Frei, Vardi, Bartlett & Srebro, "The Double-Edged Sword of Implicit Bias: Generalization vs. Robustness in ReLU Networks", as data.

Clusters x = μ + ξ with ‖μ‖ = √d, ξ ~ N(0, σ²I); p is the largest |⟨μ, μ'⟩|, Δ = 4σ√d ln d, c' = k(p + Δ + 1)/(d - Δ + 1). In the paper
log is base 2 and ln natural, so its logistic loss log(1 + e^-q) has ℓ(0) = 1.
"""

import math
from dataclasses import dataclass, fields, replace
from statistics import NormalDist

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.lab.premise import Premise
from featureprism.lab.theorem import Theorem

SHARP_ROBUST = (
    0.5  # of √d: where the network of Theorem 4.1 breaks on orthogonal means; the theorem promises 1/8
)
PROMISED_ROBUST = 0.125
ROUNDING = 1e-9  # of ‖μ‖²/d in float64


@dataclass(frozen=True, kw_only=True)
class MixtureSizes:
    """k clusters in d dimensions with noise σ, n points; δ is the chance of a bad sample, ε the error that is allowed."""

    dim: int
    clusters: int
    sigma: float
    points: int
    delta: float = 0.05
    epsilon: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Separation(MixtureSizes):
    """A setting with its means: p = max |⟨μ, μ'⟩|, c = min(|Q₊|, |Q₋|)/k, max |‖μ‖²/d - 1|; the Δ of a sample where measured."""

    coherence: float
    balance: float
    norm_gap: float = 0.0
    measured_spread: float | None = None

    @property
    def spread(self) -> float:
        """Δ = 4σ√d ln d, or the measured one."""
        if self.measured_spread is not None:
            return self.measured_spread
        return 4 * self.sigma * math.sqrt(self.dim) * math.log(self.dim)

    @property
    def crowding(self) -> float:
        """c' = k(p + Δ + 1)/(d - Δ + 1), at most 1/10 under Assumption 2.2; ∞ where Δ exceeds d."""
        room = self.dim - self.spread + 1
        return self.clusters * (self.coherence + self.spread + 1) / room if room > 0 else math.inf


def separation(s: MixtureSizes, mu: Float[Tensor, "k d"], labels: Float[Tensor, " k"]) -> Separation:
    """The setting with these means."""
    sizes = {f.name: getattr(s, f.name) for f in fields(MixtureSizes)}
    gram = (mu @ mu.T).fill_diagonal_(0)
    share = float(torch.minimum((labels > 0).sum(), (labels < 0).sum())) / len(labels)
    gap = float(((mu**2).sum(dim=1) / s.dim - 1).abs().max())
    return Separation(**sizes, coherence=float(gram.abs().max()), balance=share, norm_gap=gap)


def measured_spread(data: Dataset, coherence: float, dim: int) -> float:
    """The least Δ for which (P4) and (P5) hold on a sample in d = `dim` dimensions: all the proofs use."""
    gram = data.x @ data.x.T
    same = data.cluster.unsqueeze(1) == data.cluster
    d = dim
    across = float(gram[~same].abs().max()) - coherence if bool((~same).any()) else 0.0
    return max(across, d - float(gram[same].min()), float(gram[same].max()) - 3 * d, 0.0)


def test_spread(data: Dataset, test: Dataset, coherence: float, dim: int) -> float:
    """The least Δ with ⟨x, x_i⟩ in [d - Δ, d + Δ] within a cluster and |⟨x, x_i⟩| ≤ p + Δ across, x a test point. Lemmas A.12, D.3."""
    gram = test.x @ data.x.T
    same = test.cluster.unsqueeze(1) == data.cluster
    return max(_largest((gram[same] - dim).abs()), _largest(gram[~same].abs()) - coherence)


def on_sample(s: Separation, data: Dataset, test: Dataset | None = None) -> Separation:
    """The same with the Δ of a sample in place of the formula, and of test points beside it where they are given."""
    spread = measured_spread(data, s.coherence, s.dim)
    if test is not None:
        spread = max(spread, test_spread(data, test, s.coherence, s.dim))
    return replace(s, measured_spread=spread)


def assumption_2_2(s: Separation) -> list[Premise]:
    """Assumption 2.2: k (p + Δ + 1) ≤ (d - Δ + 1)/10, and what it implies. With the Δ of a sample the ids begin with "on-sample"."""
    on_formula = s.measured_spread is None
    id = "assumption-2-2" if on_formula else "on-sample"
    source = "Assumption 2.2" if on_formula else "Assumption 2.2 with the Δ of the sample"
    crowd, room = s.clusters * (s.coherence + s.spread + 1), (s.dim - s.spread + 1) / 10
    return [
        Premise(f"{id}.crowding", "k (p + Δ + 1)", crowd, "<=", room, source),
        Premise(f"{id}.spread", "Δ", s.spread, "<=", s.dim / 21, f"{source}, (A.9)"),
        Premise(f"{id}.sigma", "σ", s.sigma, "<=", 1.0, source),
        Premise(f"{id}.norms", "max |‖μ‖²/d - 1|", s.norm_gap, "<=", ROUNDING, source),
    ]


def holds(premises: list[Premise]) -> bool:
    """Whether all of them do."""
    return all(p.holds is True for p in premises)


def size_conditions(s: MixtureSizes) -> list[Premise]:
    """How many points Theorems 3.1 and 4.2 ask for and allow."""
    d, log_d = s.dim, math.log(s.dim)
    most = min(
        math.log(math.sqrt(s.delta / 3)) + d / 32,
        math.log(math.sqrt(s.delta) / 3) + log_d**2 / 4,
        math.log(s.epsilon / 4) + log_d**2 / 2,
    )
    failure, where = (log_d - 1) * log_d - math.log(3), "Theorems 3.1 and 4.2"
    return [
        Premise("theorem-3-1.least-points", "n", float(s.points), ">=", s.clusters * log_d**2, where),
        Premise("theorem-3-1.most-points", "ln n", math.log(s.points), "<=", most, where),
        Premise("theorem-3-1.failure", "ln(1/δ)", -math.log(s.delta), "<=", failure, where),
    ]


def sample_events(s: Separation, data: Dataset) -> list[Premise]:
    """(P1)-(P6), which hold with probability 1 - 3n² d^(-ln d/2) - n² e^(-d/16) - d^(1-ln d). Proposition A.1."""
    d, log_d, noise = s.dim, math.log(s.dim), data.x - data.centres[data.cluster]
    gram, products = data.x @ data.x.T, noise @ noise.T
    same = data.cluster.unsqueeze(1) == data.cluster
    products.fill_diagonal_(0)
    rows = [
        ("p1", "(P1) ‖ξ_i‖", torch.linalg.vector_norm(noise, dim=1).max(), "<=", s.sigma * math.sqrt(2 * d)),
        ("p2", "(P2) |⟨ξ_i, ξ_j⟩|", products.abs().max(), "<=", s.sigma**2 * math.sqrt(2 * d) * log_d),
        ("p3", "(P3) |⟨μ, ξ_i⟩|", (noise @ data.centres.T).abs().max(), "<=", s.sigma * math.sqrt(d) * log_d),
        (
            "p4",
            "(P4) |⟨x_i, x_j⟩| across clusters",
            _largest(gram[~same].abs()),
            "<=",
            s.coherence + s.spread,
        ),
        ("p5-least", "(P5) ⟨x_i, x_j⟩ within, least", gram[same].min(), ">=", d - s.spread),
        ("p5-most", "(P5) ⟨x_i, x_j⟩ within, largest", gram[same].max(), "<=", 3 * d + s.spread),
        ("p6", "(P6) clusters with a point", len(torch.unique(data.cluster)), ">=", s.clusters),
    ]
    return [
        Premise(f"proposition-a-1.{id}", name, float(value), relation, float(bound), "Proposition A.1")
        for id, name, value, relation, bound in rows
    ]


def _largest(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def failure_probability(s: MixtureSizes) -> float:
    """That (P1)-(P6) fail somewhere; above 1 it says nothing. Proposition A.1."""
    log_d = math.log(s.dim)
    square = float(s.points) ** 2
    return 3 * square * s.dim ** (-log_d / 2) + square * math.exp(-s.dim / 16) + s.dim ** (1 - log_d)


def loss_threshold(num_points: int, loss: str) -> float:
    """The L below which every margin is positive: 1/n for the exponential loss, ln 2/n for ln(1 + e^-q). Theorem 2.1.

    The paper writes 1/n for both, its logarithm being base 2.
    """
    return (1.0 if loss == "exponential" else math.log(2)) / num_points


def theorem_2_1(log_loss: float, num_points: int, loss: str) -> list[Premise]:
    """The loss is below the threshold from which on gradient flow goes to a KKT point. Theorem 2.1."""
    threshold = math.log(loss_threshold(num_points, loss))
    return [Premise("theorem-2-1.loss", "ln L", log_loss, "<", threshold, f"Theorem 2.1, {loss} loss")]


def linear_direction(mu: Float[Tensor, "k d"], labels: Float[Tensor, " k"]) -> Float[Tensor, " d"]:
    """u = Σ_q y_q μ_q: a linear classifier that generalises (Lemma 2.1) and the direction that breaks KKT networks (Theorem 4.2)."""
    return labels.to(mu.dtype) @ mu


def linear_margin(dim: int) -> float:
    """y ⟨u, x⟩ ≥ (9d - 1)/10 except with probability 2d^(1 - ln d/2). Lemma 2.1."""
    return (9 * dim - 1) / 10


def test_error_bound(s: MixtureSizes) -> float:
    """P[y N(x) ≤ 0] ≤ 4n d^(-ln d/2) at any KKT point. Theorem A.1."""
    return 4 * s.points * s.dim ** (-math.log(s.dim) / 2)


def lost_share(num_clusters: int, num_points: int) -> float:
    """(1 - 1/k)^n, the mean share of clusters without a training point."""
    return (1 - 1 / num_clusters) ** num_points


def lost_cluster_error(num_clusters: int, num_points: int) -> float:
    """½(1 - 1/k)^n: a lost cluster is a coin flip, with sign(0) = -1 as the paper has it (Section 2), and no other point is wrong."""
    return lost_share(num_clusters, num_points) / 2


def lost_cluster_strict_error(num_clusters: int, num_points: int) -> float:
    """⅝(1 - 1/k)^n where y N(x) ≤ 0 counts as wrong, as in Theorem 3.1.

    On a lost cluster the two directions of a KKT point see independent symmetric numbers (where noise is larger than the biases): both
    are below their kinks with probability ¼, where N = 0 is wrong for either label, and the other ¾ are a coin flip.
    """
    return 5 / 8 * lost_share(num_clusters, num_points)


def largest_sum(s: Separation) -> float:
    """S_q ≤ 1/((1 - 2c')(d - Δ + 1)) for every cluster and sign. Lemma A.10; NaN where c' ≥ 1/2 and the lemma says nothing."""
    return 1 / ((1 - 2 * s.crowding) * (s.dim - s.spread + 1)) if s.crowding < 0.5 else math.nan


def least_own_sum(s: Separation) -> float:
    """S_q ≥ (1 - c'/(1 - 2c'))/(3d + Δ + 1) for the sign of the cluster. Lemma A.11; NaN where c' ≥ 1/2."""
    if s.crowding >= 0.5:
        return math.nan
    return (1 - s.crowding / (1 - 2 * s.crowding)) / (3 * s.dim + s.spread + 1)


def least_test_margin(s: Separation) -> float:
    """y N(x) ≥ (1 - c'/(1-2c'))(d - Δ + 1)/(3d + Δ + 1) - 2c'/(1 - 2c') on test points. Lemma A.12; NaN where c' ≥ 1/2."""
    if s.crowding >= 0.5:
        return math.nan
    return least_own_sum(s) * (s.dim - s.spread + 1) - 2 * s.crowding / (1 - 2 * s.crowding)


def alignment_room(s: Separation) -> float:
    """d - Δ - k(p + Δ), positive under the assumption: ⟨w_j, u⟩ is at least this times Σ_i λ_i |v_j| φ'_ij. Lemmas D.4, D.5."""
    return s.dim - s.spread - s.clusters * (s.coherence + s.spread)


def least_input(s: Separation) -> float:
    """⟨w_j, x⟩ + b_j ≥ -(2Δ + p + 1) Σ_i λ_i |v_j| φ'_ij on test points: the factor. Lemma D.3."""
    return -(2 * s.spread + s.coherence + 1)


def printed_step(s: Separation) -> tuple[float, float]:
    """(η₁, η₂) of z = (η₁ + η₂) u: η₁ = (2Δ + p + 1)/r, η₂ = 3(3d + Δ + 1)(1 - 2c')/(r (1 - 3c') c k), r = d - Δ - k(p + Δ).

    Theorem 4.2, Appendix D. NaN outside the assumption, where r or 1 - 3c' may be negative.
    """
    room = alignment_room(s)
    if room <= 0 or s.crowding >= 1 / 3:
        return math.nan, math.nan
    second = 3 * (3 * s.dim + s.spread + 1) * (1 - 2 * s.crowding)
    return (2 * s.spread + s.coherence + 1) / room, second / (
        room * (1 - 3 * s.crowding) * s.balance * s.clusters
    )


def critical_norm(mu: Float[Tensor, "k d"], labels: Float[Tensor, " k"]) -> float:
    """‖u‖/k: where the KKT point with one neuron for each class breaks along u; √(d/k) for orthogonal means of norm √d.

    Other KKT points of the same data may break elsewhere. With two directions N = [⟨u₊, x⟩]₊ - [⟨u₋, x⟩]₊ the difference
    y_q ⟨u₊ - u₋, μ_q⟩ is 1 + e_q, e_q ≥ 0 how far the other direction is below its kink on cluster q. Along u both are on where the
    output crosses 0, so cluster q breaks at the step (1 + e_q)/Σ_r (1 + e_r): the mean over clusters is 1/k for all means; where
    the e_q agree (orthogonal means, or equal classes with equal cosines) all clusters break there. A bias adds k(1 - 2c)²/(d + 1)
    in unequal classes. Noise cancels: n_q points a cluster divide both the output on fresh points and its slope along u by 1 + σ²/n_q.
    """
    return float(torch.linalg.vector_norm(linear_direction(mu, labels))) / len(labels)


def group_norm(sizes: MixtureSizes, cosine: float, group: int) -> float:
    """Norm along u ÷ (‖u‖/k) at which the KKT point breaks whose neurons see groups of `group` clusters; k/(k/2 + m) in high dimension.

    k = 2κ clusters of norm √d, equal classes, one cosine c between all means, no noise. With C = dc + 1 ≤ 0, D = d + 1 and a neuron
    β Σ_{q in group} (μ_q, 1) for each group of m, off at the other groups, the own response at a mean is β(D + (m-1)C) = 1. A step ηu
    against the point lowers it by ηβm·d(1 - c), and raises the κ/m neurons of the other class from βmC by as much each, so the
    output is 0 at η = (D + (m - 1 - κ)C)/(d(1 - c)(κ + m)). m = κ gives 1/k; C > 0 leaves m = κ alone.
    """
    d, k = sizes.dim, sizes.clusters
    half, across, same = k / 2, d * cosine + 1, d + 1
    if across > 0 and group < half:
        raise ValueError("Neurons that see only a part of their class exist where ⟨μ, μ'⟩ ≤ -1.")
    return k * (same + (group - 1 - half) * across) / (d * (1 - cosine) * (half + group))


def norm_of_order(s: Separation) -> float:
    """√(d/(c²k)): the order of Theorem 4.2 with the constant 1; 2‖u‖/k for equal classes and orthogonal means."""
    return math.sqrt(s.dim / (s.balance**2 * s.clusters))


def mixed_radius(mixing: float, num_clusters: int) -> float:
    """Radius ÷ √d of N = Σ_j y_j [⟨μ_j, x⟩ + ρ Σ_{l of the class of j} ⟨μ_l, x⟩]₊ at its means, κ = k/2 orthogonal ones a class.

    Move the point's own coordinate, the others of its class and those of the other class by (a, e, c): the output is 0 where
    1 - a - (κ-1)e = κc =: A, and the other neurons of the class stay on up to e = ρA. The shortest such move is
    √(B/((1 + (κ-1)ρ)² + B)), B = (κ-1)ρ² + 1/κ; from ρ = 1/κ on it is 1/√k, that of features averaged in full.
    """
    half = num_clusters / 2
    rho = min(mixing, 1 / half)
    rest = (half - 1) * rho**2 + 1 / half
    return math.sqrt(rest / ((1 + (half - 1) * rho) ** 2 + rest))


def robust_start_passage(dim: int, num_clusters: int, scale: float = 1.0, share: float = 1.1) -> float:
    """ln(1/L) at which gradient flow from `scale` times Theorem 4.1's network is robust to `share` √(d/k) only; σ → 0, equal classes.

    While its bias is negative a neuron sees its own cluster alone: with input h there and vote v, h' = (d+1)v and v' = h in one clock,
    so v² - h²/(d+1) stays and b + 2 = (h - 2)/(d+1); b = 0 at h₁ = 2d + 4. From there on all clusters of its class feed it alike: it
    mixes ρ = G/h₁ of them in, and with M = h₁ + κG, v² - M²/(κ(d+κ)) stays. ln(1/L) = vM, about 4 d^(3/2) at b = 0, times scale².
    """
    if num_clusters % 2:
        raise ValueError(f"The law is for classes of equal size, got {num_clusters} clusters.")
    half, target = num_clusters / 2, share / math.sqrt(num_clusters)
    if not 1 / math.sqrt(num_clusters) < target < mixed_radius(0.0, num_clusters):
        raise ValueError(
            f"{share:g} √(d/k) is not between √(d/k) and the radius of features that are not mixed."
        )
    low, high = 0.0, 1 / half
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mixed_radius(middle, num_clusters) > target else (low, middle)
    first = 2.0 * dim + 4
    square = 1 + (first**2 - 4) / (dim + 1)  # v² at b = 0
    total = first * (1 + half * low)
    square += (total**2 - first**2) / (half * (dim + half))
    return scale**2 * total * math.sqrt(square)


def noisy_passage_share(s: MixtureSizes) -> float:
    """1/(1 + zσ√d)², z the normal quantile of 1 - k/n: how much earlier noise brings the passage of `robust_start_passage`.

    A neuron is opened by the farthest of the n/k points of another cluster along it, at -b = zσ‖w‖ in place of b = 0; ‖w‖ is then
    smaller by 1 + zσ√d, and with it everything after, of which ln(1/L) is the square. That one point does it is a guess that fits.
    """
    quantile = NormalDist().inv_cdf(1 - s.clusters / s.points)
    return (1 + quantile * s.sigma * math.sqrt(s.dim)) ** -2


def halfspace_error(dim: int, points: float, margin: float) -> float:
    """Test error of the max-margin linear classifier on Gaussian points with |x₁| ≥ γ, labelled by the sign of x₁, n ≪ d. Section 5.

    Points of norm √d are nearly orthogonal, so all have the same multiplier. With t = |x₁| of a new point and m = E|x₁| the output is
    N(nmt, nd) and wrong with probability Φ(-mt√(n/d)). In a network with one neuron for each class the neuron of the class of the new
    point gets N(nmt/2, nd/2) from the n/2 points of its class. Where that is negative the network is wrong: Φ(-mt√(n/(2d))), what the
    linear classifier has with half of the points. Points of the other class help only where the neuron would be on at them, which is
    less than half of them; at most they make up for half of what is missing, which is 3n/4 points.
    """
    normal, steps = NormalDist(), 200
    beyond = 1 - normal.cdf(margin)
    mean = normal.pdf(margin) / beyond
    lengths = (normal.inv_cdf(1 - beyond * (index + 0.5) / steps) for index in range(steps))
    return sum(normal.cdf(-mean * length * math.sqrt(points / dim)) for length in lengths) / steps


def halfspace_points(dim: int, error: float, margin: float) -> float:
    """The number of points with which the linear classifier of `halfspace_error` has this error."""
    low, high = 0.0, 100.0 * dim
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if halfspace_error(dim, middle, margin) > error else (low, middle)
    return low


def one_a_cluster_probability(clusters: int, points: int, product: float, noise: float) -> float:
    """That one neuron for each cluster is a KKT point of a sample; k means with one inner product below -1, noise = σ√d, σ ≪ 1.

    The neuron of a cluster is the sum of its n/k points. At a point of another cluster of its class it gets ⟨μ, μ'⟩ + 1 in the mean
    over its points, plus normal noise of standard deviation σ√d √(1 + k/n): that of the point along one mean, that of the mean of n/k
    points along another. The pattern stays if all n(k/2 - 1) of these numbers are negative.
    """
    spread = noise * math.sqrt(1 + clusters / points)
    return NormalDist().cdf(-(product + 1) / spread) ** (points * (clusters / 2 - 1))


def boundary_noise(clusters: int, points: int, product: float) -> float:
    """The noise σ√d at which `one_a_cluster_probability` is ½."""
    quantile = NormalDist().inv_cdf(0.5 ** (1 / (points * (clusters / 2 - 1))))
    return -(product + 1) / (quantile * math.sqrt(1 + clusters / points))


def one_a_class_probability(clusters: int, width: float) -> float:
    """(1 - (1 - 2^(-k/2))^(h/2))²: that in both classes some neuron of h/2 sees all k/2 clusters of its class at a random start.

    With obtuse means a cluster that a neuron does not see stays unseen, as the clusters it learns push it away. The limit of the flow
    is the solution of least norm in the patterns that are there, and one neuron that sees the whole class is the shortest way.
    """
    return (1 - (1 - 2 ** (-clusters / 2)) ** (width / 2)) ** 2


_SIZES = {"dim": 10_000, "clusters": 2, "sigma": 0.01, "points": 200, "delta": 0.05, "epsilon": 0.05}
_MEANS = {"coherence": 0.0, "balance": 0.5, "norm_gap": 0.0}
_LETTERS = {
    "d": "dim",
    "k": "clusters",
    "σ": "sigma",
    "n": "points",
    "δ": "delta",
    "ε": "epsilon",
    "p": "coherence",
    "c": "balance",
}
_KKT = "The network is a KKT point of the maximum-margin problem."


def _separated(**sizes: float) -> list[Premise]:
    return assumption_2_2(Separation(**sizes))  # type: ignore[arg-type]


def _separated_and_sized(**sizes: float) -> list[Premise]:
    return [*_separated(**sizes), *size_conditions(Separation(**sizes))]  # type: ignore[arg-type]


def _theorem_2_1_at(log_loss: float, points: int, loss: str) -> list[Premise]:
    return theorem_2_1(log_loss, points, loss)


THEOREMS = (
    Theorem(
        "theorem-2-1",
        "Gradient flow goes to a KKT point of the maximum-margin problem in direction.",
        {"log_loss": -8.0, "points": 200, "loss": "logistic"},
        _theorem_2_1_at,
        {"n": "points"},
    ),
    Theorem(
        "theorem-3-1",
        "Every KKT network classifies new points with an error of at most ε.",
        _SIZES | _MEANS,
        _separated_and_sized,
        _LETTERS,
        _KKT,
    ),
    Theorem(
        "theorem-4-1",
        "Some network classifies new points robustly at √d/8.",
        _SIZES | _MEANS,
        _separated,
        _LETTERS,
    ),
    Theorem(
        "theorem-4-2",
        "One direction of norm O(√(d/(c² k))) flips every KKT network on nearly every point.",
        _SIZES | _MEANS,
        _separated_and_sized,
        _LETTERS,
        _KKT,
    ),
)
