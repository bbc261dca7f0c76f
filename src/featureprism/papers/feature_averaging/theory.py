"""Li et al., "Feature Averaging: An Implicit Bias of Gradient Descent Leading to Non-Robustness in Neural Networks", as data.

Premises and predictions from the setting alone: k clusters with orthogonal centres of norm √d and noise N(0, I), n points, m
neurons of each sign (or h for each of k classes), step size η. Beside the paper's orders stand the sharp laws that its dynamics
imply; bounds that say nothing at a given size are marked vacuous by the one who measures.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.lab.premise import Premise
from featureprism.lab.theorem import Theorem


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """|J₊| positive and |J₋| negative clusters in d dimensions, n points, m neurons of each sign, step size η, entries of std σ."""

    dim: int
    positive: int
    negative: int
    points: int
    per_class: int
    step_size: float
    start: float

    @property
    def num_clusters(self) -> int:
        """k."""
        return self.positive + self.negative

    @property
    def imbalance(self) -> float:
        """c = max(|J₊|/|J₋|, |J₋|/|J₊|)."""
        return max(self.positive / self.negative, self.negative / self.positive)


def noise_bound(dim: int) -> float:
    """Δ = 4√d ln d. Proposition A.6."""
    return 4 * math.sqrt(dim) * math.log(dim)


def premises(s: Sizes, mu: Float[Tensor, "k d"], points_constant: float = 1.0) -> list[Premise]:
    """Assumptions 3.2, 3.3 and 4.3 with the constants of the orders set to 1, and the hidden premise of Lemma A.13."""
    unit = mu / torch.linalg.vector_norm(mu, dim=1, keepdim=True)
    off = float((unit @ unit.T - torch.eye(len(mu), dtype=mu.dtype)).abs().max())
    norms = float((torch.linalg.vector_norm(mu, dim=1) / math.sqrt(s.dim) - 1).abs().max())
    return [
        Premise("assumption-3-2.cosines", "largest |cos(μ_i, μ_j)|", off, "<=", 1e-9, "Assumption 3.2"),
        Premise("assumption-3-2.norms", "largest |‖μ_j‖/√d - 1|", norms, "<=", 1e-9, "Assumption 3.2"),
        *size_premises(s, points_constant),
    ]


def size_premises(s: Sizes, points_constant: float = 1.0) -> list[Premise]:
    """Those that sizes decide: Assumptions 3.3 and 4.3, and the hidden premise of Lemma A.13.

    `points_constant`: C of n ≥ C k⁷, which the paper leaves open like all others.
    """
    d, k, n, m, eta = s.dim, s.num_clusters, s.points, s.per_class, s.step_size
    balance, hidden = "c = max(|J₊|/|J₋|, |J₋|/|J₊|)", "Lemma A.13, needed but not assumed"
    sizes = [
        ("dim", "d (order k¹⁰)", d, ">=", float(k) ** 10),
        ("least-points", "n, from below (order k⁷)", n, ">=", points_constant * float(k) ** 7),
        ("most-points", "ln n, from above (order ln² d)", math.log(n), "<=", math.log(d) ** 2),
        ("neurons", "m (order k)", m, "<=", k),
        ("step-size", "η (order d⁻²)", eta, "<=", float(d) ** -2),
        ("start", "σ_w² (order η k⁻⁵)", s.start**2, "<=", eta / float(k) ** 5),
    ]
    return [
        Premise("assumption-3-3.balance", balance, s.imbalance, "<=", 3.0, "Assumption 3.3, for c = 3"),
        *(
            Premise(f"assumption-4-3.{id}", name, measured, relation, required, "Assumption 4.3")
            for id, name, measured, relation, required in sizes
        ),
        Premise("lemma-a-13.start", "σ_w (order η/(n m √d))", s.start, "<=", small_start(s), hidden),
    ]


def small_start(s: Sizes) -> float:
    """η/(6nm√d), the largest σ_w that the proof of Lemma A.13 allows; Assumption 4.3 does not ask for it."""
    return s.step_size / (6 * s.points * s.per_class * math.sqrt(s.dim))


def largest_start(s: Sizes) -> float:
    """√(η k⁻⁵), the largest σ_w that Assumption 4.3 allows with constant 1."""
    return math.sqrt(s.step_size / float(s.num_clusters) ** 5)


def activation_time(s: Sizes, z: Float[Tensor, " p"]) -> float:
    """Steps until a neuron that begins with pre-activations z on the points of a cluster of its class is active on all of them.

    Each step raises all of them by ηd/(2nm) for each point that is active, so that the next one follows after its distance from the
    one before ÷ that: (2nm/(ηd)) Σ_i (z_(i-1) - z_(i))/i over the negative ones in falling order, z_(i) the next after i active ones.
    Infinite if no point is active at first. For many points, seen at σ_w√d (g + N(0, 1)), it tends to
    (2kmσ_w/(η√d)) ∫ dv/Φ(v) from g to the extreme of n/k normals. Not in the paper, which has one step.
    """
    ordered = z.sort(descending=True).values
    num_active = int((ordered >= 0).sum())
    if num_active == 0:
        return math.inf
    negative = ordered[num_active:]
    steps = torch.diff(negative, prepend=torch.zeros(1, dtype=z.dtype)).abs()
    counts = torch.arange(num_active, len(z), dtype=z.dtype)
    return 2 * s.points * s.per_class / (s.step_size * s.dim) * float((steps / counts).sum())


def training_time(s: Sizes, steps: int, theorem: str = "4.5") -> list[Premise]:
    """Ω(1/η) ≤ T ≤ exp(Õ(√k)) of Theorem 4.5, or Ω(k⁸/η) ≤ T ≤ exp(Õ(√k)) of Theorem 4.7; constants and logarithms set to 1."""
    id, k = f"theorem-{theorem.replace('.', '-')}", s.num_clusters
    name, least = {"4.5": ("ηT (order 1)", 1.0), "4.7": ("ηT (order k⁸)", float(k) ** 8)}[theorem]
    source = f"Theorem {theorem}"
    return [
        Premise(f"{id}.least-steps", name, s.step_size * steps, ">=", least, source),
        Premise(f"{id}.most-steps", "ln T (order √k)", math.log(steps), "<=", math.sqrt(k), source),
    ]


def sample_events(data: Dataset, dim: int | None = None) -> list[Premise]:
    """The events of Proposition A.6 on a sample, each as its most extreme value; `dim`: d, if the coordinates are those of a span."""
    n, d = data.x.shape[0], dim or data.x.shape[1]
    k, delta = len(data.centres), noise_bound(d)
    noise = data.x - data.centres[data.cluster]
    lengths, norms = (torch.linalg.vector_norm(v, dim=1) for v in (noise, data.x))
    sizes = torch.bincount(data.cluster, minlength=k)
    inner, cross = data.x @ data.x.T, noise @ noise.T
    same = data.cluster.unsqueeze(0) == data.cluster.unsqueeze(1)
    others = ~torch.eye(n, dtype=torch.bool)
    pairs, room = inner[same & others], math.sqrt(2 * n / k) * math.log(n / k)
    events = [
        ("noise-norm", "|‖ξ‖ - √d|", (lengths - math.sqrt(d)).abs().max(), "<=", 2 * math.log(d)),
        ("norm", "‖x‖", norms.max(), "<=", 3 * math.sqrt(d)),
        ("noise-pairs", "|⟨ξ_i, ξ_j⟩|", cross[others].abs().max(), "<=", delta),
        ("centre-noise", "|⟨μ_j, ξ_i⟩|", (noise @ data.centres.T).abs().max(), "<=", delta),
        ("across", "|⟨x_i, x_j⟩|, different clusters", inner[~same].abs().max(), "<=", delta),
        ("within-least", "⟨x_i, x_j⟩, same cluster, from below", pairs.min(), ">=", d / 2),
        ("within-most", "⟨x_i, x_j⟩, same cluster, from above", pairs.max(), "<=", 2.0 * d),
        ("sizes", "||I_j| - n/k|", (sizes - n / k).abs().max(), "<=", room),
    ]
    return [
        Premise(f"proposition-a-6.{id}", name, float(measured), relation, required, "Proposition A.6")
        for id, name, measured, relation, required in events
    ]


def start_events(s: Sizes, W: Float[Tensor, "h d"], b: Float[Tensor, " h"]) -> list[Premise]:
    """The events of Proposition A.10 on a start."""
    norms, source = torch.linalg.vector_norm(W, dim=1) / s.start, "Proposition A.10"
    worst = float((norms - math.sqrt(s.dim)).abs().max())
    largest = 2 * s.start * math.sqrt(2 * math.log(max(2, s.per_class)))
    return [
        Premise("proposition-a-10.norms", "|‖w(0)‖/σ_w - √d|", worst, "<=", 2 * math.log(s.dim), source),
        Premise("proposition-a-10.biases", "|b(0)|", float(b.abs().max()), "<=", largest, source),
    ]


def activation_event(s: Sizes, fewest: float) -> Premise:
    """The event of Proposition A.12 on a start; `fewest`: points of a cluster that activate a neuron, the least over both."""
    name = "points of a cluster that activate a neuron, the fewest"
    return Premise("proposition-a-12.points", name, fewest, ">=", needed_activations(s), "Proposition A.12")


def sample_events_chance(s: Sizes) -> float:
    """1 - 8n² d^(-ln d/2) - 2k (n/k)^(-ln(n/k)), the probability that Proposition A.6 gives its events."""
    ratio = math.log(s.points / s.num_clusters)
    pairs = 8 * s.points**2 * math.exp(-(math.log(s.dim) ** 2) / 2)
    return 1 - pairs - 2 * s.num_clusters * math.exp(-(ratio**2))


def start_events_chance(s: Sizes) -> float:
    """1 - 4m d^(-ln d) - 2m⁻³, the probability that Proposition A.10 gives its events."""
    return 1 - 4 * s.per_class * math.exp(-(math.log(s.dim) ** 2)) - 2 / s.per_class**3


def needed_activations(s: Sizes) -> float:
    """n/(3km²), how many points of each cluster Proposition A.12 has activate each neuron at the start."""
    return s.points / (3 * s.num_clusters * s.per_class**2)


def printed_activation_chance(s: Sizes) -> float:
    """1 - m^(-1/100) - 2mk exp(-n/(9km²)), the probability that Proposition A.12 prints: ½ from m = 2¹⁰⁰ on."""
    m, k = s.per_class, s.num_clusters
    return 1 - m**-0.01 - 2 * m * k * math.exp(-s.points / (9 * k * m**2))


def activation_chance(s: Sizes) -> float:
    """(1 - 1/(3m²))^(2mk), the probability of the event of Proposition A.12; it tends to e^(-2/3) = 0.51 for m = k, not to 1.

    A neuron is active on Φ(g) of a cluster, g = ⟨w, μ⟩/(σ_w√d) ~ N(0, 1): a share uniform in [0, 1], independent for all 2m
    neurons and k
    clusters, each below 1/(3m²) with that probability. The proof takes the least ⟨w, μ_j⟩ over neurons for one cluster, not for all.
    """
    m, k = s.per_class, s.num_clusters
    return (1 - 1 / (3 * m**2)) ** (2 * m * k)


def epsilon(s: Sizes) -> float:
    """ε = max{2 ln(n/k)/(√(n/k) - ln(n/k)), k²Δ/d, k²/n} of the appendix; its bounds are vacuous from 1 on."""
    k, ratio = s.num_clusters, s.points / s.num_clusters
    first = 2 * math.log(ratio) / max(math.sqrt(ratio) - math.log(ratio), 1e-300)
    return max(first, k**2 * noise_bound(s.dim) / s.dim, k**2 / s.points)


def critical_radius(dim: int, num_clusters: int) -> float:
    """√(d/k), where the universal direction Σ y_j μ_j flips a feature-averaging network: its critical multiple is 1/k."""
    return math.sqrt(dim / num_clusters)


def printed_attack_norm(s: Sizes) -> float:
    """2(1+c)√(d/k), the norm of the attack of Theorem 4.5; above √d it proves nothing."""
    return 2 * (1 + s.imbalance) * critical_radius(s.dim, s.num_clusters)


def printed_shared_attack_norm(s: Sizes) -> float:
    """3(1+c)√(d/k), the norm of the attack in the proof of Proposition 4.8 (Theorem D.4)."""
    return 3 * (1 + s.imbalance) * critical_radius(s.dim, s.num_clusters)


def largest_radius(dim: int) -> float:
    """√(d/2), beyond which no classifier is robust."""
    return math.sqrt(dim / 2)


def printed_decoupled_radius(dim: int) -> float:
    """√d/10, at which the proof of Theorem 4.7 shows the k-class network robust."""
    return math.sqrt(dim) / 10


def shared_features_radius(dim: int, num_clusters: int) -> float:
    """2√(d/(k+6)), where the network of Proposition 4.8 breaks (best direction of a single pair of clusters)."""
    return 2 * math.sqrt(dim / (num_clusters + 6))


def cosine_law(num_own: int, num_clusters: int, num_points: int, signal: float = 1.0) -> float:
    """cos(w, μ_j) = 1/√(|J|(1 + k/(nα²))) for the clusters of the own class: the signal averaged, the noise memorised.

    `signal` is α, the norm of the centres ÷ √d.
    """
    return 1 / math.sqrt(num_own * (1 + num_clusters / num_points / signal**2))


def growth_rate(s: Sizes, num_neurons: int) -> float:
    """C = (ηd/m)(1/k + 1/n) of the growth laws, per step; m neurons share an output: `per_class` of two labels, h of k."""
    return s.step_size * s.dim / num_neurons * (1 / s.num_clusters + 1 / s.points)


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


def multi_class_ratio_bounds(gap: float, num_classes: int, epsilon: float) -> tuple[float, float]:
    """((e^Δ + k - 1)/k)/(1 + 2ε) ≤ ℓ'_j/ℓ'_i ≤ e^Δ(1 + 2ε), Δ = q_i - q_j ≥ 0. Lemma C.18: q_j ≥ 0, other logits in [0, ε], ε ≤ 1."""
    k = num_classes
    return (math.exp(gap) + k - 1) / k / (1 + 2 * epsilon), math.exp(gap) * (1 + 2 * epsilon)


def lemma_b(s: Sizes, steps: int, found: Mapping[str, float]) -> list[Premise]:
    """What Lemmas B.7 and B.10 to B.24 say after `steps` steps, with ε as printed, beside what was found (see `papers`)."""
    e, k, n, T = epsilon(s), s.num_clusters, s.points, steps
    grown = math.log(T * s.step_size), math.log(T + 1)
    statements = [
        ("b-7.1-least", "σ of own points, from below", "least_noise", ">=", k / (2 * n) * grown[0]),
        ("b-7.1-most", "σ of own points, from above", "most_noise", "<=", 2 * k / n * grown[1]),
        ("b-7.2", "gap of q̂ within a cluster", "cluster_sum_gap", "<=", 5 * e),
        ("b-7.3", "gap of q̂", "sum_gap", "<=", 63 * e),
        ("b-7.4", "gap of margins", "gap", "<=", 65 * e),
        ("b-7.5", "ratio of derivatives within a cluster", "cluster_derivative_ratio", "<=", 1 + 14 * e),
        ("b-7.6", "ratio of derivatives", "derivative_ratio", "<=", 1 + 130 * e),
        ("b-7.7", "share of own neurons that are active", "own_active", ">=", 1.0),
        ("b-7.8-features", "|λ| of the other class", "opposite_feature", "<=", e),
        ("b-7.8-noise", "|σ| of the other class", "opposite_noise", "<=", 2 * e),
        ("b-10", "|b|", "largest_bias", "<=", e / 6),
        ("b-11", "|⟨w, μ_j⟩ - λ_j|", "feature_error", "<=", e / 6),
        ("b-12", "|⟨w, ξ_i⟩ - σ_i|", "noise_error", "<=", e / 6),
        ("b-13", "|⟨w, x_i⟩ - λ_c(i) - σ_i|", "point_error", "<=", e / 3),
        ("b-14", "|q - q̂|", "sum_error", "<=", e),
        ("b-19", "ratio of own σ", "noise_ratio", "<=", 1 + 200 * e),
        ("b-20-least", "q - (n/2k)σ", "margin_above", ">=", -2 * e),
        ("b-20-most", "q - (2n/k)σ", "margin_below", "<=", 2 * e),
        ("b-21-least", "ln(-yℓ') + (2n/k)σ", "slope_above", ">=", -math.log(3)),
        ("b-21-most", "ln(-yℓ') + (n/2k)σ", "slope_below", "<=", math.log(2)),
        ("b-23-least", "own λ, from below", "least_feature", ">=", grown[0] / 4),
        ("b-23-most", "own λ, from above", "most_feature", "<=", 4 * grown[1]),
        ("b-24", "ratio of own λ", "feature_ratio", "<=", 1 + 204 * e),
    ]
    return [
        Premise(
            f"lemma-{id}",
            name,
            found[field],
            relation,
            required,
            f"Lemma {id.split('-')[0].upper()}.{id.split('-')[1].split('.')[0]}",
        )
        for id, name, field, relation, required in statements
    ]


def partial_radius(dim: int, per_label: float) -> float:
    """√(d/2s), where a network with one label for every s clusters breaks: each label averages the features of its s clusters.

    From w_A - w_B = λ(Σ_A μ - Σ_B μ)/d, of norm λ√(2s/d), and output λ at a centre. s = 1: √(d/2), the best there is; s = k/2
    (two labels): √(d/k).
    """
    return math.sqrt(dim / (2 * per_label))


def own_growth(margin: float, num_clusters: int, num_points: int) -> float:
    """λ = q/(1 + k/n): the margin of a training point is its feature λ and its own noise σ = λk/n."""
    return margin / (1 + num_clusters / num_points)


def balance_slope(margin: float) -> float:
    """dq_j/d ln(|I_j| + 1) = (q + e^q - 1)/(1 + e^q), the slope of margins on the logarithm of cluster sizes.

    Each cluster grows by its own law q + e^q = 1 + Ct with C in proportion to |I_j| + 1 (its points, and each point itself), so
    margins of two clusters differ by ln(|I_i|/|I_j|) once e^q ≫ q. Not in the paper: Lemma 5.3 says that margins agree.
    """
    return (margin - 1 + math.exp(margin)) / (1 + math.exp(margin))


def margin_spread(growth: float, num_own: int, dim: int) -> float:
    """λ√(|J|/d), the standard deviation of margins within a cluster: ⟨λ Σ μ_j/d, ξ_i⟩; it grows with λ, hence with ln t."""
    return growth * math.sqrt(num_own / dim)


def extreme_ratio(margin: float, growth: float, s: Sizes) -> float:
    """The largest ratio of loss derivatives of n training points if margins are q + λ√(|J|/d) g, g normal: at g = ±Φ⁻¹(1 - 1/(2n))."""
    far = float(torch.special.ndtri(torch.tensor(1 - 0.5 / s.points, dtype=torch.float64)))
    step = far * margin_spread(growth, s.positive, s.dim)
    low, high = (torch.sigmoid(torch.tensor(-margin + side * step)) for side in (-1, 1))
    return float(high / low)


def opposite_share(num_own: int, num_clusters: int, num_points: int, dim: int, num_labels: int = 2) -> float:
    """o = |λ of an opposite cluster| ÷ λ, the solution of (labels - 1) o = Φ(-o/s) with s² = |J|(1 + k/n)/d.

    A neuron sees a point of another label at λ(-o + s·N(0, 1)), and learns from it while that is positive: with residuals that the
    other labels share equally, d|λ_opp|/dλ = Φ(-o/s)/(labels - 1), whose fixed point has |λ_opp| = oλ. For two labels o is of order
    √(k/d) times √ln(d/k), whatever n. A neuron has |J| own clusters: half of all for two labels, one for k.
    """
    spread = math.sqrt(num_own * (1 + num_clusters / num_points) / dim)
    low, high = 0.0, 0.5
    for _ in range(100):
        middle = (low + high) / 2
        active = math.erfc(middle / spread / math.sqrt(2)) / 2
        low, high = (middle, high) if active > (num_labels - 1) * middle else (low, middle)
    return (low + high) / 2


def weights_law(s: Sizes, growth: float) -> float:
    """‖w - λ Σ μ_j/d‖ ÷ ‖λ Σ μ_j/d‖ = √((k/n)(1 + (g/λ)²) + o²) for equal classes: the relative error of Theorem 4.5 (2).

    A neuron is λ(Σ_own μ_j + what differs)/d: memorised noise, of relative length √(k/n); features that differ from their mean by
    g·ln(|I_j|k/n), of relative length (g/λ)√(k/n), g the `balance_slope`; and -o Σ_opp μ_j, the `opposite_share`.
    """
    ratio, own = s.num_clusters / s.points, s.num_clusters // 2
    slope = balance_slope(growth * (1 + ratio))
    return math.sqrt(
        ratio * (1 + (slope / growth) ** 2) + opposite_share(own, s.num_clusters, s.points, s.dim) ** 2
    )


def k_class_weights_law(s: Sizes, growth: float) -> float:
    """‖w - λ μ_j/d‖ ÷ ‖λ μ_j/d‖ = √((k/n)(1 + (g/λ)²) + (k-1)o²) with a label for each cluster, as in `weights_law`.

    g = dq/d ln C of q + e^q/(k-1) = 1/(k-1) + Ct, and o the `opposite_share` of k labels, of which a neuron has k - 1.
    """
    k, ratio = s.num_clusters, s.num_clusters / s.points
    margin = growth * (1 + ratio)
    weight = math.exp(margin) / (k - 1)
    slope = (margin + weight - 1 / (k - 1)) / (1 + weight)
    opposite = opposite_share(1, k, s.points, s.dim, k)
    return math.sqrt(ratio * (1 + (slope / growth) ** 2) + (k - 1) * opposite**2)


def approach_law(s: Sizes, growth: float) -> float:
    """inf_C sup_{‖x‖=√d} |C f_FA - f| ÷ sup|f| = √(2(k/n)(1 + (g/λ)²) + o²) for equal classes, to first order.

    The neurons of a class differ from their averaged features as in `weights_law`. A point of the sphere can be against memorised
    noise and unequal features in one class and with them in the other (hence 2), and along what is unlearned of the other class.
    """
    opposite = opposite_share(s.num_clusters // 2, s.num_clusters, s.points, s.dim)
    return math.sqrt(2 * weights_law(s, growth) ** 2 - opposite**2)


def summed_radius(dim: int, num_others: int, opposite: float = 0.0) -> float:
    """(1 + |J_other| o)√(d/(1 + |J_other|)), where summed logits of decoupled features break; o the `opposite_share` of k labels.

    In scores s = ⟨x, μ⟩/√d the output at a centre is Σ_own [s_j]₊ - Σ_other [s_l - o√d]₊. It falls by 1 for each unit of the own score
    and of every other score that is raised at once, beyond its threshold: the gradient has length √(1 + |J_other|), and √d and all the
    thresholds must be covered. A maximum lets only one rival rise: √(d/2).
    """
    return (1 + num_others * opposite) * math.sqrt(dim / (1 + num_others))


def correlated_cosine(s: Sizes, cosine: float) -> float:
    """cos(w, μ_j) of the own class for centres with equal cosines c, |J| in either class: c = 0 gives `cosine_law` up to o².

    Neurons see the other class at λ|J|c, and learn -o of its features until they hardly do: o(1 + (|J|-1)c) = |J|c + o₀ with o₀ the
    `opposite_share` of orthogonal centres. Then w ∝ Σ_own μ - o Σ_opp μ, with memorised noise |J|(1 + o²)k/n beside.
    """
    own, ratio = s.num_clusters // 2, s.num_clusters / s.points
    inside = 1 + (own - 1) * cosine
    first = opposite_share(own, s.num_clusters, s.points, s.dim)
    opposite = (own * cosine + first) / inside
    along = inside - opposite * own * cosine
    square = own * inside * (1 + opposite**2) - 2 * opposite * own**2 * cosine
    return along / math.sqrt(square + own * (1 + opposite**2) * ratio)


def correlated_radius(dim: int, num_clusters: int, cosine: float) -> float:
    """√((1-c)d/k), where Σ y_j μ_j flips an averaging network, centres with equal cosines c, equal classes: ‖Σ y_j μ_j‖² = dk(1-c)."""
    return math.sqrt((1 - cosine) * dim / num_clusters)


def averaging_share(s: Sizes, steps: int) -> float:
    """Own-class cosine ÷ `cosine_law` after `steps` steps: what is left of averaging at large steps and large starts.

    1/√(1 + ρ²(1/12 + |J₋|/3|J₊|) + σ²d²/(|J₊|λ²(1+k/n))) with λ = q/(1+k/n), q the margin at the end and ρ = C/2q the share of the
    first step. In the first step a neuron sees a random share of each cluster (uniform in [0, 1]: mean 1/2, variance 1/12), of both
    classes; later ones add its own class alone, with dq/dt = C/(1 + e^q) from q = C/4. Not in the paper: follows from its dynamics.
    Holds where `averaging_share_domain` does.
    """
    margin, own = _final_margin(s, steps), s.positive
    k, n = s.num_clusters, s.points
    growth = own_growth(margin, k, n)
    overshoot = (growth_rate(s, s.per_class) / (2 * margin)) ** 2 * (1 / 12 + s.negative / (3 * own))
    remembered = (s.start * s.dim / growth) ** 2 / (own * (1 + k / n))
    return 1 / math.sqrt(1 + overshoot + remembered)


def averaging_share_domain(s: Sizes, steps: int) -> Premise:
    """The law counts every neuron as active on its own class: what it started with, |⟨w(0), x⟩| ~ σ√(2d), is below the margin q."""
    started = s.start * math.sqrt(2 * s.dim)
    name, source = "σ√(2d), the pre-activations of the start", "own law"
    return Premise("averaging-share.start", name, started, "<=", _final_margin(s, steps), source)


def _final_margin(s: Sizes, steps: int) -> float:
    """q after `steps` steps: C/4 after the first, then by the growth law."""
    rate = growth_rate(s, s.per_class)
    first = rate / 4
    # past e^600 one step settles everything, and the exponential would overflow
    return first if first > 600 else _grown(first + math.exp(first) - 1 + rate * (steps - 1), 1.0)


_SECTION_6 = {
    "dim": 3072,
    "clusters": 10,
    "positive_share": 0.5,
    "points": 1000,
    "per_class": 5,
    "step_size": 1e-3,
    "start": 1e-5,
    "steps": 100,
}
_LETTERS = {
    "d": "dim",
    "k": "clusters",
    "n": "points",
    "m": "per_class",
    "eta": "step_size",
    "η": "step_size",
    "σ_w": "start",
    "T": "steps",
}
_CENTRES = "Assumption 3.2 asks for orthogonal centres of norm √d."


def _split(clusters: int, positive_share: float) -> tuple[int, int]:
    """The numbers of positive and of negative clusters."""
    positive = round(clusters * positive_share)
    if not 0 < positive < clusters:
        raise ValueError(f"both classes need clusters, got {positive} of {clusters} positive")
    return positive, clusters - positive


def _trained(theorem: str, clusters: int, positive_share: float, steps: int, **sizes: float) -> list[Premise]:
    positive, negative = _split(clusters, positive_share)
    s = Sizes(positive=positive, negative=negative, **sizes)  # type: ignore[arg-type]
    return [*size_premises(s), *training_time(s, steps, theorem)]


def _shared_features(dim: int, clusters: int, positive_share: float) -> list[Premise]:
    positive, negative = _split(clusters, positive_share)
    c = max(positive / negative, negative / positive)
    source = "Assumption 3.3, for c = 3"
    return [
        Premise("assumption-3-3.balance", "c = max(|J₊|/|J₋|, |J₋|/|J₊|)", c, "<=", 3.0, source),
        Premise(
            "assumption-3-2.dim", "d", float(dim), ">=", float(clusters), "Assumption 3.2, orthogonal centres"
        ),
    ]


THEOREMS = (
    Theorem(
        "theorem-4-5",
        "Gradient descent with two labels averages features and is not robust at order √(d/k).",
        _SECTION_6,
        partial(_trained, "4.5"),
        _LETTERS,
        _CENTRES,
    ),
    Theorem(
        "theorem-4-6",
        "A network trained with two labels converges to a multiple of the averaging classifier.",
        _SECTION_6,
        partial(_trained, "4.5"),
        _LETTERS,
        _CENTRES,
    ),
    Theorem(
        "theorem-4-7",
        "Gradient descent with a label for each cluster learns decoupled features and is robust at order √d.",
        _SECTION_6,
        partial(_trained, "4.7"),
        _LETTERS,
        _CENTRES,
    ),
    Theorem(
        "proposition-4-8",
        "Some network that separates the k classes shares features and is not robust at order √(d/k).",
        {"dim": 3072, "clusters": 10, "positive_share": 0.5},
        _shared_features,
        _LETTERS,
        _CENTRES,
    ),
)
