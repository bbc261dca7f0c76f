"""The alignment phase: Proposition 4, (13) and the lemmas of Appendices F and G, each beside its sharp law."""

import numpy as np

from featureprism.experiment import Claim, Experiment, Rows, above, at_least, at_most, between, under
from featureprism.papers.gmm_flow.alignment_run import DIRECTIONS, REPELLED, Phase, measure


def _r_squared(own: Rows) -> float:
    """R² of t₁ against ln(1/α)."""
    return float(np.corrcoef(own.column("log_inverse_alpha"), own.column("t1"))[0, 1] ** 2)


def _rate(own: Rows) -> float:
    """p times the slope of t₁ against ln(1/α)."""
    x, y = own.column("log_inverse_alpha"), own.column("t1")
    return own[0]["p"] * float(np.polyfit(x, y, 1)[0]) if np.isfinite(y).all() else float("nan")


def _by_alpha(rows: Rows) -> Rows:
    return rows.of("phase", series="alpha")


REGIME = ("theorem-1", "assumption-2", "lemma-4")
INSIDE = under(*REGIME, series="alpha")
CLAIMS = (
    Claim(
        "t1",
        "Proposition 4",
        "t₁ = O(ln 1/α): R² of the time until every cosine is at least 1 - α², against ln(1/α)",
        lambda rows: _by_alpha(rows).per_seed(_r_squared),
        above(0.98),
        premises=INSIDE,
    ),
    Claim(
        "t1-rate",
        "behind Proposition 4",
        "t₁ grows like ln(1/α)/p: p times the slope",
        lambda rows: _by_alpha(rows).per_seed(_rate),
        between(0.95, 1.05),
        speaker="ours",
    ),
    Claim(
        "t1-law",
        "behind Proposition 4",
        "t₁ ÷ that of the nominal equation of (13) with all clusters, farthest from 1 over p and α",
        lambda rows: rows.of("phase").farthest("over_t1", 1.0),
        between(0.98, 1.02),
        speaker="ours",
    ),
    Claim(
        "t2",
        "Proposition 4, t₂ in its proof",
        "alignment holds on [t₁, t₂]: is that an interval? printed t₂ ÷ t₁ at ε = α^(8K), largest over p and α",
        lambda rows: rows.of("phase").largest("t2_over_t1"),
        at_least(1.0),
        note="it takes ε ≤ α^(2^(p+2)K/p): below 2^(1-p) ln(1/α) the printed t₂ never reaches t₁ ≈ ln(1/α)/p; the flow itself"
        " stays aligned until f counts",
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "proposition-4",
        "Proposition 4",
        "and stays aligned: largest (1 - cosine)/α² from t₁ until 0.9 ln(1/ε), when f begins to count",
        lambda rows: rows.of("phase").largest("gap_over_alpha_squared"),
        at_most(1.0),
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "floor",
        "behind Proposition 4",
        "where the cosines settle: largest 1 - cosine over neurons ÷ α²/(2N), mean over p and α",
        lambda rows: rows.of("phase").mean("final_gap_over_floor"),
        between(0.9, 1.3),
        speaker="ours",
    ),
    Claim(
        "equation-13",
        "(13), Lemma 6",
        "dc/dt ≥ C p c^(p-1)(1-c²) up to t₁ with the C = Δ̃₂ of Lemma 6: least ratio over neurons, times, p and α",
        lambda rows: rows.of("phase").least("speed_share"),
        at_least(1.0),
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "equation-13-noise",
        "(13)",
        "the noise adds O(α/√N + α/√D): largest |dc/dt - nominal| ÷ (α/√N + α/√D), largest over p and α",
        lambda rows: rows.of("phase").largest("departure_over_order"),
        at_most(1.0),
        note="of the two terms of (13) for noise the smaller one is enough",
        premises=INSIDE,
    ),
    Claim(
        "lemma-5",
        "Lemma 5, (F.1)",
        f"c_k(0) ≥ √((1/(1-Δ)² - 1)/2): least ratio over {DIRECTIONS} random directions in three dimensions with two centres",
        lambda rows: rows.of("phase").least("lemma_5"),
        at_least(1.0),
        note="true for Δ ≤ 1 - 1/√2 only; the sharp bound is √(2Δ - Δ²)",
        over="every seed",
    ),
    Claim(
        "lemma-7-growth",
        "Lemma 7, (F.4)",
        "cosines with the own centre never fall: least c(t)/c(0) up to t₁, also of neurons that lean to the other class",
        lambda rows: rows.of("phase").least("lemma_7_growth"),
        at_least(1.0),
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "lemma-7",
        "Lemma 7, (F.5), and premise 2 of Lemma 6",
        "|c_l|/c_k ≤ 1 - √(2Δ) for every l ≠ k: largest ratio of the two sides over neurons and times",
        lambda rows: rows.of("phase").largest("lemma_7_printed"),
        at_most(1.0),
        note="Assumption 2 says nothing of centres of the other class, nor of negative cosines; they only speed c_k up",
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "lemma-7-own",
        "Lemma 7, repaired",
        "the same for positive cosines with centres of the own class, which is all that (13) needs",
        lambda rows: rows.of("phase").largest("lemma_7_own"),
        at_most(1.0),
        speaker="ours",
        over="every seed",
    ),
    Claim(
        "lemma-8",
        "Lemma 8, (F.6)",
        "max|f(μ_k)| ≤ 2ε√h up to the printed t₂: time at which it passes that ÷ t₂, least over p and α",
        lambda rows: rows.of("phase").least("lemma_8_printed"),
        at_least(1.0),
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "lemma-8-law",
        "behind Lemma 8",
        "max|f(μ_k)| passes 2ε√h when the nominal masses do: time ÷ predicted, farthest from 1 over p and α",
        lambda rows: rows.of("phase").farthest("over_lemma_8", 1.0),
        between(0.98, 1.02),
        speaker="ours",
    ),
    Claim(
        "lemma-9",
        "Lemma 9, (F.20)",
        "the first leg, to cosine √(4/5), takes at most 20/((p-2)pΔ̃₂Δ̃₁^(p-2)): largest time ÷ that over neurons, p and α",
        lambda rows: rows.of("phase").largest("lemma_9_printed"),
        at_most(1.0),
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "lemma-9-law",
        "behind Lemma 9",
        "the first leg ÷ that of the nominal equation, farthest from 1 over neurons, p and α",
        lambda rows: rows.of("phase").farthest("lemma_9_law", 1.0),
        between(0.97, 1.03),
        speaker="ours",
    ),
    Claim(
        "lemma-10",
        "Lemma 10, (F.20)",
        "the second leg, to 1 - α², takes at most 2 ln(1/α²)/(p(2^(p-1)-2)): largest time ÷ that over neurons, p and α",
        lambda rows: rows.of("phase").largest("lemma_10_printed"),
        at_most(1.0),
        note="the rate is no lower bound of p c^(p-1)(1 - 2^(2-p)); for p = 4 and small α the printed time is too short",
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "lemma-10-law",
        "behind Lemma 10",
        "the second leg ÷ that of the nominal equation, farthest from 1 over neurons, p and α",
        lambda rows: rows.of("phase").farthest("lemma_10_law", 1.0),
        between(0.95, 1.05),
        speaker="ours",
    ),
    Claim(
        "lemma-15",
        "Lemma 15, (G.12)",
        "masses grow from t₁ to 1 - 2α² in at most 2(ln 1/α² + ln 1/S(t₁)): largest time ÷ that over clusters",
        lambda rows: rows.of("phase", series="whole").largest("lemma_15_printed"),
        at_most(1.0),
        premises=under(*REGIME, series="whole"),
        over="every seed",
        note="Lemma 13 gives twice the speed that Lemma 15 is used for, and both logarithms count twice: a quarter is right",
    ),
    Claim(
        "lemma-15-law",
        "behind Lemma 15",
        "the same time ÷ that of dS/dt = 2S(1-S), farthest from 1 over clusters",
        lambda rows: rows.of("phase", series="whole").farthest("lemma_15_law", 1.0),
        between(0.98, 1.02),
        speaker="ours",
    ),
    Claim(
        "lemma-14",
        "Lemma 14, (G.1)",
        "masses at t₁ are at least e^(-E)ε², E = 2p^(p+2)K/(p(p-2)Δ̃₂Δ̃₁^(p-2)): least ln(S_k(t₁)/ε²) ÷ E over clusters, p and α",
        lambda rows: rows.of("phase").least("lemma_14_printed"),
        at_least(-1.0),
        note="they do not fall at all",
        premises=INSIDE,
        over="every seed",
    ),
    Claim(
        "lemma-14-law",
        "behind Lemma 14",
        "masses at t₁ ÷ those of the nominal equation, as the largest factor over neurons, p and α",
        lambda rows: rows.of("phase").largest("over_lemma_14"),
        at_most(1.05),
        speaker="ours",
        note="one centre alone: ((1-c₀²)/(2α²))^(1/p) times the start",
    ),
    Claim(
        "lemma-16",
        "Lemma 16",
        "void neurons stay small up to T*: their mass there ÷ at the start, largest over neurons",
        lambda rows: rows.of("phase", series="whole").largest("void_growth"),
        at_most(1.0),
        note="the lemma says õ(α²); with a gap Δ they never grow at all",
        premises=under(*REGIME, series="whole"),
        over="every seed",
    ),
    Claim(
        "lemma-16-law",
        "behind Lemma 16",
        f"a void neuron loses (1-c²)^(1/p) to a centre of the other class, c = {REPELLED}: measured against that, as the"
        " largest factor",
        lambda rows: rows.of("phase").largest("over_lemma_16"),
        at_most(1.01),
        speaker="ours",
    ),
)
ALPHAS = (0.2, 0.16, 0.12, 0.09, 0.07)


def _settings(size: int, alphas: tuple[float, ...] = ALPHAS) -> list[Phase]:
    def phase(series: str, alpha: float, p: float = 3.0) -> Phase:
        whole = series == "whole"
        return Phase(series=series, alpha=alpha, p=p, dim=size, per_cluster=size, whole=whole)

    others = [phase("power", alpha, p) for p in (2.5, 4.0) for alpha in (alphas[0], alphas[-1])]
    return [*(phase("alpha", alpha) for alpha in alphas), *others, phase("whole", 0.1)]


ALIGNMENT = Experiment(
    id="gmm-flow/alignment",
    source="Min & Vidal 2025, Proposition 4 and Appendices F and G",
    title="How neurons find their centres, lemma by lemma",
    scales={
        "quick": _settings(205),
        "standard": _settings(400, (0.2, 0.14, 0.1, 0.07, 0.05)),
        "paper": _settings(625, (0.2, 0.14, 0.1, 0.07, 0.05, 0.04)),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Flow at ε = α^(8K) from neurons of three kinds: near a centre of their class, leaning to a centre of the other class"
        " (Assumption 2 allows it), and void. Lemmas 9, 10 and 15 are calculus; what is claimed is what the proofs make of them."
        " Lemma 12 is judged in theorem-1."
    ),
)
