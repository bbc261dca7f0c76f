"""Other adversaries: the ℓ∞ ball, weaker and stronger ones in training."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from featureprism.attacks import ProjectedGradient, SmoothAdversary, along
from featureprism.context import Context
from featureprism.data import DICTIONARIES, SparseCoding, SparseSample, dictionary, dictionary_norms
from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_least, at_most, requires
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    LEARNED,
    PURIFIED,
    at_stage,
    bench,
    gain,
    network_row,
    premise_rows,
    relative,
    shape_row,
)
from featureprism.papers.feature_purification.orders import NEARLY_ALL, SMALL
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Setting,
    accuracy,
    fast_gradient,
    later_phase,
    pure_start,
    scales,
    train,
    trained,
)
from featureprism.records import Row
from featureprism.seeds import generator_for
from featureprism.theory import feature_purification as theory


@dataclass(frozen=True, kw_only=True)
class LInfinity(Setting):
    """The radius of the ℓ∞ ball: at every size τ/√d of the ℓ2 items at d = 100, within the k^-(1.75+2c₀) of Theorem 5.4."""

    linf_radius: float = 0.015


def measure_linf(s: LInfinity, seed: int, context: Context) -> list[Row]:
    """Clean and ℓ∞-trained networks in the ℓ∞ ball, and what dictionaries do to it."""
    on, radius, before = bench(s, seed), s.linf_radius, trained(s, seed, "clean")
    adversary = fast_gradient(s, math.inf, radius)
    after = train(s, before, [later_phase(s, adversary)], seed, "linf").last
    context.progress(0.6)
    nets = {"clean": before, "adversarial": after, "pure": pure_start(s, seed)}
    rows = [network_row(stage, net, on, s, seed, radius, math.inf) for stage, net in nets.items()]
    for kind in DICTIONARIES:
        M = dictionary(kind, s.dim, generator=generator_for("dictionary", seed))
        rows.append({"kind": "dictionary", "dictionary": kind, **dictionary_norms(M)._asdict()})
    premises = theory.linf_premises(s, dictionary_norms(on.problem.M), radius)
    return rows + [p.as_row() for p in premises] + premise_rows(s, on.problem, on.test)


@dataclass(frozen=True, kw_only=True)
class Attackers(Setting):
    """Fewer and smaller steps than the main battery takes, and the input noise of SmoothAdv; the printed values are for images."""

    attacker_steps: int = 120
    attacker_batch: int = 200
    smooth_sigma: float = 0.01


def _adversaries(s: Attackers, seed: int) -> dict[str, tuple[float, Any]]:
    """Names, radii and perturbation algorithms: FGM at four radii, PGD and SmoothAdv at the largest."""
    shares, noise = (0.25, 0.5, 0.75, 1.0), generator_for("smooth", seed)
    return {
        **{f"FGM {q:g}τ": (q * s.radius, fast_gradient(s, radius=q * s.radius)) for q in shares},
        "PGD τ": (s.radius, ProjectedGradient(LpBall(2, s.radius), steps=3)),
        "SmoothAdv τ": (s.radius, SmoothAdversary(s.radius, s.smooth_sigma, noise, samples=2, steps=2)),
    }


def measure_attackers(s: Attackers, seed: int, context: Context) -> list[Row]:
    """Purity after adversarial training against each adversary, all from the same clean network."""
    (problem, _, test), before = bench(s, seed), trained(s, seed, "clean")
    rows = [_purified("none", 0.0, before, s, problem, test)]
    smaller = replace(s, batch=s.attacker_batch)
    adversaries = _adversaries(s, seed)
    for index, (name, (radius, adversary)) in enumerate(adversaries.items()):
        phase = replace(later_phase(s, adversary), steps=s.attacker_steps)
        net = train(smaller, before, [phase], seed, "attackers").last
        rows.append(_purified(name, radius, net, s, problem, test))
        context.progress((index + 1) / len(adversaries))
    return rows + premise_rows(replace(s, adversarial_steps=s.attacker_steps), problem, test)


def _purified(
    name: str, radius: float, net: SymmetricNet, s: Setting, problem: SparseCoding, test: SparseSample
) -> Row:
    outcome = along(problem.dense_direction)(net, test.x, test.y, LpBall(2, s.radius))
    return {
        "kind": "adversary",
        "name": name,
        "trained_radius": radius,
        **shape_row(net, test.x, problem),
        "universal": float((~outcome.flipped).double().mean()),
        "clean": accuracy(net, test.x, test.y),
    }


def _least_gain(rows: Rows) -> Values:
    """The least gain in purity from one radius of FGM to the next, beginning without an adversary."""
    chosen = rows.of("adversary").where(lambda row: row["name"] == "none" or row["name"].startswith("FGM"))

    def least(own: Rows) -> float:
        return np.diff(own.column("purity")[np.argsort(own.column("trained_radius"))]).min()

    return chosen.per_seed(least)


LINF = (*LEARNED, "theorem-5-3.time", "theorem-5-4", "corollary-f-6")
CLAIMS_LINF = (
    Claim(
        "clean-robust",
        "Theorem 5.4",
        "clean training is not robust: accuracy under Mw* at the ℓ∞ radius k⁻² is o(1)",
        at_stage("clean", "universal_far"),
        at_most(SMALL),
        premises=requires(*LINF, "theorem-e-1.sparsity"),
    ),
    Claim(
        "adversarial-robust",
        "Theorem 5.4",
        "worst accuracy at τ is 1 - o(1), ℓ∞ adversarial training",
        at_stage("adversarial", "worst"),
        at_least(NEARLY_ALL),
        premises=requires(*LINF),
    ),
    Claim(
        "robust-ceiling",
        "finding",
        "adversarial training reaches the pure network: worst accuracy at τ ÷ that of the pure network",
        relative("adversarial", "worst"),
        at_least(0.85),
        origin="featureprism",
        premises=requires(*LINF),
    ),
    Claim(
        "robust",
        "Corollary F.6",
        "robust training beats clean training: worst accuracy at τ ÷ that of the pure network, adversarial minus clean",
        lambda rows: relative("adversarial", "worst")(rows) - relative("clean", "worst")(rows),
        above(0.1),
        premises=requires(*LINF, "theorem-e-1.sparsity", "theorem-e-1.linf-radius"),
    ),
    Claim(
        "purity",
        "Theorem 5.4",
        "norm-weighted purity: after minus before",
        gain("purity"),
        above(0.1),
        premises=requires(*LINF),
    ),
)


def _purity_claim(name: str, algorithm: str) -> Claim:
    def gained(rows: Rows) -> Values:
        after, before = (rows.of("adversary", name=n).per_seed("purity") for n in (f"{algorithm} τ", "none"))
        return after - before

    return Claim(
        name,
        "Section 5.1, after Theorem 5.3",
        f"purification happens whatever the adversary: purity after training with {algorithm} minus before it",
        gained,
        above(0.1),
        premises=requires(*PURIFIED),
    )


CLAIMS_ATTACKERS = (
    Claim(
        "stronger",
        "Figure 13",
        "a stronger FGM adversary purifies more: least gain in purity from one radius to the next",
        _least_gain,
        above(0.0),
    ),
    _purity_claim("pgd", "PGD"),
    _purity_claim("smooth", "SmoothAdv"),
)

L_INFINITY = Experiment(
    id="feature-purification/l-infinity",
    source="Allen-Zhu & Li 2020, Theorem 5.4",
    title="The same in the ℓ∞ ball",
    scales=scales(LInfinity),
    measure=measure_linf,
    claims=CLAIMS_LINF,
    family=FAMILY,
    about=(
        "M = I, where an ℓ∞ ball meets single features; the norms of other dictionaries, which Theorem 5.4 limits, stand beside. It"
        " has the radius 0.015 at every scale: τ/√d of the ℓ2 items at d = 100, and just within the k^-(1.75+2c₀) = 0.0154"
        " of Theorem 5.4 at d = 256."
    ),
)
ATTACKERS = Experiment(
    id="feature-purification/attackers",
    source="Allen-Zhu & Li 2020, Figure 13",
    title="The stronger the adversary in training, the purer the features",
    scales=scales(Attackers),
    measure=measure_attackers,
    claims=CLAIMS_ATTACKERS,
    family=FAMILY,
    about="One clean network, trained on against FGM at four radii, PGD, and SmoothAdv-PGD with Gaussian input noise.",
)
