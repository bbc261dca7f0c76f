"""Li et al., "Feature Averaging: An Implicit Bias of Gradient Descent Leading to Non-Robustness in Neural Networks", as data.

Premises and predictions from the setting alone: k clusters with orthogonal centres of norm √d and noise N(0, I), n points, m
neurons of each sign (or h for each of k classes), step size η. Beside the paper's orders stand the sharp laws that its dynamics
imply; bounds that say nothing at a given size are marked vacuous by the one who measures.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.records import Dataset, Premise


@dataclass(frozen=True)
class Setting:
    """The sizes a statement speaks of; `start` is the std σ_w = σ_b of the initial entries."""

    dim: int
    num_positive: int
    num_negative: int
    num_points: int
    per_class: int
    step_size: float
    start: float

    @property
    def num_clusters(self) -> int:
        """k."""
        return self.num_positive + self.num_negative

    @property
    def imbalance(self) -> float:
        """c = max(|J₊|/|J₋|, |J₋|/|J₊|)."""
        return max(self.num_positive / self.num_negative, self.num_negative / self.num_positive)


def noise_bound(dim: int) -> float:
    """Δ = 4√d ln d. Proposition A.6."""
    return 4 * math.sqrt(dim) * math.log(dim)


def premises(setting: Setting, mu: Float[Tensor, "k d"]) -> list[Premise]:
    """Assumptions 3.2, 3.3 and 4.3 with the constants of the orders set to 1, and the hidden premise of Lemma A.13."""
    d, k, n, m = setting.dim, setting.num_clusters, setting.num_points, setting.per_class
    unit = mu / torch.linalg.vector_norm(mu, dim=1, keepdim=True)
    off = float((unit @ unit.T - torch.eye(len(mu), dtype=mu.dtype)).abs().max())
    norms = float((torch.linalg.vector_norm(mu, dim=1) / math.sqrt(d) - 1).abs().max())
    eta = setting.step_size
    return [
        Premise("largest |cos(μ_i, μ_j)|", off, "<=", 1e-9, "Assumption 3.2"),
        Premise("largest |‖μ_j‖/√d - 1|", norms, "<=", 1e-9, "Assumption 3.2"),
        Premise("c = max(|J₊|/|J₋|, |J₋|/|J₊|)", setting.imbalance, "<=", 3.0, "Assumption 3.3, for c = 3"),
        Premise("d (order k¹⁰)", d, ">=", float(k) ** 10, "Assumption 4.3"),
        Premise("n, from below (order k⁷)", n, ">=", float(k) ** 7, "Assumption 4.3"),
        Premise("ln n, from above (order ln² d)", math.log(n), "<=", math.log(d) ** 2, "Assumption 4.3"),
        Premise("m (order k)", m, "<=", k, "Assumption 4.3"),
        Premise("η (order d⁻²)", eta, "<=", float(d) ** -2, "Assumption 4.3"),
        Premise("σ_w² (order η k⁻⁵)", setting.start**2, "<=", eta / float(k) ** 5, "Assumption 4.3"),
        Premise(
            "σ_w (order η/(n m √d))",
            setting.start,
            "<=",
            eta / (6 * n * m * math.sqrt(d)),
            "Lemma A.13, needed but not assumed",
        ),
    ]


def sample_events(data: Dataset) -> list[Premise]:
    """The events of Proposition A.6 on a sample, each as its most extreme value."""
    n, d = data.x.shape
    k, delta = len(data.centres), noise_bound(d)
    noise = data.x - data.centres[data.cluster]
    lengths, sizes = torch.linalg.vector_norm(noise, dim=1), torch.bincount(data.cluster, minlength=k)
    inner, cross = data.x @ data.x.T, noise @ noise.T
    same = data.cluster.unsqueeze(0) == data.cluster.unsqueeze(1)
    others = ~torch.eye(n, dtype=torch.bool)
    counts = float((sizes - n / k).abs().max())
    source = "Proposition A.6"
    return [
        Premise("|‖ξ‖ - √d|", float((lengths - math.sqrt(d)).abs().max()), "<=", 2 * math.log(d), source),
        Premise("‖x‖", float(torch.linalg.vector_norm(data.x, dim=1).max()), "<=", 3 * math.sqrt(d), source),
        Premise("|⟨ξ_i, ξ_j⟩|", float(cross[others].abs().max()), "<=", delta, source),
        Premise("|⟨μ_j, ξ_i⟩|", float((noise @ data.centres.T).abs().max()), "<=", delta, source),
        Premise("|⟨x_i, x_j⟩|, different clusters", float(inner[~same].abs().max()), "<=", delta, source),
        Premise(
            "⟨x_i, x_j⟩, same cluster, from below", float(inner[same & others].min()), ">=", d / 2, source
        ),
        Premise(
            "⟨x_i, x_j⟩, same cluster, from above", float(inner[same & others].max()), "<=", 2.0 * d, source
        ),
        Premise("||I_j| - n/k|", counts, "<=", math.sqrt(2 * n / k) * math.log(n / k), source),
    ]


def start_events(setting: Setting, W: Float[Tensor, "h d"], b: Float[Tensor, " h"]) -> list[Premise]:
    """The events of Proposition A.10 on a start."""
    norms = torch.linalg.vector_norm(W, dim=1) / setting.start
    room = 2 * math.log(setting.dim)
    worst = float((norms - math.sqrt(setting.dim)).abs().max())
    largest = 2 * setting.start * math.sqrt(2 * math.log(max(2, setting.per_class)))
    return [
        Premise("|‖w(0)‖/σ_w - √d|", worst, "<=", room, "Proposition A.10"),
        Premise("|b(0)|", float(b.abs().max()), "<=", largest, "Proposition A.10"),
    ]


def epsilon(setting: Setting) -> float:
    """ε = max{2 ln(n/k)/(√(n/k) - ln(n/k)), k²Δ/d, k²/n} of the appendix; its bounds are vacuous from 1 on."""
    k, ratio = setting.num_clusters, setting.num_points / setting.num_clusters
    first = 2 * math.log(ratio) / max(math.sqrt(ratio) - math.log(ratio), 1e-300)
    return max(first, k**2 * noise_bound(setting.dim) / setting.dim, k**2 / setting.num_points)


def critical_radius(dim: int, num_clusters: int) -> float:
    """√(d/k), where the universal direction Σ y_j μ_j flips a feature-averaging network: its critical multiple is 1/k."""
    return math.sqrt(dim / num_clusters)


def printed_attack_norm(setting: Setting) -> float:
    """2(1+c)√(d/k), the norm of the attack of Theorem 4.5; above √d it proves nothing."""
    return 2 * (1 + setting.imbalance) * critical_radius(setting.dim, setting.num_clusters)


def largest_radius(dim: int) -> float:
    """√(d/2), beyond which no classifier is robust."""
    return math.sqrt(dim / 2)


def printed_decoupled_radius(dim: int) -> float:
    """√d/10, at which the proof of Theorem 4.7 shows the k-class network robust."""
    return math.sqrt(dim) / 10


def shared_features_radius(dim: int, num_clusters: int) -> float:
    """2√(d/(k+6)), where the network of Proposition 4.8 breaks (best direction of a single pair of clusters)."""
    return 2 * math.sqrt(dim / (num_clusters + 6))


def cosine_law(num_own: int, num_clusters: int, num_points: int) -> float:
    """cos(w, μ_j) = 1/√(|J|(1 + k/n)) for the clusters of the own class: the signal averaged, the noise memorised."""
    return 1 / math.sqrt(num_own * (1 + num_clusters / num_points))


def noise_share(num_clusters: int, num_points: int) -> float:
    """‖w - λ Σ μ_j/d‖ ÷ ‖λ Σ μ_j/d‖ = √(k/n), the relative error of Theorem 4.5 (2)."""
    return math.sqrt(num_clusters / num_points)


def growth_rate(setting: Setting) -> float:
    """C = (ηd/m)(1/k + 1/n) of the growth laws, per step."""
    scale = setting.step_size * setting.dim / setting.per_class
    return scale * (1 / setting.num_clusters + 1 / setting.num_points)


def two_class_margin(rate: float, time: float) -> float:
    """The margin q(t): q + e^q = 1 + Ct, from dq/dt = C/(1 + e^q), q(0) = 0."""
    return _grown(rate * time, 1.0)


def k_class_margin(rate: float, time: float, num_clusters: int) -> float:
    """The own logit q(t): q + e^q/(k-1) = 1/(k-1) + Ct, from dq/dt = C(k-1)/(k-1+e^q), q(0) = 0."""
    return _grown(rate * time, 1 / (num_clusters - 1))


def _grown(elapsed: float, weight: float) -> float:
    """q ≥ 0 with q + weight·e^q = weight + elapsed, by Newton's method from above (the left side is convex)."""
    q = min(elapsed, max(0.0, math.log1p(elapsed / weight)))
    for _ in range(100):
        step = (q + weight * math.exp(q) - weight - elapsed) / (1 + weight * math.exp(q))
        q -= step
        if abs(step) <= 1e-15 * max(1.0, q):
            break
    return q


def derivative_ratio_bounds(large: float, small: float) -> tuple[float, float]:
    """e^((q_i-q_j)/2) ≤ ℓ'_j/ℓ'_i ≤ e^(q_i-q_j) for margins q_i ≥ q_j. Lemma 5.3/B.6; the lower one needs q_i + q_j ≥ 0."""
    return math.exp((large - small) / 2), math.exp(large - small)


def partial_radius(dim: int, per_label: float) -> float:
    """√(d/2s), where a network with one label for every s clusters breaks: each label averages the features of its s clusters.

    From w_A - w_B = λ(Σ_A μ - Σ_B μ)/d, of norm λ√(2s/d), and output λ at a centre. s = 1: √(d/2), the best there is; s = k/2
    (two labels): √(d/k).
    """
    return math.sqrt(dim / (2 * per_label))


def averaging_share(setting: Setting, steps: int) -> float:
    """Own-class cosine ÷ `cosine_law` after `steps` steps: what is left of averaging at large steps and large starts.

    1/√(1 + ρ²(1/12 + |J₋|/3|J₊|) + σ²d²/(|J₊|q²(1+k/n))) with q the margin at the end and ρ = C/2q the share of the first step.
    In the first step a neuron sees a random share of each cluster (uniform in [0, 1]: mean 1/2, variance 1/12), of both classes;
    later ones add its own class alone, with dq/dt = C/(1 + e^q) from q = C/4. Not in the paper: follows from its dynamics.
    """
    rate = growth_rate(setting)
    first, k, n = rate / 4, setting.num_clusters, setting.num_points
    # past e^600 one step settles everything, and the exponential would overflow
    margin = first if first > 600 else _grown(first + math.exp(first) - 1 + rate * (steps - 1), 1.0)
    own = setting.num_positive
    overshoot = (rate / (2 * margin)) ** 2 * (1 / 12 + setting.num_negative / (3 * own))
    remembered = (setting.start * setting.dim / margin) ** 2 / (own * (1 + k / n))
    return 1 / math.sqrt(1 + overshoot + remembered)
