"""How large must C be? Every assumption met with equality, and the share of runs in which each conclusion holds, against C."""

from dataclasses import dataclass
from math import ceil, exp, floor, inf, isfinite, log, nan, sqrt

import numpy as np
from torch import Tensor

from featureprism.context import Context
from featureprism.data import LabelNoise, NoisySample, with_flips
from featureprism.data.label_noise import flips
from featureprism.lab import Bound, Claim, Experiment, Rows, at_least, at_most, between, requires
from featureprism.lab.rows import Row
from featureprism.papers.feature_amplification.setting import OTHER_LAWS, Setting, margins, problem, trained
from featureprism.probes.amplification import aligned, count_by_noise, feature_changes, leaning_neurons
from featureprism.seeds import generator_for
from featureprism.theory import amplification_laws as laws
from featureprism.theory import feature_amplification as theory

C0 = theory.USABLE_C0
DELTA = 0.05
GOOD = 1 - 4 * DELTA  # the probability of Theorem 3.1, of Proposition 3.2 and of a good run
GRID = (3.4, 4.0, 4.6, 5.3, 6.1, 7.0, 8.0, 9.2, 10.6, 12.2, 14.0, 16.0, 18.5, 24.0)
LAWS_GRID = (4.0, 5.3, 7.0, 9.2, 12.2, 16.0, 24.0)  # for clusters that are not Gaussian
LAST = 14.0  # up to here every run counts, beyond it shares are near 1


@dataclass(frozen=True, kw_only=True)
class Edge(Setting):
    """How many independent runs a share is of."""

    runs: int


def on_every_edge(C: float, runs: int, law: str = "gaussian") -> Edge:
    """The least m, n, d and the largest σ, η, ω that (A1)-(A6) allow for C; α in (A7) so that T = 1 + 1/(4α) is whole, if C ≥ 4.

    Below C = 4 every α of (A7) is above 1/4 and T is not whole; there α = 1/(2√C) and T is rounded to 2.
    """
    width = 2 * ceil(C * log(1 / DELTA) / 2)
    points = ceil(C * log(width / DELTA))
    dim = ceil(C * max(log(points / DELTA) ** 2, log(width / DELTA)))
    step_size = max(1 / (4 * max(1, floor(sqrt(C) / 2))), 1 / (2 * sqrt(C)))
    return Edge.on_edge(
        C,
        constant=C,
        dim=dim,
        points=points,
        width=width,
        step_size=step_size,
        steps=max(2, theory.theorem_steps(step_size)),
        delta=DELTA,
        test_points=1,
        runs=runs,
        law=law,
    )


def measure(s: Edge, seed: int, context: Context) -> list[Row]:
    """The share of runs in which each conclusion holds."""
    held: dict[str, list[bool]] = {}
    for draw in range(seed * s.runs, (seed + 1) * s.runs):
        for name, holds in _run(s, draw).items():
            held.setdefault(name, []).append(holds)
        context.progress((draw + 1 - seed * s.runs) / s.runs)
    shares = [
        {"kind": "share", "conclusion": name, "share": sum(runs) / len(runs)} for name, runs in held.items()
    ]
    return [*shares, *(premise.as_row() for premise in theory.assumptions(s, s.constant))]


def _run(s: Edge, draw: int) -> dict[str, bool]:
    """Theorem 3.1 (1) with coins and with all noise in one cluster, Proposition 3.2, Condition 4.7 from t = 1 to T - 1, Lemma 4.2."""
    train = problem(s, draw).train
    run = trained(s, train, draw, tuple(range(s.steps)))
    first, last = run.snapshots[0], run.last
    W0, centres = first.W.detach(), train.data.centres
    leaning = leaning_neurons(W0, first.a.detach(), centres, C0)
    change = float(feature_changes(last.W.detach(), W0, train.data.x).min())
    found = {
        "theorem": count_by_noise(margins(last, train), train.flipped) == (0, 0),
        "proposition": change >= theory.feature_change_bound(s, s.constant),
        "alignment": all(
            bool(aligned(net.W.detach(), train.data, leaning).all()) for net in run.snapshots[1 : s.steps]
        ),
        "lemma-4-2": int(leaning.sum(dim=1).min()) >= s.width / 4 * theory.leaning_share(C0),
    }
    if s.noise_rate <= 0.25:  # one cluster has no more labels to flip
        train = with_flips(train, _one_cluster(s, train, draw))
        last = trained(s, train, draw).last
        found["one cluster"] = count_by_noise(margins(last, train), train.flipped) == (0, 0)
    return found


def _one_cluster(s: Edge, train: NoisySample, draw: int) -> Tensor:
    """Coins for the labels of one cluster, on the same points."""
    noise, generator = LabelNoise("one cluster", s.noise_rate), generator_for("one cluster", draw)
    return flips(noise, train.clean, train.data.cluster, s.sigma, generator=generator)


def smallest_constant(cells: Rows, level: float = GOOD) -> float:
    """The C at which the share passes the level on a logistic curve in ln C, one for each number of steps T that the C tried have.

    T jumps where (A7) first allows a smaller α, and shares with it: a curve speaks from its least C up to the least of the next. The
    least C of a curve that begins above the level, infinite if none gets there.
    """
    if np.isnan(cells.column("share")).any():
        return nan
    parts = sorted(cells.groups("steps").items())
    starts = [part.column("constant").min() for _, part in parts]
    for (_, part), first, following in zip(parts, starts, [*starts[1:], inf], strict=True):
        height, slope = logistic_fit(
            np.log(part.column("constant")), part.column("share"), part.column("runs")
        )
        missing = log(level / (1 - level)) - height
        if slope * log(first) >= missing:
            return float(first)
        last = following if isfinite(following) else part.column("constant").max()
        if slope * log(last) >= missing:
            return exp(missing / slope)
    return inf


def logistic_fit(x: np.ndarray, shares: np.ndarray, runs: np.ndarray) -> tuple[float, float]:
    """(height, slope) of the most likely 1/(1+exp(-height - slope x)), with half a success and half a failure more at each x."""
    successes, trials = shares * runs + 0.5, runs + 1.0
    centre = x.mean()
    design = np.stack([np.ones_like(x), x - centre], axis=1)
    prior = np.diag([0.0, 1e-3])  # a flat slope rather than none where there is one x
    beta = np.zeros(2)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        gradient = design.T @ (successes - trials * chance) - prior @ beta
        beta = beta + np.linalg.solve(
            (design.T * (trials * chance * (1 - chance))) @ design + prior, gradient
        ).clip(-3, 3)
    return float(beta[0] - beta[1] * centre), float(beta[1])


def _shares(rows: Rows, conclusion: str, law: str = "gaussian") -> Rows:
    return rows.of("share", conclusion=conclusion, law=law)


def _over_gaussian(own: Rows) -> float:
    """The least C of the other laws ÷ that of Gaussian clusters on the same C tried, the geometric mean over laws.

    Where no C is enough the largest tried counts.
    """
    cells = own.where(lambda row: row["constant"] in LAWS_GRID).groups("law")
    least = {law: np.minimum(smallest_constant(part), LAWS_GRID[-1]) for law, part in cells.items()}
    others = [value for law, value in least.items() if law != "gaussian"]
    return (
        float(np.exp(np.mean(np.log(others)))) / least["gaussian"] if others and "gaussian" in least else nan
    )


def _of_laws(name: str, conclusion: str, source: str) -> Claim:
    def told(rows: Rows) -> str:
        found = {law: smallest_constant(_shares(rows, conclusion, law)) for law in ("gaussian", *OTHER_LAWS)}
        return "all seeds together " + ", ".join(f"{law} {value:.3g}" for law, value in found.items())

    return Claim(
        f"{name}-laws",
        source,
        "the law of the clusters does not matter: least C for other log-concave laws ÷ for Gaussian ones, mean over laws",
        lambda rows: rows.of("share", conclusion=conclusion).per_seed(_over_gaussian),
        between(0.85, 1.18),
        origin="featureprism",
        premises=requires("assumption"),
        note=told,
    )


def _together(cells: Rows, reason: str) -> str:
    """The same from the runs of all seeds together."""
    return f"all seeds together {smallest_constant(cells):.3g}" + (f"; {reason}" if reason else "")


def _critical(
    name: str, conclusion: str, source: str, statement: str, bound: Bound, reason: str = ""
) -> Claim:
    return Claim(
        name,
        source,
        f"{statement}: least C at which it holds in {GOOD:.0%} of the runs with (A1)-(A7) met with equality",
        lambda rows: _shares(rows, conclusion).per_seed(lambda own: smallest_constant(own, GOOD)),
        bound,
        origin="featureprism",
        premises=requires("assumption"),
        note=lambda rows: _together(_shares(rows, conclusion), reason),
    )


def _at_largest(rows: Rows) -> np.ndarray:
    """The least share over laws and over all conclusions but Lemma 4.2, which is a claim of its own."""
    shares = rows.of("share").where(lambda row: row["conclusion"] != "lemma-4-2")
    return shares.having(constant=GRID[-1]).least("share")


def _from_lemma(own: Rows) -> float:
    """The mean over C of the difference of a share and its exact chance."""
    chances = [laws.leaning_chance(row["width"], C0, theory.leaning_share(C0)) for row in own]
    return float(np.abs(own.column("share") - chances).mean())


def _lemma_constant(_rows: Rows) -> str:
    """Where the exact chance reaches 1 - δ; the lemma lets C depend on C₀."""
    widths = {constant: on_every_edge(constant, 1).width for constant in np.geomspace(50, 250, 40).tolist()}
    share = theory.leaning_share(C0)
    enough = [constant for constant, m in widths.items() if laws.leaning_chance(m, C0, share) >= 1 - DELTA]
    return f"the lemma lets C depend on C₀: on the edge of (A2), m = 3C, the exact chance reaches 1 - δ at C near {min(enough):.0f}"


def _vacuous(rows: Rows) -> str:
    sizes = {row["constant"]: row["points"] for row in rows.of("share")}
    told = ", ".join(
        f"{C * sqrt(log(1 / DELTA) / n):.2f} at C = {C:g}" for C, n in sorted(sizes.items())[::5]
    )
    return f"part 2 says nothing on the edge of (A4): C√(ln(1/δ)/n) is {told}"


CLAIMS = (
    Claim(
        "large",
        "Theorem 3.1 (1), Proposition 3.2, Lemma 4.11",
        f"for all C large enough, with probability 1 - 4δ = {GOOD:g}, at C = {GRID[-1]:g}: part 1 of the theorem (noise everywhere, or"
        " all in one cluster), the proposition, and alignment from t = 1 to 1/(4α); least share over these and over laws",
        _at_largest,
        at_least(GOOD),
        premises=requires("assumption"),
        note=_vacuous,
    ),
    Claim(
        "lemma-4-2",
        "Lemma 4.2, Definition 4.5",
        f"if C is large enough every J_μ has (1-1/C₀)² m/4 neurons with probability 1 - δ = {1 - DELTA:g}, part of a good run: share of"
        f" starts, C = {GRID[-1]:g} and C₀ = {C0:g}",
        lambda rows: _shares(rows, "lemma-4-2").having(constant=GRID[-1]).per_seed("share"),
        at_least(1 - DELTA),
        premises=requires("assumption"),
        note=_lemma_constant,
    ),
    _critical(
        "theorem",
        "theorem",
        "Theorem 3.1 (1)",
        "every clean point right and every flipped one wrong",
        between(10.4, 12.7),
    ),
    _critical(
        "proposition-3-2",
        "proposition",
        "Proposition 3.2",
        "every point's features change by 1/(Cω√(md))",
        between(5.0, 6.2),
    ),
    _critical(
        "alignment",
        "alignment",
        "Condition 4.7, Lemma 4.11",
        f"every neuron of J is aligned from t = 1 to 1/(4α), C₀ = {C0:g}",
        between(7.7, 9.4),
    ),
    _critical(
        "one-cluster",
        "one cluster",
        "Theorem 3.1 (1)",
        "the theorem with all its noise in one cluster",
        between(14.4, 17.6),
        "T jumps from 2 to 3 at C = 16: below it a surplus of labels of half that of the cluster opposite is lost, above it 2/7",
    ),
    _of_laws("theorem", "theorem", "Theorem 3.1 (1)"),
    _of_laws("proposition-3-2", "proposition", "Proposition 3.2"),
    _of_laws("alignment", "alignment", "Condition 4.7, Lemma 4.11"),
    _of_laws("one-cluster", "one cluster", "Theorem 3.1 (1)"),
    Claim(
        "lemma-4-2-law",
        "Lemma 4.2, sharp",
        f"share of starts with (1-1/C₀)² m/4 neurons in each J_μ, C₀ = {C0:g}, against its exact chance: mean difference over C",
        lambda rows: _shares(rows, "lemma-4-2").per_seed(_from_lemma),
        at_most(0.06),
        origin="featureprism",
        premises=requires("assumption"),
    ),
)


def _settings(runs: int) -> list[Edge]:
    return [
        *(on_every_edge(C, runs if C <= LAST else 2 * runs // 5) for C in GRID),
        *(on_every_edge(C, runs // 4, law) for law in OTHER_LAWS for C in LAWS_GRID),
    ]


CRITICAL_C = Experiment(
    id="feature-amplification/critical-c",
    source="Frei et al. 2023, Section 2, Theorem 3.1",
    title="How large must C be?",
    scales={"quick": _settings(120), "standard": _settings(160), "paper": _settings(240)},
    measure=measure,
    claims=CLAIMS,
    about=(
        "'For all C > 1 sufficiently large': (A1)-(A7) met with equality for each C, and the share of runs in which a conclusion holds."
        " The proof's own constant would be 10¹⁰. δ = 0.05, α near the lower end of (A7); Gaussian clusters, and at fewer C"
        " clusters of the other log-concave laws."
    ),
)
