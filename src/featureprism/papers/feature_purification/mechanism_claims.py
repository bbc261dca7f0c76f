"""What the mechanisms of the proofs are held against: orders as printed, and laws where the distribution of z fixes one."""

from collections.abc import Callable

import numpy as np

from featureprism.lab import Claim, Rows, Values, at_least, at_most, between, requires
from featureprism.papers.feature_purification.orders import SMALL
from featureprism.papers.feature_purification.regime import LEARNED


def _of(kind: str, key: str) -> Callable[[Rows], Values]:
    return lambda rows: rows.of(kind).per_seed(key)


def _while_winning(top: str, *units: str) -> Callable[[Rows], Values]:
    """The mean of a value, divided by others, over the snapshots in which there are winners."""

    def mean(own: Rows) -> float:
        return float((own.column(top) / np.prod([own.column(name) for name in units], axis=0)).mean())

    return lambda rows: rows.of("growth", counts=True).per_seed(mean)


def _reach_note(rows: Rows) -> str:
    part = rows.of("openings")
    return f"noise alone lifts {part.column('law').mean():.0%} of them; to lift none takes d ≈ {part.column('needed_dim').mean():.0f}"


def _coupled_note(rows: Rows) -> str:
    shares = _of("coupled", "relative")(rows)
    alone = int(np.isnan(shares).sum())
    if alone:
        return f"in {alone} of {len(shares)} seeds no coefficient is so large"
    return f"{shares.mean():.0%} of the growth itself"


CLAIMS = (
    Claim(
        "signal-law",
        "finding",
        "the rate d·E[y 1{⟨w_i, x⟩ + ρ ≥ b} z_j] of winners ÷ its value from the weights and the law of z alone: the own feature, the"
        " mean of the others, Gaussian noise",
        _while_winning("signal", "signal_law"),
        between(0.9, 1.1),
        origin="featureprism",
        note=lambda rows: f"the noise of x adds {_of('noise', 'share')(rows).mean():.0%} to it at the end",
    ),
    Claim(
        "idle-law",
        "finding",
        "the rate of what does not reach the bias ÷ the same law",
        _while_winning("idle", "idle_law"),
        between(0.6, 1.2),
        origin="featureprism",
        note="such a neuron opens by jumps of its own feature, which the Gaussian rest of the law does not have",
    ),
    Claim(
        "growth-ratio",
        "Lemmas C.8 and C.10",
        "winners grow faster than all else by d/(k log d): the ratio of both rates in this unit",
        _while_winning("signal", "idle", "unit"),
        at_least(0.5),
        premises=requires(*LEARNED),
    ),
    Claim(
        "largest-growth",
        "Lemma C.9",
        "no coefficient grows faster than O(1/d): the largest rate of all ÷ the mean of the winners",
        _while_winning("largest", "signal"),
        at_most(3.0),
        premises=requires(*LEARNED),
    ),
    Claim(
        "settled",
        "Phase II.1, after (C.24)",
        "own coefficients grow to Θ(1/(dλ)) and do not fall below it: their mean in this unit",
        _of("settled", "size"),
        between(0.2, 5.0),
        note=lambda rows: (
            f"they are at rest: penalty ÷ growth is {_of('settled', 'balance')(rows).mean():.2f}"
        ),
        premises=requires(*LEARNED),
    ),
    Claim(
        "alike",
        "(C.25)",
        "winners of one feature end alike: least ÷ largest of their coefficients, median over features",
        _of("settled", "alike"),
        at_least(0.5),
        premises=requires(*LEARNED),
    ),
    Claim(
        "openings",
        "Lemma C.19",
        "at most O(kΞ₂) neurons reach b/10 at a point: their number ÷ (‖z‖₀ · winners per feature)",
        lambda rows: _of("openings", "lifted_count")(rows) / _of("openings", "expected")(rows),
        at_most(2.0),
        note=_reach_note,
        premises=requires(*LEARNED),
    ),
    Claim(
        "noise-reach",
        "finding",
        "share of the neurons that reach b/10 ÷ P(|N(0, σ_x²‖w‖²/d)| ≥ b/10): noise explains it",
        lambda rows: _of("openings", "lifted")(rows) / _of("openings", "law")(rows),
        between(0.95, 1.15),
        origin="featureprism",
        note="at d = 256 it is 1.19 after as many steps as at d = 100, and 1.11 after three times as many (two other seeds)",
    ),
    Claim(
        "lipschitz",
        "Lemma C.20",
        "L_j ≤ Σ_i |⟨w_i, M_j⟩| over the neurons of feature j, + O(k/√d): the excess in units of k/√d",
        _of("lipschitz", "excess"),
        at_most(1.0),
        note="the dense mixtures of all open neurons add up; many more are open than have the feature",
        premises=requires(*LEARNED),
    ),
    Claim(
        "loss",
        "Lemma C.22",
        "the loss cannot vanish: E ℓ' · L_max · ln d, as derived (the statement squares the last two)",
        _of("lipschitz", "loss"),
        at_least(1.0),
        premises=requires(*LEARNED),
    ),
    Claim(
        "regular",
        "Lemma C.21",
        "the output stays O(Ξ₂² log d): the |f| that one point in a thousand exceeds ÷ ln d, Ξ₂ set to 1",
        _of("lipschitz", "size"),
        at_most(1.0),
        note=lambda rows: f"the largest L_j, O(1) too, is {_of('lipschitz', 'largest')(rows).mean():.1f}",
        premises=requires(*LEARNED),
    ),
    Claim(
        "coupled",
        "Lemma C.18",
        "winners of one feature grow alike up to O(k^1.5/d²): mean difference in this unit, |⟨w_i, M_j⟩| ≥ 1.5√k b",
        _of("coupled", "gap"),
        at_most(1.0),
        note=_coupled_note,
        premises=requires(*LEARNED),
    ),
    Claim(
        "reference",
        "Lemma D.6(a)",
        "the reference point μ* computes α⟨w*, z⟩ with the activations of training: relative error, rms",
        _of("reference", "error"),
        at_most(SMALL),
        note=lambda rows: f"its sign is right on {_of('reference', 'right')(rows).mean():.0%} of the points",
        premises=requires(*LEARNED),
    ),
    Claim(
        "common-direction",
        "Lemma E.2",
        "neurons share Mw*: Σ_i ⟨w_i, Mw*⟩ in units of kd",
        _of("pulled", "total"),
        at_least(0.5),
        premises=requires(*LEARNED),
    ),
    Claim(
        "pull",
        "Section 6.2, Lemma E.2",
        "clean training pulls every neuron to Mw*, also at its end: share of large neurons with a positive pull",
        _of("pulled", "positive"),
        at_least(0.95),
        premises=requires(*LEARNED),
        note="longer training does not mend it: at d = 256 it is 0.81, and 0.80 after three times as many steps (two other seeds)",
    ),
    Claim(
        "dense-noise",
        "Claim E.3",
        "noise pulls little to Mw*, O(k²σ_x²/d^1.5): its mean part of the pull on large neurons in this unit",
        _of("noise", "dense"),
        at_most(1.0),
        note=lambda rows: (
            f"it pulls back: {-_of('noise', 'dense_share')(rows).mean():.1f} times what is left of the pull of the signal"
        ),
        premises=requires(*LEARNED),
    ),
    Claim(
        "balance",
        "finding",
        "the penalty is what ends it: λ(1 + ‖w_i‖)⟨w_i, Mw*⟩ ÷ the pull, summed over large neurons",
        _of("pulled", "balance"),
        between(0.7, 1.4),
        origin="featureprism",
    ),
    Claim(
        "sampling",
        "Lemma A.2",
        "the gradient of N samples misses that of the population by N^-½: exponent",
        lambda rows: rows.of("sampling").slope("N", "gradient"),
        between(-0.55, -0.45),
        origin="featureprism",
        note="the lemma says 1/poly(d) for large N",
    ),
)
