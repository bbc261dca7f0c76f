"""Scaling laws along k = d^0.36: how mixtures, purity, movement and robustness change with the dimension."""

import math
from collections.abc import Callable

from featureprism.context import Context
from featureprism.experiment import (
    Bound,
    Claim,
    Experiment,
    Rows,
    Values,
    above,
    at_most,
    below,
    between,
    mean_interval,
    under,
)
from featureprism.experiment.rows import number
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    BROKEN,
    LEARNED,
    PURIFIED,
    Bench,
    bench,
    movement,
    premise_rows,
    shape_row,
)
from featureprism.papers.feature_purification.purification import STAGES
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    SIZES,
    SPARSITY_EXPONENT,
    Setting,
    in_regime,
    pure_start,
    robustness,
    start,
    trained,
)
from featureprism.probes import lottery
from featureprism.probes import purification as probes
from featureprism.records import Row
from featureprism.theory import feature_purification as theory

DIMENSIONS = {"quick": (64, 100, 144), "standard": (100, 160, 250, 400), "paper": (100, 200, 400, 1000)}
# points of a step ÷ d: a step costs d³, at d = 1000 as many seconds as at all smaller sizes together
BATCHES = {"quick": 5, "standard": 5, "paper": 2}
SHAPE = ("alpha", "beta", "kappa_large", "purity", "linear_share")


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """Every quantity of the theorems at one size, in one row."""
    on = bench(s, seed)
    nets = {stage: trained(s, seed, stage) for stage in STAGES}
    context.progress(0.8)
    ceiling = robustness(pure_start(s, seed), on.test, on.problem, s, seed).row
    row = {**movement(nets, start(s, seed).W.detach(), on), **_tickets(s, seed, on)}
    for stage in ("clean", "adversarial"):
        row |= {f"{key}_{stage}": value for key, value in _stage(nets[stage], ceiling, on, s, seed).items()}
    row |= {"kind": "size", "ceiling": ceiling["worst"], "share_random": row["kappa_large_clean"] / s.dim}
    row["share_pure"] = _from_pure(s, seed, on)
    row["gain"] = row["worst_adversarial"] - row["worst_clean"]
    return [row, *premise_rows(s, on.problem, on.many)]


def _from_pure(s: Setting, seed: int, on: Bench) -> float:
    """β/(α k) after clean training from neurons that are pure features."""
    net = trained(s, seed, "pure clean")
    return probes.large_neurons(net.W.detach(), on.problem).ratio / s.sparsity


def _stage(net: SymmetricNet, ceiling: Row, on: Bench, s: Setting, seed: int) -> Row:
    """Shape, accuracies relative to the ceiling, and the density of perturbations of one network."""
    tested, shape = robustness(net, on.test, on.problem, s, seed), shape_row(net, on.many.x, on.problem)
    spread = probes.participation(tested.delta, on.problem.M)
    return {
        **{key: shape[key] for key in SHAPE},
        "worst": number(tested.row["worst"]) / number(ceiling["worst"]),
        "accuracy": number(tested.row["clean"]) / number(ceiling["clean"]),
        "density": float(spread[spread.isfinite()].median()) / s.dim,
    }


def _tickets(s: Setting, seed: int, on: Bench) -> Row:
    """Sure and potential winners of a feature at the start, beside their expectation. Lemma B.2."""
    c1, c2 = theory.ticket_constants(s.c0)
    limits = lottery.Thresholds(c1, c2, math.sqrt(c1 * math.log(s.dim)) * s.start, s.dim)
    first = lottery.tickets(start(s, seed).W.detach(), on.problem, limits)
    units = [math.sqrt((c1 + sign * c2) * math.log(s.dim)) for sign in (1, -1)]
    expected = theory.expected_tickets(s.width, s.dim, *units)
    return {
        "sure": float(first.sure.sum()) / s.dim,
        "potential": float(first.potential.sum()) / s.dim,
        "expected_sure": expected.sure,
    }


def exponent(key: str) -> Callable[[Rows], Values]:
    """The value of a claim: the slope of ln of a quantity against ln d."""
    return lambda rows: rows.of("size").slope("dim", key)


def _sizes_note(key: str) -> Callable[[Rows], str]:
    """The means by dimension, and the interval of the exponent over seeds."""

    def note(rows: Rows) -> str:
        parts = rows.of("size").groups("dim")
        means = ", ".join(f"{part.column(key).mean():.3g} at d = {dim}" for dim, part in parts.items())
        low, high = mean_interval(exponent(key)(rows))
        return f"{means}; exponent {low:.2f} to {high:.2f}" if math.isfinite(low) else means

    return note


def _law(
    name: str,
    source: str,
    statement: str,
    key: str,
    bound: Bound,
    regime: tuple[str, ...],
    speaker: str = "paper",
) -> Claim:
    """An exponent in d."""
    statement = f"{statement}: exponent in d"
    return Claim(
        name, source, statement, exponent(key), bound, speaker, note=_sizes_note(key), premises=under(*regime)
    )


CLAIMS = (
    _law(
        "mixture",
        "Theorem 5.2, (5.1)",
        "mixtures are of order k/d beside their feature: β/(α k) of large neurons after clean training from a random start",
        "share_random",
        between(-1.2, -0.8),
        LEARNED,
    ),
    _law(
        "mixture-pure",
        "Section 6.2",
        "the same from neurons that start as pure features, one for each",
        "share_pure",
        between(-1.2, -0.8),
        LEARNED,
    ),
    _law(
        "pure-mass",
        "Theorem 5.1(a)",
        "Q1 = Σ_ij⟨w_i, w_j⟩²/(Σ‖w_i‖²)² = o(1)",
        "together",
        below(0.0),
        LEARNED,
    ),
    _law(
        "far-from-start",
        "Theorem 5.1(a)",
        "Q0 = Σ⟨w_i, w_i⁰⟩²/Σ‖w_i‖²‖w_i⁰‖² = o(1)",
        "kept_from_start",
        below(0.0),
        LEARNED,
    ),
    _law(
        "purity",
        "(5.1)",
        "purity after clean training comes nearer to 1",
        "purity_clean",
        above(0.0),
        LEARNED,
    ),
    _law("drift", "Theorem 5.3(c)", "drift of adversarial training = o(1)", "drift", below(0.0), PURIFIED),
    Claim(
        "control-drift",
        "Theorem 5.1",
        "drift of as many more clean steps, the largest of all sizes",
        lambda rows: rows.of("size").largest("drift_control"),
        at_most(0.15),
        "ours",
        note=_sizes_note("drift_control"),
        premises=under(*LEARNED),
    ),
    _law(
        "same-feature",
        "Section 1",
        "cosine θ(w, w'), weighted by norm, comes nearer to 1",
        "clean_to_adversarial_weighted",
        above(0.0),
        PURIFIED,
    ),
    _law(
        "clean-robust",
        "Theorem 5.1(c)",
        "worst accuracy ÷ that of the pure network after clean training = o(1)",
        "worst_clean",
        below(0.0),
        BROKEN,
    ),
    _law(
        "robust",
        "Theorem 5.3(b)",
        "worst accuracy ÷ that of the pure network after adversarial training does not fall",
        "worst_adversarial",
        above(-0.1),
        PURIFIED,
    ),
    _law(
        "density",
        "Section 5.1, Figure 7",
        "perturbations after adversarial training get sparser: participation ÷ d",
        "density_adversarial",
        below(0.0),
        PURIFIED,
    ),
    Claim(
        "sure",
        "Lemma B.2",
        "sure winners of a feature at the start, at the largest d",
        lambda rows: rows.of("size").per_seed(lambda own: own.column("sure")[own.column("dim").argmax()]),
        above(1.0),
        note=_sizes_note("expected_sure"),
        premises=under("theorem-5-1.width"),
    ),
)


def _settings(scale: str) -> list[Setting]:
    """k = 5 (d/100)^0.36, not rounded: whole numbers would run as √d between 64 and 144."""
    tested, base = SIZES[scale], SIZES["quick"]
    same = {"test_points": tested.test_points, "attack_steps": tested.attack_steps}
    same |= {"adversarial_steps": tested.adversarial_steps, "steps": tested.steps}
    ks = {dim: base.sparsity * (dim / base.dim) ** SPARSITY_EXPONENT for dim in DIMENSIONS[scale]}
    return [in_regime(dim, sparsity=k, batch=BATCHES[scale] * dim, **same) for dim, k in ks.items()]


SCALING = Experiment(
    id="feature-purification/scaling",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.2, 5.3, Lemma B.2",
    title="Scaling laws along k = d^0.36: what falls with the dimension, and what does not",
    scales={scale: _settings(scale) for scale in SIZES},
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    about=(
        "The main battery at growing d with k = 5 (d/100)^0.36, m = 3d, and every rate as the theorems have it: λ, the bias growth"
        " and σ_0 ∝ 1/d, caps of the bias and the radius ∝ 1/√k, times ∝ d. Exponents are slopes of logarithms, with intervals over"
        " seeds."
    ),
)
