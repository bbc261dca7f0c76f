"""The alignment phase: Proposition 4, (13) and the lemmas of Appendices F and G, each beside its sharp law."""

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most, between, requires
from featureprism.papers.gmm_flow.alignment_run import DIRECTIONS, REPELLED, Phase, measure


def _r_squared(own: Rows) -> float:
    """R² of t₁ against ln(1/α)."""
    return float(np.corrcoef(own.column("log_inverse_alpha"), own.column("t1"))[0, 1] ** 2)


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Of the line through at least two points; NaN where one is missing."""
    return float(np.polyfit(x, y, 1)[0]) if len(x) > 1 and np.isfinite(y).all() else float("nan")


def _bend(own: Rows) -> float:
    """The slope of t₁ against ln(1/α) over the smaller half of the α ÷ that over the larger half; a middle one is in both."""
    x, y = own.column("log_inverse_alpha"), own.column("t1")
    steep, flat = (_slope(x[half], y[half]) for half in (x >= np.median(x), x <= np.median(x)))
    return steep / flat


def _rate(own: Rows) -> float:
    """p times the slope of t₁ against ln(1/α)."""
    return own[0]["p"] * _slope(own.column("log_inverse_alpha"), own.column("t1"))


def _by_alpha(rows: Rows) -> Rows:
    return rows.of("phase", series="alpha")


REGIME = ("theorem-1", "assumption-2", "lemma-4")
INSIDE = requires(*REGIME)
CLAIMS = (
    Claim(
        "t1-order",
        "Proposition 4",
        "t₁ = O(ln 1/α): slope of the time until every cosine is at least 1 - α² against ln(1/α), over the smaller half of the α ÷"
        " over the larger half",
        lambda rows: _by_alpha(rows).per_seed(_bend),
        at_most(1.1),
        note="1 for a logarithm; a power α^(-1/4) bends to 1.19 and more",
        premises=INSIDE,
    ),
    Claim(
        "t1",
        "Proposition 4, sharp",
        "t₁ is linear in ln(1/α): R²",
        lambda rows: _by_alpha(rows).per_seed(_r_squared),
        above(0.98),
        origin="featureprism",
        premises=INSIDE,
    ),
    Claim(
        "t1-rate",
        "behind Proposition 4",
        "t₁ grows like ln(1/α)/p: p times the slope",
        lambda rows: _by_alpha(rows).per_seed(_rate),
        between(0.95, 1.05),
        origin="featureprism",
    ),
    Claim(
        "t1-law",
        "behind Proposition 4",
        "t₁ ÷ that of the nominal equation of (13) with all clusters, farthest from 1 over p and α",
        lambda rows: rows.of("phase").farthest("over_t1", 1.0),
        between(0.98, 1.02),
        origin="featureprism",
    ),
    Claim(
        "t2",
        "Proposition 4, t₂ in its proof",
        "[t₁, t₂] is not empty: printed t₂ ÷ t₁ at ε = α^(8K), largest over p and α",
        lambda rows: rows.of("phase").largest("t2_over_t1"),
        at_least(1.0),
        note="it takes ε ≤ α^(2^(p+2)K/p): below 2^(1-p) ln(1/α) the printed t₂ never reaches t₁ ≈ ln(1/α)/p; the flow itself"
        " stays aligned until f counts",
        premises=INSIDE,
        aggregate="worst",
    ),
    Claim(
        "proposition-4",
        "Proposition 4",
        "and neurons stay aligned up to O(α²): slope against α of the largest 1 - cosine at 0.9 ln(1/ε), when f begins to count",
        lambda rows: _by_alpha(rows).slope("alpha", "final_gap"),
        at_least(1.8),
        note="the law is α²/(2N): `floor`",
        premises=INSIDE,
    ),
    Claim(
        "floor",
        "behind Proposition 4",
        "where the cosines settle: largest 1 - cosine over neurons ÷ α²/(2N), mean over p and α",
        lambda rows: rows.of("phase").mean("final_gap_over_floor"),
        between(0.9, 1.3),
        origin="featureprism",
    ),
    Claim(
        "equation-13",
        "(13), Lemma 6",
        "dc/dt ≥ C p c^(p-1)(1-c²) up to t₁ with the C = Δ̃₂ of Lemma 6: least ratio over neurons, times, p and α",
        lambda rows: rows.of("phase").least("speed_share"),
        at_least(1.0),
        premises=INSIDE,
        aggregate="worst",
    ),
    Claim(
        "equation-13-noise",
        "behind (13)",
        "the noise adds no more than α/√N + α/√D: largest |dc/dt - nominal| ÷ that, largest over p and α",
        lambda rows: rows.of("phase").largest("departure_over_order"),
        at_most(1.0),
        origin="featureprism",
        note="(13) allows α² + α/√D more, and a constant",
        premises=INSIDE,
    ),
    Claim(
        "lemma-5",
        "Lemma 5, (F.1)",
        f"c_k(0) ≥ √((1/(1-Δ)² - 1)/2): least ratio over {DIRECTIONS} random directions in three dimensions with two centres",
        lambda rows: rows.of("phase").least("lemma_5"),
        at_least(1.0),
        note="true for Δ ≤ 1 - 1/√2 only; the sharp bound is √(2Δ - Δ²)",
        aggregate="worst",
    ),
    Claim(
        "lemma-7-growth",
        "Section 3.2.3, Lemma 7 (F.4)",
        "cosines with the own centre only grow until they are 1 - α²: least ratio of one to that recorded before it, also of neurons"
        " that lean to the other class",
        lambda rows: rows.of("phase").least("lemma_7_growth"),
        at_least(1.0),
        premises=INSIDE,
        aggregate="worst",
    ),
    Claim(
        "lemma-7",
        "Lemma 7, (F.5)",
        "|c_l|/c_k for l ≠ k never rises above its start: largest ratio to it over neurons, centres of either class and times up to t₁",
        lambda rows: rows.of("phase").largest("lemma_7_ratio"),
        at_most(1.0),
        note="that it starts below 1 - √(2Δ), the other half of (F.5), is false for leaning neurons: Assumption 2 says nothing of"
        " centres of the other class",
        premises=INSIDE,
        aggregate="worst",
    ),
    Claim(
        "lemma-8-law",
        "behind Lemma 8",
        "max|f(μ_k)| passes 2ε√h when the nominal masses do: time ÷ predicted, farthest from 1 over p and α",
        lambda rows: rows.of("phase").farthest("over_lemma_8", 1.0),
        between(0.98, 1.02),
        origin="featureprism",
    ),
    Claim(
        "lemma-9-law",
        "behind Lemma 9",
        "the first leg ÷ that of the nominal equation, farthest from 1 over neurons, p and α",
        lambda rows: rows.of("phase").farthest("lemma_9_law", 1.0),
        between(0.97, 1.03),
        origin="featureprism",
    ),
    Claim(
        "lemma-10",
        "Lemma 10, (F.20)",
        "the second leg, to 1 - α², takes at most 2 ln(1/α²)/(p(2^(p-1)-2)): largest time ÷ that over neurons, p and α",
        lambda rows: rows.of("phase").largest("lemma_10_printed"),
        at_most(1.0),
        note="the rate is no lower bound of p c^(p-1)(1 - 2^(2-p)); for p = 4 and small α the printed time is too short",
        premises=INSIDE,
        aggregate="worst",
    ),
    Claim(
        "lemma-10-law",
        "behind Lemma 10",
        "the second leg ÷ that of the nominal equation, farthest from 1 over neurons, p and α",
        lambda rows: rows.of("phase").farthest("lemma_10_law", 1.0),
        between(0.95, 1.05),
        origin="featureprism",
    ),
    Claim(
        "lemma-15",
        "Lemma 15, (G.12)",
        "masses grow from t₁ to 1 - 2α² in at most 2(ln 1/α² + ln 1/S(t₁)): largest time ÷ that over clusters",
        lambda rows: rows.of("phase", series="whole").largest("lemma_15_printed"),
        at_most(1.0),
        premises=requires(*REGIME, series="whole"),
        aggregate="worst",
        note="Lemma 13 gives twice the speed that Lemma 15 is used for, and both logarithms count twice: a quarter is right",
    ),
    Claim(
        "lemma-15-law",
        "behind Lemma 15",
        "the same time ÷ that of dS/dt = 2S(1-S), farthest from 1 over clusters",
        lambda rows: rows.of("phase", series="whole").farthest("lemma_15_law", 1.0),
        between(0.98, 1.02),
        origin="featureprism",
    ),
    Claim(
        "lemma-14-law",
        "behind Lemma 14",
        "masses at t₁ ÷ those of the nominal equation, as the largest factor over neurons, p and α",
        lambda rows: rows.of("phase").largest("over_lemma_14"),
        at_most(1.05),
        origin="featureprism",
        note="one centre alone: ((1-c₀²)/(2α²))^(1/p) times the start",
    ),
    Claim(
        "lemma-16",
        "behind Lemma 16",
        "void neurons never grow: their mass at T* ÷ at the start, largest over neurons",
        lambda rows: rows.of("phase", series="whole").largest("void_growth"),
        at_most(1.0),
        origin="featureprism",
        note="the lemma says õ(α²), and their start is ε² = α^(16K)",
        premises=requires(*REGIME, series="whole"),
        aggregate="worst",
    ),
    Claim(
        "lemma-16-law",
        "behind Lemma 16",
        f"a void neuron loses (1-c²)^(1/p) to a centre of the other class, c = {REPELLED}: measured against that, as the"
        " largest factor",
        lambda rows: rows.of("phase").largest("over_lemma_16"),
        at_most(1.01),
        origin="featureprism",
    ),
)
ALPHAS = (0.2, 0.16, 0.12, 0.09, 0.07)


SMALLEST = 0.04  # where Lemma 10's time is too short for p = 4, and a logarithm is told from a power


def _phase(size: int, series: str, alpha: float, p: float = 3.0) -> Phase:
    whole = series == "whole"
    return Phase(series=series, alpha=alpha, p=p, dim=size, per_cluster=size, whole=whole)


def _settings(size: int, alphas: tuple[float, ...] = ALPHAS) -> list[Phase]:
    others = [_phase(size, "power", alpha, p) for p in (2.5, 4.0) for alpha in (alphas[0], alphas[-1])]
    return [*(_phase(size, "alpha", alpha) for alpha in alphas), *others, _phase(size, "whole", 0.1)]


def _quick() -> list[Phase]:
    """Sizes for α = 0.07, and larger ones for one smaller α."""
    size = round(SMALLEST**-2)
    return [
        *_settings(205),
        _phase(size, "alpha", SMALLEST),
        _phase(size, "power", SMALLEST, 4.0),
    ]


ALIGNMENT = Experiment(
    id="gmm-flow/alignment",
    source="Min & Vidal 2025, Proposition 4 and Appendices F and G",
    title="How neurons find their centres, lemma by lemma",
    scales={
        "quick": _quick(),
        "standard": _settings(400, (0.2, 0.14, 0.1, 0.07, 0.05)),
        "paper": _settings(625, (0.2, 0.14, 0.1, 0.07, 0.05, 0.04)),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Flow at ε = α^(8K) from neurons of three kinds: near a centre of their class, leaning to a centre of the other class"
        " (Assumption 2 allows it), and void. Lemmas 9, 10 and 15 are calculus; what is claimed is what the proofs make of them. Of"
        " Lemmas 8, 9 and 14, whose constants are far from sharp, the laws behind them are claimed. Lemma 12 is judged in theorem-1."
    ),
)
