"""The alignment phase: Proposition 4, (13) and the lemmas of Appendices F and G, each beside its sharp law."""

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, between, rate, requires
from featureprism.papers.gmm_flow.alignment_flow import DIRECTIONS, AlignmentPhase, measure
from featureprism.papers.gmm_flow.setting import THEOREM_1_PREMISES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALPHAS = (0.2, 0.16, 0.12, 0.09, 0.07)
SMALLEST = 0.04  # where Lemma 10's time is too short for p = 4, and a logarithm differs from a power
SCALED = "N = D = 1/α²"  # the series at the sizes that Theorem 1 asks for


def bend(run: Rows) -> float:
    """The slope of t₁ against ln(1/α) over the smaller half of the α ÷ that over the larger half; a middle one is in both."""
    x, y = run.column("log_inverse_alpha"), run.column("t1")
    steep, flat = (_slope(x[half], y[half]) for half in (x >= np.median(x), x <= np.median(x)))
    return steep / flat


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Of the line through at least two points; NaN where one is missing."""
    return float(np.polyfit(x, y, 1)[0]) if len(x) > 1 and np.isfinite(y).all() else float("nan")


def _by_alpha(rows: Rows) -> Rows:
    return rows.of("phase", series="alpha")


def _flows(rows: Rows) -> Rows:
    """All flows but those whose N and D change with α."""
    return rows.of("phase").where(lambda row: row["series"] != SCALED)


INSIDE = requires(*THEOREM_1_PREMISES)
WHOLE = requires(*THEOREM_1_PREMISES, series="whole")
CLAIMS = (
    Claim(
        "t1-order",
        source="Proposition 4",
        says="All neurons are aligned with their centres after a time that grows only like the logarithm of 1/α.",
        quantity="slope of the alignment time t₁ against ln(1/α), smaller half of the α divided by larger half",
        formula=r"t_1 = O(\log 1/\alpha)",
        bound=at_most(1.1),
        because="a logarithm gives 1, and a power as small as α^(-1/4) bends to 1.19 and more",
        value=lambda rows: _by_alpha(rows).per_seed(bend),
        premises=INSIDE,
    ),
    Claim(
        "t1-law",
        source="behind Proposition 4",
        says="The time to alignment is that of the equation without noise, for every power p and every noise level α.",
        quantity="relative deviation of the alignment time t₁ from the nominal equation, largest over p and α",
        formula=r"\dot c_k = p \left( y_k [c_k]_+^{p-1} - c_k \sum_l y_l [c_l]_+^p \right)",
        bound=at_most(0.02),
        because="noise of size α/√N, at most 0.014 here, changes the time in proportion",
        value=lambda rows: _flows(rows).per_seed(lambda run: np.abs(run.column("over_t1") - 1).max()),
        origin="featureprism",
    ),
    Claim(
        "t2",
        source="Proposition 4, t₂ in its proof",
        says="Neurons are aligned from a time t₁ on, and the time t₂ up to which the proof keeps them aligned comes later.",
        quantity="t₂ of the proof divided by the measured t₁ at ε = α^(8K), largest over p and α",
        formula=r"t_2 = \ln(1/(2^{p-1}\sqrt h\,\epsilon)) / (2^{p+2} K) \ge t_1",
        bound=at_least(1.0),
        because="an interval is empty when its end comes before its beginning",
        value=lambda rows: _flows(rows).largest("t2_over_t1"),
        aggregate="worst",
        premises=INSIDE,
        note="the proposition only says that some t₂ = O(ln 1/ε) exists, and one does: neurons stay aligned until f counts"
        " (lemma-8-law). The t₂ of the proof is below 2^(1-p) ln(1/α) while t₁ ≈ ln(1/α)/p; it takes ε ≤ α^(2^(p+2)K/p)",
    ),
    Claim(
        "proposition-4",
        source="Proposition 4",
        says="Aligned neurons stay within O(α²) of their centres until the output of the network begins to count.",
        quantity="exponent of α in the largest 1 - cosine at 0.9 ln(1/ε), with N = D = 1/α²",
        formula=r"1 - c_{kj} = O(\alpha^2)",
        bound=at_least(1.8),
        because="O(α²) allows an exponent of 2 and more; a tenth is left for the scatter of few seeds",
        value=lambda rows: rate(rows.of("phase", series=SCALED), x="alpha", y="final_gap"),
        premises=requires(*THEOREM_1_PREMISES, series=SCALED),
        note="the exponent is 4: the law α²/(2N) of `floor` at N = 1/α²",
    ),
    Claim(
        "floor",
        source="behind Proposition 4",
        says="Neurons settle along the mean point of their cluster, so that their angle to the centre is the norm of the mean noise.",
        quantity="largest 1 - cosine over neurons divided by α²/(2N), mean over p and α",
        formula=r"1 - c_{kj} \approx \lVert\bar\varepsilon_k\rVert^2/2 \approx \alpha^2/(2N)",
        bound=between(0.9, 1.3),
        because="1 is the law for one cluster; the largest of four clusters lies a little above it",
        value=lambda rows: _flows(rows).mean("final_gap_over_floor"),
        origin="featureprism",
    ),
    Claim(
        "equation-13",
        source="(13), Lemma 6",
        says="While the output is small, every neuron turns to the centre of its region at least as fast as equation (13) says.",
        quantity="dc/dt divided by the bound of (13) with the constant of Lemma 6, least over neurons, times, p and α",
        formula=r"\dot c_{kj} \ge C p\, c_{kj}^{p-1} (1 - c_{kj}^2), \quad C = \tilde\Delta_2",
        bound=at_least(1.0),
        because="equation (13) with the constant of Lemma 6 is a ratio of 1",
        value=lambda rows: _flows(rows).least("speed_share"),
        aggregate="worst",
        premises=INSIDE,
    ),
    Claim(
        "noise-near-centre",
        source="behind (13) and (H.14)",
        says="Near its centre a neuron feels the noise of the sample only in proportion to the angle that is left.",
        quantity="|dc/dt - nominal| divided by p (α/√N) √(1-c²), largest over neurons with c² ≥ 4/5, times, p and α",
        formula=r"|\dot c - 2p(1-c)| \lesssim p \lVert\bar\varepsilon\rVert \sqrt{1 - c^2}",
        bound=at_most(1.25),
        because="it tends to ‖ε̄‖√N/α, the largest of four clusters, which is 1.1 to 1.2 for D from 200 on",
        value=lambda rows: _flows(rows).largest("noise_near_centre"),
        origin="featureprism",
        aggregate="worst",
        premises=INSIDE,
        note="(H.14) has ‖ε̄‖ without the root; with it 1 - c falls to ‖ε̄‖²/2, which is what gives Theorem 1 its rate α²",
    ),
    Claim(
        "lemma-5",
        source="Lemma 5, (F.1)",
        says="A neuron with non-degeneracy gap Δ has at least the cosine of Lemma 5 with the centre of its region.",
        quantity=f"cosine divided by the bound of Lemma 5, least over {DIRECTIONS} random directions in 3 dimensions, two centres",
        formula=r"c_k(0) \ge \sqrt{((1-\Delta)^{-2} - 1)/2}",
        bound=at_least(1.0),
        because="Lemma 5 bounds the ratio by 1 from below",
        value=lambda rows: _flows(rows).least("lemma_5"),
        aggregate="worst",
        note="true for Δ ≤ 1 - 1/√2 only; the sharp bound is √(2Δ - Δ²)",
    ),
    Claim(
        "lemma-7-growth",
        source="Section 3.2.3, Lemma 7 (F.4)",
        says="Until aligned, neurons only turn towards the centre of their region, even if they start nearer to the other class.",
        quantity="cosine divided by the one recorded before it, least over neurons and times",
        bound=at_least(1.0),
        because="growing means a ratio of at least 1",
        value=lambda rows: _flows(rows).least("lemma_7_growth"),
        aggregate="worst",
        premises=INSIDE,
    ),
    Claim(
        "lemma-7",
        source="Lemma 7, (F.5)",
        says="The cosine of a neuron with any other centre never grows relative to that with the centre of its region.",
        quantity="|c_l|/c_k divided by its value at the start, largest over neurons, centres of either class and times up to t₁",
        bound=at_most(1.0),
        because="never growing means a ratio of at most 1",
        value=lambda rows: _flows(rows).largest("lemma_7_ratio"),
        aggregate="worst",
        premises=INSIDE,
        note="the other half of (F.5), that the ratio starts below 1 - √(2Δ), is false for neurons that lean to the other class:"
        " Assumption 2 says nothing of its centres",
    ),
    Claim(
        "lemma-8-law",
        source="behind Lemma 8",
        says="The output of the network begins to count at about ln(1/ε), far later than the t₂ of the proof.",
        quantity="relative deviation of the time at which max|f(μ_k)| passes 2ε√h from the law, largest over p and α",
        formula=r"S_k(t) \approx S_k(t_1)\, e^{2(t - t_1)}",
        bound=at_most(0.02),
        because="the law leaves out noise of size α/√N, at most 0.014 here",
        value=lambda rows: _flows(rows).per_seed(lambda run: np.abs(run.column("over_lemma_8") - 1).max()),
        origin="featureprism",
    ),
    Claim(
        "lemma-10",
        source="Lemma 10, (F.20)",
        says="From cosine √(4/5) a neuron needs at most the time of Lemma 10 to reach 1 - α².",
        quantity="time divided by the bound of Lemma 10, largest over neurons, p and α",
        formula=r"T \le \frac{2}{p(2^{p-1} - 2)} \ln \frac{1}{\alpha^2}",
        bound=at_most(1.0),
        because="the printed bound",
        value=lambda rows: _flows(rows).largest("lemma_10_printed"),
        aggregate="worst",
        premises=INSIDE,
        note="the rate is no lower bound of p c^(p-1)(1 - 2^(2-p)); for p = 4 and small α the printed time is too short",
    ),
    Claim(
        "lemma-15",
        source="Lemma 15, (G.12)",
        says="Cluster masses grow from their value at t₁ to 1 - 2α² within the time of Lemma 15.",
        quantity="time divided by the bound of Lemma 15, largest over clusters",
        formula=r"T \le 2 (\ln 1/\alpha^2 + \ln 1/S(t_1))",
        bound=at_most(1.0),
        because="the printed bound",
        value=lambda rows: rows.of("phase", series="whole").largest("lemma_15_printed"),
        aggregate="worst",
        premises=WHOLE,
        note="Lemma 13 gives twice the speed that Lemma 15 is used for, and both logarithms count twice: a quarter is right",
    ),
    Claim(
        "lemma-14-law",
        source="behind Lemma 14",
        says="While neurons align, their masses grow by the equation without noise, where Lemma 14 only bounds how much they shrink.",
        quantity="masses at t₁ against the nominal equation, as the largest factor over neurons, p and α",
        formula=r"S(t_1)/S(0) = \left( (1-c_0^2) / (2\alpha^2) \right)^{1/p} \text{ for one centre alone}",
        bound=at_most(1.05),
        because="the law leaves out noise of size α/√N, at most 0.014 here, which is integrated over t₁",
        value=lambda rows: _flows(rows).largest("over_lemma_14"),
        origin="featureprism",
    ),
    Claim(
        "lemma-16",
        source="behind Lemma 16",
        says="Neurons in the void region never grow, so that they do not disturb the network.",
        quantity="squared norm of a void neuron at T* divided by that at the start, largest over neurons",
        bound=at_most(1.0),
        because="never growing means a ratio of at most 1; the lemma says õ(α²), and the start is ε² = α^(16K)",
        value=lambda rows: rows.of("phase", series="whole").largest("void_growth"),
        origin="featureprism",
        aggregate="worst",
        premises=WHOLE,
    ),
)


def draw(rows: Rows) -> "Figure":
    """Cosines of one neuron of each kind at the largest α, and t₁ against α with its law."""
    from featureprism.lab.style import COLOURS, over_seeds, panels

    figure, (left, right) = panels(2, width=3.9, height=3.0)
    flows = _flows(rows)
    first = rows.of("track", series="alpha", alpha=max(r["alpha"] for r in flows), seed=rows.seeds[0])
    for colour, (kind, neuron) in zip(COLOURS, first.groups("neuron").items(), strict=False):
        left.plot(neuron.column("time"), neuron.column("own"), color=colour, label=f"{kind}: own centre")
        left.plot(neuron.column("time"), neuron.column("other"), color=colour, linestyle=":", linewidth=1)
    left.set(xlabel="time", ylabel="cosine", xlim=(0, 3), title="(a) dotted: a centre of the other class")
    left.legend(loc="center right")
    for colour, (p, runs) in zip(COLOURS, flows.groups("p").items(), strict=False):
        x, low, mean, high = over_seeds(runs, "alpha", "t1")
        right.errorbar(x, mean, [mean - low, high - mean], fmt="o", color=colour, label=f"p = {p:g}")
        right.plot(*over_seeds(runs, "alpha", "predicted_t1")[::2], color=colour, linestyle="--", linewidth=1)
    right.set(xscale="log", xlabel="α", ylabel="t₁", title="(b) time to align; dashed: nominal")
    right.legend()
    return figure


def _phase(size: int, series: str, alpha: float, p: float = 3.0) -> AlignmentPhase:
    return AlignmentPhase(
        series=series, alpha=alpha, p=p, dim=size, per_cluster=size, whole=series == "whole"
    )


def _settings(size: int, alphas: tuple[float, ...] = ALPHAS) -> list[AlignmentPhase]:
    others = [_phase(size, "power", alpha, p) for p in (2.5, 4.0) for alpha in (alphas[0], alphas[-1])]
    scaled = [_phase(ceil(alpha**-2 - 1e-9), SCALED, alpha) for alpha in (0.2, 0.1, 0.05)]
    by_alpha = [_phase(size, "alpha", alpha) for alpha in alphas]
    return [*by_alpha, *others, _phase(size, "whole", 0.1), *scaled]


def _quick() -> list[AlignmentPhase]:
    """Sizes for α = 0.07, and larger ones for one smaller α."""
    size = round(SMALLEST**-2)
    return [*_settings(205), _phase(size, "alpha", SMALLEST), _phase(size, "power", SMALLEST, 4.0)]


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
    draw=draw,
    about=(
        "Flow at ε = α^(8K) from neurons of three kinds: near a centre of their class, leaning to a centre of the other class"
        " (Assumption 2 allows it), and void. Lemmas 9, 10 and 15 are calculus; what is claimed is what the proofs make of them. Of"
        " Lemmas 8 and 14, whose constants are far from sharp, the laws behind them are claimed. theorem-1 judges Lemmas 11 and 12."
    ),
)
