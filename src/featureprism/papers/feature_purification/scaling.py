"""Scaling laws along k = d^0.36: how mixtures, purity, movement and robustness change with the dimension."""

import math
from dataclasses import dataclass, replace

from featureprism.context import Context
from featureprism.data import SparseSample
from featureprism.geometry import LpBall
from featureprism.lab import Experiment
from featureprism.lab.rows import number
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    Bench,
    bench,
    movement,
    premise_rows,
    shape_row,
    under_universal,
)
from featureprism.papers.feature_purification.purification import STAGES
from featureprism.papers.feature_purification.scaling_claims import CLAIMS
from featureprism.papers.feature_purification.setting import (
    SIZES,
    SPARSITY_EXPONENT,
    Setting,
    accuracy,
    clean_run,
    extended,
    fast_gradient,
    in_regime,
    later_phase,
    pure_start,
    robustness,
    start,
    train,
    trained,
)
from featureprism.probes import growth, lottery
from featureprism.probes import purification as probes
from featureprism.records import Row
from featureprism.theory import feature_purification as theory

DIMENSIONS = {
    "quick": {"random": (64, 100, 144), "pure": (64, 100, 144)},
    "standard": {"random": (64, 100, 144, 200), "pure": (64, 100, 144, 200)},
    "paper": {"random": (100, 200, 400), "pure": (100, 400, 1600)},
}
BATCHES = {"quick": 3, "standard": 3, "paper": 2}  # points of a step ÷ d; one number for all sizes of a path
WIDTH_EXPONENT = 1.15  # m = d^(1 + c0)
BIAS_GROWTH = 0.03  # c_b, "small": a tenth of the rate of a winner, beside 0.15 of the main battery
# λT = 4.4 and 1; every row has the mixtures after half of them too
STEPS = {"random": 2100, "pure": 500}
ADVERSARIAL_TIME = 24  # T_g in units of k²: as many steps as the main battery has at d = 100
SHAPE = ("alpha", "beta", "kappa_large", "purity", "linear_share")


@dataclass(frozen=True, kw_only=True)
class Size(Setting):
    """One dimension. From a random start neurons have to win their features; on the path "pure" each has won one."""

    path: str = "random"

    @property
    def clean_time(self) -> float:
        """Sum of the step sizes of Algorithm 1; neurons that have won begin with the last bias."""
        return self.steps * self.step_size if self.path == "pure" else super().clean_time


def measure(s: Size, seed: int, context: Context) -> list[Row]:
    """Every quantity of the theorems at one size, in one row."""
    on = bench(s, seed)
    first, halfway, nets = _nets(s, seed)
    context.progress(0.8)
    ceiling = robustness(pure_start(s, seed), on.test, on.problem, s, seed).row
    row = {**movement(nets, first.W.detach(), on), **_tickets(s, seed, on)}
    for stage in ("clean", "adversarial"):
        row |= {f"{key}_{stage}": value for key, value in _stage(nets[stage], ceiling, on, s, seed).items()}
    row |= {"kind": "size", "ceiling": ceiling["worst"], "share": row["kappa_large_clean"] / s.dim}
    row["gain"] = row["worst_adversarial"] - row["worst_clean"]
    row["share_halfway"] = probes.large_neurons(halfway.W.detach(), on.problem).ratio / s.sparsity
    return [row, *premise_rows(s, on.problem, on.many), theory.ticket_premise(s).as_row()]


def _nets(s: Size, seed: int) -> tuple[SymmetricNet, SymmetricNet, dict[str, SymmetricNet]]:
    """Where a path starts, where it is after half of clean training, and its networks after each stage."""
    if s.path == "random":
        run = clean_run(s, seed)
        halfway = run.snapshots[list(run.times).index(s.steps // 2)]
        return start(s, seed), halfway, {stage: trained(s, seed, stage) for stage in STAGES}
    first, clean = pure_start(s, seed), replace(later_phase(s), steps=s.steps)
    run = train(s, first, [clean], seed, "pure clean", watch=0, record=[s.steps // 2])
    before = run.last
    later = {"control": later_phase(s), "adversarial": later_phase(s, fast_gradient(s))}
    nets = {
        stage: train(s, before, [phase], seed, f"pure {stage}", watch=0).last  # nobody rests: all have won
        for stage, phase in later.items()
    }
    return first, run.snapshots[0], {"clean": before, **nets}


def _stage(net: SymmetricNet, ceiling: Row, on: Bench, s: Setting, seed: int) -> Row:
    """Shape, errors, accuracies relative to the ceiling, growth of winners and density of perturbations of one network."""
    tested, shape = robustness(net, on.test, on.problem, s, seed), shape_row(net, on.many.x, on.problem)
    spread = probes.participation(tested.delta, on.problem.M)
    return {
        **{key: shape[key] for key in SHAPE},
        "won": number(shape["features_covered"]) / s.dim,
        "error": _share(1 - accuracy(net, on.many.x, on.many.y), on.many),
        "robust_error": _share(1 - number(tested.row["worst"]), on.test),
        "universal_far": _share(under_universal(net, on, LpBall(2, theory.breaking_radius(s))), on.many),
        "signal": _signal(net, on),
        "worst": number(tested.row["worst"]) / number(ceiling["worst"]),
        "accuracy": number(tested.row["clean"]) / number(ceiling["clean"]),
        "density": float(spread[spread.isfinite()].median()) / s.dim,
    }


def _tickets(s: Setting, seed: int, on: Bench) -> Row:
    """Sure and potential winners of a feature at the start. Lemma B.2."""
    c1, c2 = theory.ticket_constants(s.c0)
    limits = lottery.Thresholds(c1, c2, math.sqrt(c1 * math.log(s.dim)) * s.start, s.dim)
    first = lottery.tickets(start(s, seed).W.detach(), on.problem, limits)
    return {
        "sure": float(first.sure.sum()) / s.dim,
        "potential": float(first.potential.sum()) / s.dim,
    }


def _share(value: float, sample: SparseSample) -> float:
    """A share of points, half a point where there is none: exponents need a logarithm."""
    return max(value, 0.5 / len(sample.y))


def _signal(net: SymmetricNet, on: Bench) -> float:
    """Mean d·E[y 1{open} z_j] w*_j over winners, neurons and features with ⟨w_i, M_j⟩ w*_j ≥ b. Lemma C.8."""
    w, M = on.problem.w, on.problem.M
    winners = net.W.detach() @ M * w >= net.bias
    rates = growth.growth(net, on.many) * w
    return float(rates[winners].mean()) * M.shape[1]


def _settings(scale: str) -> list[Size]:
    """k = 5 (d/100)^0.36, not rounded: whole numbers would run as √d between 64 and 144."""
    base = SIZES["quick"]
    tests = {"test_points": base.test_points, "attack_steps": 12 if scale == "quick" else 20}
    settings = []
    for path, dims in DIMENSIONS[scale].items():
        for dim in dims:
            k = base.sparsity * (dim / base.dim) ** SPARSITY_EXPONENT
            made = in_regime(dim, sparsity=k, batch=BATCHES[scale] * dim, steps=STEPS[path], **tests)
            changes = {
                "width": round(dim**WIDTH_EXPONENT),
                "bias_growth": BIAS_GROWTH,
                "step_per_bias": 0.5,
                "adversarial_steps": round(ADVERSARIAL_TIME * k**2 / made.step_size),
                "path": path,
            }
            settings.append(extended(made, Size, **changes))
    return settings


SCALING = Experiment(
    id="feature-purification/scaling",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.2, 5.3, Lemmas B.2, C.8",
    title="Scaling laws along k = d^0.36: what falls with the dimension, and what does not",
    scales={scale: _settings(scale) for scale in SIZES},
    measure=measure,
    claims=CLAIMS,
    about=(
        "The main battery at growing d with every rate as the theorems have it: k = 5 (d/100)^0.36, m = d^1.15, λ, the growth of the"
        " bias and σ_0 ∝ 1/d, caps of the bias and the radius ∝ 1/√k, T_f ∝ d, T_g ∝ k², and c_b a tenth of the rate of a winner. Once"
        " from a random start, where neurons have to win their features, once from neurons that have won one each. Exponents are"
        " slopes of logarithms, with intervals over seeds."
    ),
)
