"""What several experiments measure of a network: accuracies, the shape of the neurons, how far they moved, and the premises."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from featureprism.attacks import along
from featureprism.data import SparseCoding, SparseSample
from featureprism.geometry import LpBall
from featureprism.lab import Rows
from featureprism.lab.rows import Row, Values, number
from featureprism.networks import SymmetricNet
from featureprism.networks.symmetric import pure_net
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.setting import (
    Battery,
    Training,
    coding,
    robustness,
    test_set,
    unseen,
)
from featureprism.probes import purification as probes

PROBE_POINTS = 2000  # enough to see every neuron fire that ever does: the rarest signal comes once in 300
PURE = 0.7  # a neuron with more of its norm on one feature counts as that feature
PURE_BIASES = (
    0.0,
    0.15,
    0.3,
    0.45,
    0.6,
)  # of pure networks, in units of 1/√k: the best of them is the ceiling

# one constant for each order of the theorems, whatever the theorem
SMALL = 0.1  # o(1)
NEARLY_ALL = 1 - SMALL  # 1 - o(1)
FEW = 3  # |N_i| = O(1): so many features may belong to a neuron
O_SMALL = "o(1) is read as a tenth in every claim of this paper"
O_NEARLY = "1 - o(1) is read as nine tenths in every claim of this paper"

# premises, by the conclusion they are needed for: features are learned, clean training breaks, adversarial training holds
LEARNED = ("assumption-2-1", "section-2", "section-4", "theorem-5-1", "theorem-c-2", "definition-c-12")
MIXED = (*LEARNED, "theorem-e-1.sparsity")  # clean training breaks from some radius on
BROKEN = (*MIXED, "theorem-e-1.radius")  # and at the τ of the setting
PURIFIED = (*LEARNED, "theorem-5-3", "theorem-f-1")
GAINED = (*PURIFIED, "theorem-e-1")  # what adversarial training adds needs both theorems


class Bench(NamedTuple):
    """What the networks of a setting are tested on: test points, and more of them without attack."""

    problem: SparseCoding
    test: SparseSample
    many: SparseSample


def bench(s: Battery, seed: int, many: int = PROBE_POINTS) -> Bench:
    """The distribution of a setting with its points."""
    return Bench(coding(s, seed), test_set(s, seed), unseen(s, seed, many))


def held_features(net: SymmetricNet, x: Tensor, M: Tensor) -> Tensor:
    """The features that some neuron which fires holds alone."""
    W = net.W.detach()
    alone = (probes.purity(W, M) > PURE) & (probes.firing(net, x) > 0)
    return (W[alone] @ M).abs().argmax(dim=1).unique()


def shape_row(net: SymmetricNet, x: Tensor, problem: SparseCoding) -> Row:
    """What the neurons look like; `mixture` is (d/k) β/α of the large neurons."""
    W = net.W.detach()
    large = probes.large_neurons(W, problem)
    return {
        "purity": probes.weighted_purity(W, problem.M),
        "alive": int((probes.firing(net, x) > 0).sum()),
        "held": len(held_features(net, x, problem.M)) / problem.M.shape[1],
        "alpha": large.alpha,
        "mixture": large.ratio * W.shape[1] / problem.hidden.sparsity,
    }


def network_row(
    stage: str,
    net: SymmetricNet,
    on: Bench,
    s: Battery,
    seed: int,
    radius: float | None = None,
    p: float = 2,
) -> Row:
    """Accuracies and shape of the network of a stage; under Mw* also at the radius of Theorem 5.1(c) or, in ℓ∞, 5.4."""
    accuracies = robustness(net, on.test, on.problem, s, seed, radius, p).row
    far = theory.breaking_radius(s) if p == 2 else theory.breaking_radius_linf(s)
    accuracies["universal_far"] = under_universal(net, on, LpBall(p, far))
    return {"kind": "network", "stage": stage, **accuracies, **shape_row(net, on.many.x, on.problem)}


def ceiling_row(on: Bench, s: Battery, seed: int, radius: float | None = None, p: float = 2) -> Row:
    """The best accuracies of pure networks of several biases on the same points: what a network of this size can reach."""
    best: Row = {"kind": "ceiling"}
    for scaled in PURE_BIASES:
        bias = scaled / s.sparsity**0.5
        net = pure_net(on.problem.M, on.problem.w, bias, s.smoothing * bias)
        row = robustness(net, on.test, on.problem, s, seed, radius, p).row
        for key in ("clean", "universal", "fgm", "worst"):
            best[key] = max(number(best.get(key, 0.0)), number(row[key]))
    return best


def under_universal(net: SymmetricNet, on: Bench, ball: LpBall) -> float:
    """Accuracy at points moved by -y along Mw*, a direction that depends on no network. Theorem 5.1(c)."""
    outcome = along(on.problem.dense_direction)(net, on.many.x, on.many.y, ball)
    return float((~outcome.flipped).double().mean())


def movement(nets: dict[str, SymmetricNet], W0: Tensor, on: Bench) -> Row:
    """Cosines from stage to stage, ratios of Theorem 5.1(a), drift of Theorem 5.3(c).

    Neurons that never fire only shrink and keep all their cosines, so that cosines are weighted by ‖w_i‖².
    """
    clean, adversarial = nets["clean"].W.detach(), nets["adversarial"].W.detach()
    alive = probes.firing(nets["clean"], on.many.x) > 0
    parts = probes.drift_parts(adversarial, clean, on.problem)
    turned = probes.turning(clean, W0)
    return {
        "kind": "movement",
        "start_to_clean": probes.weighted_mean(probes.same_direction(W0, clean), clean),
        "start_to_adversarial": probes.weighted_mean(probes.same_direction(W0, adversarial), adversarial),
        "clean_to_adversarial": probes.weighted_mean(probes.same_direction(clean, adversarial), clean),
        "pairs_clean": float(probes.pairwise(clean[alive]).median()),
        "kept_from_start": turned.from_start,
        "together": turned.together,
        "drift": probes.drift(adversarial, clean),
        **{f"drift_{part}": value for part, value in parts._asdict().items()},
        "drift_control": probes.drift(nets["control"].W.detach(), clean),
    }


def premise_rows(s: Training, on: Bench, change: float | None = None, **fields: Any) -> list[Row]:
    """The conditions of Assumption 2.1 and Theorems 5.1 and 5.3 beside the setting; `change` is that of more clean steps."""
    premises = [
        *theory.hidden_vector_premises(on.problem.hidden, on.many.z, on.problem.w),
        *theory.sparsity_premises(s),
        *theory.clean_premises(s, s.clean_time),
        theory.bias_cap_premise(s, s.final_bias),
        theory.bias_rate_premise(s.bias_growth, theory.winner_rate(on.many.z, on.problem.w)),
        *theory.adversarial_premises(s, s.adversarial_time),
    ]
    if change is not None:
        premises.append(theory.rest_premise(change))
    return [{**premise.as_row(), **fields} for premise in premises]


def at_stage(stage: str, key: str) -> Callable[[Rows], Values]:
    """The value of a claim: what was measured of the network of a stage."""
    return lambda rows: rows.of("network", stage=stage).per_seed(key)


def ceiling(key: str) -> Callable[[Rows], Values]:
    """The ceiling of a claim: the best pure network on the same points."""
    return lambda rows: rows.of("ceiling").per_seed(key)


def gain(key: str) -> Callable[[Rows], Values]:
    """The value of a claim: after adversarial minus after clean training."""
    return lambda rows: at_stage("adversarial", key)(rows) - at_stage("clean", key)(rows)


def moved(key: str) -> Callable[[Rows], Values]:
    """The value of a claim: how far neurons moved."""
    return lambda rows: rows.of("movement").per_seed(key)
