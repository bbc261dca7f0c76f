"""What the theorems say of growing d, as exponents: one list of laws, for both starts."""

import math
from collections.abc import Callable
from typing import NamedTuple

from featureprism.lab import (
    Bound,
    Claim,
    Rows,
    Values,
    above,
    at_least,
    at_most,
    below,
    between,
    mean_interval,
    requires,
)
from featureprism.papers.feature_purification.measures import LEARNED, MIXED, PURIFIED


def exponent(key: str, path: str) -> Callable[[Rows], Values]:
    """The value of a claim: the slope of ln of a quantity against ln d."""
    return lambda rows: rows.of("size", path=path).slope("dim", key)


def _sizes_note(key: str, path: str) -> Callable[[Rows], str]:
    """The means by dimension, and the interval of the exponent over seeds."""

    def note(rows: Rows) -> str:
        parts = rows.of("size", path=path).groups("dim")
        means = ", ".join(f"{part.column(key).mean():.3g} at d = {dim}" for dim, part in parts.items())
        low, high = mean_interval(exponent(key, path)(rows))
        return f"{means}; exponent {low:.2f} to {high:.2f}" if math.isfinite(low) else means

    return note


class Law(NamedTuple):
    """A quantity whose exponent in d a theorem bounds."""

    name: str
    source: str
    statement: str
    key: str
    bound: Bound
    regime: tuple[str, ...]


LAWS = (
    Law(
        "mixture",
        "Theorem 5.2, (5.1)",
        "mixtures are of order k/d beside their feature: β/(α k) of large neurons after clean training",
        "share",
        between(-1.2, -0.8),
        LEARNED,
    ),
    Law(
        "pure-mass",
        "Theorem 5.1(a)",
        "Q1 = Σ_ij⟨w_i, w_j⟩²/(Σ‖w_i‖²)² = o(1)",
        "together",
        below(0.0),
        LEARNED,
    ),
    Law(
        "purity",
        "(5.1)",
        "purity after clean training comes nearer to 1",
        "purity_clean",
        above(0.0),
        LEARNED,
    ),
    Law("drift", "Theorem 5.3(c)", "drift of adversarial training = o(1)", "drift", below(0.0), PURIFIED),
    Law(
        "same-feature",
        "Section 1",
        "cosine θ(w, w'), weighted by norm, comes nearer to 1",
        "clean_to_adversarial_weighted",
        above(0.0),
        PURIFIED,
    ),
    Law(
        "clean-robust",
        "Theorem 5.1(c)",
        "accuracy after clean training under Mw* at the radius max{k^-(0.5+10c), √d/k²} = o(1)",
        "universal_far_clean",
        below(0.0),
        MIXED,
    ),
    Law(
        "clean-error",
        "Theorem 5.1(b)",
        "error without attack after clean training = o(1)",
        "error_clean",
        below(0.0),
        LEARNED,
    ),
    Law(
        "robust",
        "Theorem 5.3(b)",
        "robust error after adversarial training, 1 - worst accuracy, = o(1)",
        "robust_error_adversarial",
        below(0.0),
        PURIFIED,
    ),
    Law(
        "signal",
        "Lemma C.8",
        "winners grow at a rate Θ(1/d): mean d·E[y 1{⟨w_i, x⟩ + ρ ≥ b} z_j] after clean training",
        "signal_clean",
        between(-0.2, 0.2),
        LEARNED,
    ),
    Law(
        "density",
        "Section 5.1, Figure 7",
        "perturbations after adversarial training get sparser: participation ÷ d",
        "density_adversarial",
        below(0.0),
        PURIFIED,
    ),
)
ONLY_RANDOM = (
    Law(
        "far-from-start",
        "Theorem 5.1(a)",
        "Q0 = Σ⟨w_i, w_i⁰⟩²/Σ‖w_i‖²‖w_i⁰‖² = o(1)",
        "kept_from_start",
        below(0.0),
        LEARNED,
    ),
)
PATHS = {"random": "from a random start", "pure": "from neurons that have won a feature each"}


def _claim(law: Law, path: str) -> Claim:
    """The exponent of a law on one path."""
    return Claim(
        law.name if path == "random" else f"{law.name}-{path}",
        law.source,
        f"{law.statement}, {PATHS[path]}: exponent in d",
        exponent(law.key, path),
        law.bound,
        note=_sizes_note(law.key, path),
        premises=requires(*law.regime, path=path),
    )


def _control(path: str) -> Claim:
    """What the noise of the batches alone moves."""
    return Claim(
        "control-drift" if path == "random" else f"control-drift-{path}",
        "Theorem 5.1",
        f"drift of as many more clean steps, the largest of all sizes, {PATHS[path]}",
        lambda rows: rows.of("size", path=path).largest("drift_control"),
        at_most(0.15),
        "featureprism",
        note=_sizes_note("drift_control", path),
        premises=requires(*LEARNED, path=path),
    )


def _settled(path: str) -> Claim:
    """Whether more steps would change the law of the mixtures."""
    return Claim(
        "settled" if path == "random" else f"settled-{path}",
        "finding",
        f"half of the clean steps give the same law of mixtures: |difference of the exponents|, {PATHS[path]}",
        lambda rows: abs(exponent("share", path)(rows) - exponent("share_halfway", path)(rows)),
        at_most(0.1),
        "featureprism",
        note=_sizes_note("share_halfway", path),
    )


def _at_largest(key: str) -> Callable[[Rows], Values]:
    return lambda rows: rows.of("size", path="random").per_seed(
        lambda own: own.column(key)[own.column("dim").argmax()]
    )


CLAIMS = (
    *(_claim(law, "random") for law in (*LAWS, *ONLY_RANDOM)),
    *(_claim(law, "pure") for law in LAWS),
    *(_control(path) for path in PATHS),
    *(_settled(path) for path in PATHS),
    Claim(
        "won",
        "Theorem 5.2(2)",
        "Ω(d) neurons are one feature each: share of the features that some neuron holds alone, at the largest d",
        _at_largest("won_clean"),
        at_least(0.5),
        note=_sizes_note("won_clean", "random"),
        premises=requires(*LEARNED, path="random"),
    ),
    Claim(
        "sure",
        "Lemma B.2",
        "every feature has a sure winner at the start: sure winners of a feature, at the largest d",
        _at_largest("sure"),
        at_least(1.0),
        note=_sizes_note("sure", "random"),
        premises=requires("theorem-5-1.width", "lemma-b-2", path="random"),
    ),
)
