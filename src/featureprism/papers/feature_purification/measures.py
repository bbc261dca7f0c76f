"""What several experiments measure of a network and of a setting: accuracies, the shape of the neurons, the regime of the theorems."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from featureprism.attacks import along
from featureprism.data import SparseCoding, SparseSample
from featureprism.geometry import LpBall
from featureprism.lab import Bound, Claim, Rows, Values, requires
from featureprism.networks import LinearClassifier, SymmetricNet
from featureprism.papers.feature_purification.setting import (
    PROBE_POINTS,
    Setting,
    coding,
    robustness,
    test_set,
    unseen,
)
from featureprism.probes import purification as probes
from featureprism.records import Row
from featureprism.theory import feature_purification as theory

PURE = 0.7  # a neuron with more of its norm on one feature counts as that feature
# premises, by the conclusion they are needed for: features are learned, clean training breaks, adversarial training holds
LEARNED = ("assumption-2-1", "section-2", "theorem-5-1", "theorem-c-2")
MIXED = (*LEARNED, "theorem-e-1.sparsity")  # clean training breaks from some radius on
BROKEN = (*MIXED, "theorem-e-1.radius")  # and at the τ of the setting
PURIFIED = (*LEARNED, "theorem-5-3", "theorem-f-1")
GAINED = (*PURIFIED, "theorem-e-1")  # what adversarial training adds needs both theorems
QUANTITIES = {
    "clean": "accuracy without attack",
    "worst": "robust accuracy at τ",
    "universal_far": "accuracy under Mw* at the radius of Theorem 5.1(c), max{k^-(0.5+10c), √d/k²}",
    "purity": "largest |cosine| of a neuron with one feature, weighted by norm",
    "kappa": "mean β ÷ (‖z‖₀/d)",
}
STAGES = {
    "clean": "clean training",
    "control": "as many extra clean steps",
    "adversarial": "adversarial training",
}


LAWS = "two-level, three-level and power-law z"


def over_laws(value: Callable[[Rows], Values], pick: Callable[..., Values]) -> Callable[[Rows], Values]:
    """A value law by law of the hidden vector, and the least (np.min), largest (np.max) or mean of them, seed by seed."""

    def picked(rows: Rows) -> Values:
        parts = [value(part) for part in rows.groups("hidden").values()]
        return pick(parts, axis=0) if parts else value(rows)

    return picked


class Bench(NamedTuple):
    """What the networks of a setting are tested on: test points, and more of them without attack."""

    problem: SparseCoding
    test: SparseSample
    many: SparseSample


def bench(s: Setting, seed: int, many: int = PROBE_POINTS) -> Bench:
    """The distribution of a setting with its points; as many as show which neurons fire, if nobody wants more."""
    return Bench(coding(s, seed), test_set(s, seed), unseen(s, seed, many))


def shape_row(net: SymmetricNet, x: Tensor, problem: SparseCoding) -> Row:
    """What the neurons look like."""
    W = net.W.detach()
    fires = probes.firing(net, x)
    pure = (probes.purity(W, problem.M) > PURE) & (fires > 0)
    features = (W @ problem.M).abs().argmax(dim=1)[pure]
    large, scale = probes.large_neurons(W, problem), W.shape[1] / problem.hidden.sparsity
    return {
        "purity": probes.weighted_purity(W, problem.M),
        "mixture": probes.mixture(W, problem).relative_mass,
        "alive": int((fires > 0).sum()),
        "pure_neurons": int(pure.sum()),
        "features_covered": len(features.unique()),
        "firing": float(fires.mean()),
        "large_neurons": large.number,
        "alpha": large.alpha,
        "beta": large.beta,
        "kappa_large": large.ratio * scale,
        "linear_share": probes.linear_share(net(x).detach(), x @ problem.dense_direction),
    }


def network_row(
    stage: str,
    net: SymmetricNet,
    on: Bench,
    s: Setting,
    seed: int,
    radius: float | None = None,
    p: float = 2,
) -> Row:
    """Accuracies and shape of the network of a stage; under Mw* also at the radius of Theorem 5.1(c) or, in ℓ∞, 5.4."""
    accuracies = robustness(net, on.test, on.problem, s, seed, radius, p).row
    far = theory.breaking_radius(s) if p == 2 else theory.breaking_radius_linf(s)
    accuracies["universal_far"] = under_universal(net, on, LpBall(p, far))
    return {"kind": "network", "stage": stage, **accuracies, **shape_row(net, on.many.x, on.problem)}


def under_universal(net: SymmetricNet, on: Bench, ball: LpBall) -> float:
    """Accuracy at points moved by -y along Mw*, which no network decides. Theorem 5.1(c)."""
    outcome = along(on.problem.dense_direction)(net, on.many.x, on.many.y, ball)
    return float((~outcome.flipped).double().mean())


def movement(nets: dict[str, SymmetricNet], W0: Tensor, on: Bench) -> Row:
    """Cosines from stage to stage, ratios of Theorem 5.1(a), drift of Theorem 5.3(c).

    Neurons that never fire only shrink and keep all their cosines: means are weighted by ‖w_i‖², medians over alive neurons.
    """
    clean, adversarial = nets["clean"].W.detach(), nets["adversarial"].W.detach()
    alive = (probes.firing(nets["clean"], on.many.x) > 0) & (
        probes.firing(nets["adversarial"], on.many.x) > 0
    )
    parts = probes.drift_parts(adversarial, clean, on.problem)
    kept = probes.same_direction(clean, adversarial)
    turned = probes.turning(clean, W0)
    return {
        "kind": "movement",
        "alive": int(alive.sum()),
        "start_to_clean": float(probes.same_direction(W0, clean)[alive].median()),
        "start_to_clean_weighted": probes.weighted_mean(probes.same_direction(W0, clean), clean),
        "start_to_adversarial_weighted": probes.weighted_mean(
            probes.same_direction(W0, adversarial), adversarial
        ),
        "clean_to_adversarial": float(kept[alive].median()),
        "clean_to_adversarial_weighted": probes.weighted_mean(kept, clean),
        "pairs_clean": float(probes.pairwise(clean[alive]).median()),
        "pairs_adversarial": float(probes.pairwise(adversarial[alive]).median()),
        "kept_from_start": turned.from_start,
        "together": turned.together,
        "together_adversarial": probes.turning(adversarial, W0).together,
        "drift": probes.drift(adversarial, clean),
        **{f"drift_{part}": value for part, value in parts._asdict().items()},
        "drift_control": probes.drift(nets["control"].W.detach(), clean),
    }


def linear_shares(s: Setting, net: SymmetricNet, on: Bench) -> Row:
    """R² with ⟨Mw*, x⟩ of a network without its dense mixtures (further features stay), and of a pure one with mixtures of k/d."""
    problem, x, dim = on.problem, on.many.x, s.dim
    parts = probes.mixture(net.W.detach(), problem)
    beta = (parts.coefficients * ~parts.own).sum(dim=1, keepdim=True) / (~parts.own).sum(dim=1, keepdim=True)
    both = {
        "without": parts.coefficients - beta * ~parts.own,
        "planted": torch.full((dim, dim), s.sparsity / dim).fill_diagonal_(1.0),
    }
    nets = {
        name: SymmetricNet((C * problem.w) @ problem.M.T, net.bias, net.smoothing) for name, C in both.items()
    }
    return {
        f"linear_share_{name}": probes.linear_share(one(x).detach(), x @ problem.dense_direction)
        for name, one in nets.items()
    }


def linear_radii(problem: SparseCoding, test: SparseSample) -> Tensor:
    """Exact robust radii of the linear classifier ⟨Mw*, x⟩, the floor."""
    linear = LinearClassifier(problem.dense_direction.double())
    return linear.exact_radius(test.x.double(), test.y.double())


def premise_rows(s: Setting, problem: SparseCoding, test: SparseSample) -> list[Row]:
    """The conditions of Assumption 2.1 and Theorems 5.1 and 5.3 beside the setting."""
    premises = [
        *theory.hidden_vector_premises(problem.hidden, test.z, problem.w),
        *theory.sparsity_premises(s),
        *theory.clean_premises(s, s.clean_time),
        *theory.adversarial_premises(s, s.adversarial_time),
    ]
    return [premise.as_row() for premise in premises]


def relative(stage: str, key: str) -> Callable[[Rows], Values]:
    """The value of a claim: what the network of a stage reaches of what the pure network reaches on the same points."""
    return lambda rows: at_stage(stage, key)(rows) / at_stage("pure", key)(rows)


def at_stage(stage: str, key: str) -> Callable[[Rows], Values]:
    """The value of a claim: what was measured of the network of a stage."""
    return lambda rows: rows.of("network", stage=stage).per_seed(key)


def own_coefficient(rows: Rows) -> Values:
    """The value of a claim: mean α of the large neurons after clean training, in units of d^-c. Theorem 5.2(2)."""
    return at_stage("clean", "alpha")(rows) * at_stage("clean", "dim")(rows) ** theory.SMALL_EXPONENT


def gain(key: str) -> Callable[[Rows], Values]:
    """The value of a claim: after adversarial minus after clean training."""
    return lambda rows: at_stage("adversarial", key)(rows) - at_stage("clean", key)(rows)


def stage_claim(
    name: str, key: str, stage: str, bound: Bound, regime: tuple[str, ...] = (), *, source: str, **more: Any
) -> Claim:
    """What is measured of the network of a stage."""
    statement = f"{QUANTITIES[key]}: {STAGES.get(stage, stage)}"
    return Claim(name, source, statement, at_stage(stage, key), bound, premises=requires(*regime), **more)
