"""Frei, Chatterji & Bartlett, "Random Feature Amplification: Feature Learning and Generalization in Neural Networks", as data.

Premises and bounds from the setting alone. The proof's own constants (C₀ near 6·10¹⁰) admit no experiment: bounds are given for any
C₀, experiments take C₀ = 10, and `large_enough` says how far a setting is from what the proofs of the lemmas ask for.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from featureprism.data.dataset import Dataset
from featureprism.lab.premise import Premise
from featureprism.lab.theorem import Theorem

C0 = 10.0  # of the sets J_μ in experiments; Definition 4.5 has 4⁵·1024²·e⁴ = 5.9·10¹⁰
NO_CHANGE = math.exp(-2) / (16 * 1024)  # the constant of Proposition 3.2 and of the margin γ (45)

S = TypeVar("S", bound="Sizes")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """x = μ + σz in d dimensions, n points of which a share η is flipped, width m, start ω, step size α; δ is the chance to fail."""

    dim: int
    points: int
    width: int
    sigma: float
    noise_rate: float
    start: float
    step_size: float
    steps: int
    delta: float = 0.05

    @property
    def theorem_steps(self) -> int:
        """T = 1 + 1/(4α), the time of Theorem 3.1; α should be 1/(4q)."""
        return theorem_steps(self.step_size)

    @classmethod
    def on_edge(cls: type[S], C: float, *, dim: int, points: int, width: int, **other: Any) -> S:
        """On the edge of (A3), (A5)-(A7) for C: σ = 1/(C√d), η = 1/C, ω = 1/(C²√(md)), α near 1/(2√C), T steps; unless `other`."""
        step_size = 1 / (4 * max(1, math.floor(math.sqrt(C) / 2)))  # 1/(4q), so that T is whole
        edge = {
            "sigma": 1 / (C * math.sqrt(dim)),
            "noise_rate": 1 / C,
            "start": 1 / (C**2 * math.sqrt(width * dim)),
            "step_size": step_size,
            "steps": theorem_steps(step_size),
        }
        return cls(dim=dim, points=points, width=width, **(edge | other))


def theorem_steps(step_size: float) -> int:
    """T = 1 + 1/(4α). Theorem 3.1."""
    return 1 + round(1 / (4 * step_size))


def assumptions(s: Sizes, C: float) -> list[Premise]:
    """(A1)-(A7) for a given C."""
    log_points = max(math.log(s.points / s.delta) ** 2, math.log(s.width / s.delta))
    rows = [
        ("a1", "d (A1)", s.dim, ">=", C * log_points),
        ("a2", "m (A2)", s.width, ">=", C * math.log(1 / s.delta)),
        ("a3", "σ² (A3)", s.sigma**2, "<=", 1 / (C**2 * s.dim)),
        ("a4", "n (A4)", s.points, ">=", C * math.log(s.width / s.delta)),
        ("a5", "η (A5)", s.noise_rate, "<=", 1 / C),
        ("a6", "ω² (A6)", s.start**2, "<=", 1 / (C**4 * s.width * s.dim)),
        ("a7-least", "α, from below (A7)", s.step_size, ">=", 1 / (2 * math.sqrt(C))),
        ("a7-most", "α, from above (A7)", s.step_size, "<=", 1 / math.sqrt(C)),
    ]
    # the edges of a regime are met with equality; a rounding error is not a failure
    loosened = {">=": 1 - 1e-12, "<=": 1 + 1e-12}
    return [
        Premise(
            f"assumption.{id}",
            name,
            float(value),
            relation,
            bound * loosened[relation],
            f"Assumption, C = {C:g}",
        )
        for id, name, value, relation, bound in rows
    ]


def stopping_time(s: Sizes) -> Premise:
    """Training stops at T = 1 + 1/(4α), neither earlier nor later. Theorem 3.1."""
    away = float(abs(s.steps - s.theorem_steps))
    return Premise("theorem-3-1.steps", "|steps - (1 + 1/(4α))|", away, "<=", 0.0, "Theorem 3.1")


def large_enough(s: Sizes, C0: float) -> list[Premise]:
    """What the proofs of the lemmas ask for when they say "for C sufficiently large", as far as it has explicit constants; C₁ = 2."""
    edge, e2 = 1 / edge_bound(1, C0), math.exp(-2)
    rows = [
        ("lemma-4-4", "η", s.noise_rate, 4 / edge, "(12)"),
        ("lemma-4-9", "α", s.step_size, e2 * leaning_share(C0) / 6144, "(20)"),
        ("lemma-4-10", "η", s.noise_rate, 1 / (4 * edge), "(31)"),
        ("lemma-4-11", "σ√d", s.sigma * math.sqrt(s.dim), e2 / 1024, "after (38)"),
    ]
    return [
        Premise(
            f"large-enough.{id}", f"{name} in the proof of this lemma, C₀ = {C0:g}", value, "<=", bound, place
        )
        for id, name, value, bound, place in rows
    ]


def width_of_lemma_4_2(C0: float, delta: float) -> float:
    """m ≥ 16C₀² ln(32/δ), which the proof of Lemma 4.2 takes from (A2); on the edge of (A2) this is C = 3451 at C₀ = 10, δ = 0.05."""
    return 16 * C0**2 * math.log(32 / delta)


def set_sizes(share: float, C0: float) -> Premise:
    """Every J_μ has (1-1/C₀)² m/4 neurons; `share` is the least |J_μ|·4/m of a start. Lemma 4.2."""
    name = f"least |J_μ|·4/m, C₀ = {C0:g}"
    return Premise("lemma-4-2.sets", name, share, ">=", leaning_share(C0), "Lemma 4.2")


def feasible_constants(s: Sizes) -> tuple[float, float]:
    """The interval of C for which (A1)-(A7) hold together; empty when its lower end exceeds its upper end."""
    logs = max(math.log(s.points / s.delta) ** 2, math.log(s.width / s.delta))
    upper = min(
        s.dim / logs,
        s.width / math.log(1 / s.delta),
        s.points / math.log(s.width / s.delta),
        1 / (s.sigma * math.sqrt(s.dim)),
        1 / s.noise_rate if s.noise_rate else math.inf,
        (s.start**2 * s.width * s.dim) ** -0.25,
        1 / s.step_size**2,
    )
    return 1 / (4 * s.step_size**2), upper


def generalisation_bound(s: Sizes, flipped_share: float) -> float:
    """|N|/n + 4/(γ√n) + √(2 ln(4/δ)/n), the explicit end of Theorem 3.1; 4/γ is 5·10⁵, so it says nothing below n = 10¹¹."""
    root = math.sqrt(s.points)
    return flipped_share + 4 / (NO_CHANGE * root) + math.sqrt(2 * math.log(4 / s.delta)) / root


def feature_change_bound(s: Sizes, C: float) -> float:
    """‖φ(W x) - φ(W⁰ x)‖/‖φ(W⁰ x)‖ ≥ 1/(Cω√(md)); the proof shows e⁻²/16384 in place of 1/C. Proposition 3.2."""
    return 1 / (C * s.start * math.sqrt(s.width * s.dim))


def start_events(
    s: Sizes, W: Float[Tensor, "h d"], centres: Float[Tensor, "4 d"], C0: float
) -> list[Premise]:
    """Lemma 4.1 on a start: norms near ω√d, and all but few neurons with |⟨w_j, μ⟩| ≥ ω/(2C₀) for each direction."""
    norms = torch.linalg.vector_norm(W, dim=1) / (s.start * math.sqrt(s.dim))
    share = float(
        ((W @ centres[[0, 2]].T.to(W.dtype)).abs() >= s.start / (2 * C0)).double().mean(dim=0).min()
    )
    least = 1 - 1 / (2 * C0) - math.sqrt(2 * math.log(4 / s.delta) / s.width)
    name = f"share with |⟨w_j(0), μ⟩| ≥ ω/(2C₀), C₀ = {C0:g}"
    return [
        Premise("lemma-4-1.least-norm", "‖w_j(0)‖/(ω√d), least", float(norms.min()), ">=", 0.5, "Lemma 4.1"),
        Premise("lemma-4-1.most-norm", "‖w_j(0)‖/(ω√d), largest", float(norms.max()), "<=", 1.5, "Lemma 4.1"),
        Premise("lemma-4-1.share", name, share, ">=", least, "Lemma 4.1"),
    ]


def sample_constants(s: Sizes, data: Dataset, flipped: Bool[Tensor, " n"]) -> list[Premise]:
    """The least C₁ that makes each part of Lemma 4.3 true on a sample, beside the largest that its other half allows."""
    centres = data.centres[data.cluster]
    noise = s.sigma * math.sqrt(s.dim)
    across = data.centres[(data.cluster + 2) % 4]
    root = math.sqrt(math.log(1 / s.delta) / s.points)
    sizes = torch.bincount(data.cluster, minlength=4) / s.points
    along = float((1 - (data.x * centres).sum(dim=1)).max()) / noise
    aside = float((data.x * across).sum(dim=1).abs().max()) / noise
    rows = [
        ("a-along", "(a) ⟨x, μ⟩ ≥ 1 - C₁σ√d", along),
        ("a-aside", "(a) |⟨x, μ⊥⟩| ≤ C₁σ√d", aside),
        ("b", "(b) ‖x - μ‖² ≤ C₁σ²d", float(((data.x - centres) ** 2).sum(dim=1).max()) / noise**2),
        ("c", "(c) |N|/n ≤ η + C₁√(ln(1/δ)/n)", (float(flipped.double().mean()) - s.noise_rate) / root),
        ("d", "(d) ||I_μ|/n - 1/4| ≤ C₁√(ln(1/δ)/n)", float((sizes - 0.25).abs().max()) / root),
    ]
    return [
        Premise(f"lemma-4-3.{id}", f"least C₁ of {name}", value, "<=", largest_c1(s), "Lemma 4.3")
        for id, name, value in rows
    ]


def largest_c1(s: Sizes) -> float:
    """C₁σ√d ≤ 1/C₁ and C₁√(ln(1/δ)/n) ≤ 1/C₁ in Lemma 4.3 (a), (c): C₁ ≤ √C on the edge of (A3), 4 for C = 16; it asks for C₁ ≥ 2."""
    return max(s.sigma * math.sqrt(s.dim), math.sqrt(math.log(1 / s.delta) / s.points)) ** -0.5


def margin_bound(C0: float) -> float:
    """|f^J| ≥ 1/C₃ on training points, C₃ = 4096 e²/(1 - 1/C₀)². Lemma 4.9."""
    return (1 - 1 / C0) ** 2 / (4096 * math.exp(2))


def leaning_share(C0: float) -> float:
    """|J| ≥ m (1 - 1/C₀)². Lemma 4.2."""
    return (1 - 1 / C0) ** 2


def edge_bound(num_points: int, C0: float) -> float:
    """n/C₂ with C₂ = 12 C₀ √(2πe). Lemma 4.4."""
    return num_points / (12 * C0 * math.sqrt(2 * math.pi * math.e))


def crossing_bound(s: Sizes) -> float:
    """|⟨w_j, μ2⟩| ≤ 3α/√m for neurons that lean to ±μ1. Condition 4.8."""
    return 3 * s.step_size / math.sqrt(s.width)


def correlation_bound(C0: float) -> float:
    """cos(w_j¹, μ) ≥ 1/(16 C₂). Lemma 4.10."""
    return 1 / (16 * 12 * C0 * math.sqrt(2 * math.pi * math.e))


def some_constant(s: Sizes) -> Premise:
    """Some C satisfies all of (A1)-(A7): the largest that they allow is at least the smallest."""
    least, most = feasible_constants(s)
    least *= 1 - 1e-9  # on the edge of a regime a rounding error is not a failure
    return Premise(
        "assumption.some-c", "largest C of (A1)-(A7), against the smallest", most, ">=", least, "Assumption"
    )


_EDGE = {**asdict(Sizes.on_edge(16.0, dim=2000, points=1000, width=500)), "C": 16.0}
_LETTERS = {
    "d": "dim",
    "n": "points",
    "m": "width",
    "σ": "sigma",
    "η": "noise_rate",
    "ω": "start",
    "α": "step_size",
    "T": "steps",
    "δ": "delta",
}
_OPEN = "C is large enough: theorem-3-1-proof says how far a setting is from what the proofs of the lemmas ask for."


def _at_time(C: float, **sizes: float) -> list[Premise]:
    s = Sizes(**sizes)  # type: ignore[arg-type]
    return [some_constant(s), *assumptions(s, C), stopping_time(s)]


def _with_proofs(C: float, **sizes: float) -> list[Premise]:
    return [*_at_time(C, **sizes), *large_enough(Sizes(**sizes), C0)]  # type: ignore[arg-type]


def _lemma_4_2(width: int, delta: float) -> list[Premise]:
    needed = width_of_lemma_4_2(C0, delta)
    return [Premise("lemma-4-2.width", f"m, C₀ = {C0:g}", float(width), ">=", needed, "proof of Lemma 4.2")]


THEOREMS = (
    Theorem(
        "theorem-3-1",
        "A network trained on noisy XOR clusters errs on new points at nearly the rate of label noise.",
        _EDGE,
        _at_time,
        _LETTERS,
        _OPEN,
    ),
    Theorem(
        "proposition-3-2",
        "Training changes the features of every point by a large factor.",
        _EDGE,
        _at_time,
        _LETTERS,
        _OPEN,
    ),
    Theorem(
        "theorem-3-1-proof",
        "The lemmas behind Theorem 3.1 hold with the constants of their proofs.",
        _EDGE,
        _with_proofs,
        _LETTERS,
    ),
    Theorem(
        "lemma-4-2",
        "Enough neurons lean towards each cluster at the start.",
        {"width": 500, "delta": 0.05},
        _lemma_4_2,
        {"m": "width", "δ": "delta"},
    ),
)
