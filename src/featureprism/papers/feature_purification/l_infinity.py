"""Theorem 5.4: clean training breaks and adversarial training holds in the ℓ∞ ball."""

import math
from dataclasses import dataclass
from typing import Any

from featureprism.data.sparse_coding import dictionary_norms
from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.measures import (
    LEARNED,
    NEARLY_ALL,
    O_NEARLY,
    O_SMALL,
    SMALL,
    at_stage,
    bench,
    ceiling,
    ceiling_row,
    gain,
    network_row,
    premise_rows,
)
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    fast_gradient,
    later_phase,
    scales,
    train,
    trained,
)


@dataclass(frozen=True, kw_only=True)
class LInfinitySetting(Battery):
    """The radius of the ℓ∞ ball, within the k^-(1.75+2c₀) of Theorem 5.4 at d = 100 to 256."""

    linf_radius: float = 0.015


def measure(s: LInfinitySetting, seed: int, context: Context) -> list[Row]:
    """Clean and ℓ∞-trained networks in the ℓ∞ ball, beside the best pure network."""
    on, radius, before = bench(s, seed), s.linf_radius, trained(s, seed, "clean")
    adversary = fast_gradient(s, math.inf, radius)
    after = train(s, before, [later_phase(s, adversary)], seed, "linf").last
    context.progress(0.6)
    nets = {"clean": before, "adversarial": after}
    rows = [network_row(stage, net, on, s, seed, radius, math.inf) for stage, net in nets.items()]
    rows.append(ceiling_row(on, s, seed, radius, math.inf))
    premises = theory.linf_premises(s, dictionary_norms(on.problem.M), radius)
    return rows + [premise.as_row() for premise in premises] + premise_rows(s, on)


LINF = (*LEARNED, "theorem-5-3.time", "theorem-5-4", "corollary-f-6")
CLAIMS = (
    Claim(
        "clean-robust",
        source="Theorem 5.4",
        says="A cleanly trained network is flipped at nearly every point by the direction Mw* in an ℓ∞ ball of radius k⁻².",
        quantity="share of points still correct under -y sign(Mw*) at the ℓ∞ radius k⁻² after clean training",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=at_stage("clean", "universal_far"),
        premises=requires(*LINF, "theorem-e-1.sparsity"),
    ),
    Claim(
        "adversarial-robust",
        source="Theorem 5.4",
        says="After ℓ∞ adversarial training nearly every point withstands every perturbation in the ℓ∞ ball.",
        quantity="share of test points still correct under the strongest ℓ∞ attack after adversarial training",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=at_stage("adversarial", "worst"),
        ceiling=ceiling("worst"),
        premises=requires(*LINF),
    ),
    Claim(
        "robust",
        source="Corollary F.6",
        says="In the ℓ∞ ball adversarial training makes a network more robust than clean training does.",
        quantity="robust accuracy in the ℓ∞ ball, after adversarial minus after clean training",
        bound=above(0.0),
        because="the corollary says that one is robust where the other is not",
        value=gain("worst"),
        premises=requires(*LINF, "theorem-e-1.sparsity", "theorem-e-1.linf-radius"),
    ),
    Claim(
        "purity",
        source="Theorem 5.4",
        says="Adversarial training in the ℓ∞ ball makes the neurons purer.",
        quantity="largest |cosine| of a neuron with one feature, weighted by ‖w‖²: after minus before",
        bound=above(0.0),
        because="purer is any gain",
        value=gain("purity"),
        premises=requires(*LINF),
    ),
)


def draw(rows: Rows) -> Any:
    """Accuracies and purity before and after ℓ∞ training."""
    from featureprism.papers.feature_purification.drawing import stage_bars

    keys = {"no attack": "clean", "all attacks": "worst", "purity": "purity"}
    return stage_bars(rows, ("clean", "adversarial"), keys, "accuracy at the ℓ∞ radius; purity")


L_INFINITY = Experiment(
    id="feature-purification/l-infinity",
    source="Allen-Zhu & Li 2020, Theorem 5.4",
    title="Clean and adversarial training in the ℓ∞ ball",
    scales=scales(LInfinitySetting),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about="M = I, where an ℓ∞ ball meets single features. The radius is 0.015 at every scale, inside Theorem 5.4 up to d = 256.",
)
