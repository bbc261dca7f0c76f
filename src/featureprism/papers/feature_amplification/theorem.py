"""Theorem 3.1 and the lemmas behind it, along the few steps of the theorem."""

from functools import partial
from math import inf
from typing import Any

import torch

from featureprism.context import Context
from featureprism.experiment import Bound, Claim, Experiment, Rows, Under, Values, at_least, at_most, under
from featureprism.papers.feature_amplification.setting import (
    GOOD_RUN,
    C,
    Problem,
    Setting,
    clean_error,
    good_run,
    margins,
    problem,
    start,
    test_error,
    trained,
)
from featureprism.probes.amplification import (
    aligned,
    correlations,
    count_by_noise,
    edges,
    first_step,
    largest_crossing,
    leaning_neurons,
)
from featureprism.records import Row, Trajectory
from featureprism.theory import feature_amplification as theory

C0 = theory.USABLE_C0


def measure(s: Setting, seed: int, context: Context) -> list[Row]:
    """The conclusions of Theorem 3.1 and of Lemmas 4.1-4.11 along the T steps of the theorem."""
    data = problem(s, seed)
    run = trained(s, data.train, seed, tuple(range(s.steps)))
    W0, a = start(s, seed).W.detach(), run.last.a.detach()
    leaning = leaning_neurons(W0, a, data.train.data.centres, C0)
    steps = _along(s, run, data, leaning)
    later = [row for row in steps if row["time"] >= 1]
    summary = {
        "kind": "summary",
        **_conclusions(s, run, data),
        **_lemmas(s, W0, a, data, leaning),
        "norm": max(row["norm"] / row["norm_bound"] for row in later),
        "crossing": max(row["crossing"] for row in later),
    }
    context.progress(1.0)
    return [*steps, summary, *good_run(s, W0, data.train)]


def _along(s: Setting, run: Trajectory, data: Problem, leaning: torch.Tensor) -> list[Row]:
    """Correlation, alignment, crossing and norm at every step."""
    train = data.train.data
    rows: list[Row] = []
    for time, net in zip(run.times, run.snapshots, strict=True):
        W = net.W.detach()
        rows.append(
            {
                "kind": "step",
                "time": time,
                "correlation": float(correlations(W, train.centres, leaning).median()),
                "aligned": float(aligned(W, train, leaning).double().mean()),
                "crossing": largest_crossing(W, train.centres, leaning) / theory.crossing_bound(s),
                "norm": float(torch.linalg.matrix_norm(W)),
                "norm_bound": theory.norm_bound(s, int(time)),
            }
        )
    return rows


def _conclusions(s: Setting, run: Trajectory, data: Problem) -> Row:
    """What the theorem says of the network after the last step."""
    flipped, margin = data.train.flipped, margins(run.last, data.train)
    wrong, right = count_by_noise(margin, flipped)
    low, high = theory.feasible_constants(s)
    return {
        "clean_wrong": wrong,
        "noisy_right": right,
        "excess_error": test_error(run.last, data.test) - float(data.test.flipped.double().mean()),
        "clean_error": clean_error(run.last, data.test),
        "least_margin": float(margin[~flipped].min()) / theory.margin_bound(C0),
        "bound": theory.generalisation_bound(s, float(flipped.double().mean())),
        "least_constant": low,
        "largest_constant": high,
    }


def _lemmas(s: Setting, W0: torch.Tensor, a: torch.Tensor, data: Problem, leaning: torch.Tensor) -> Row:
    """What the lemmas say of the start and of the first step, measured ÷ bound."""
    expansion = first_step(W0, a, data.train.data, s.step_size)
    points, losses = (
        float(torch.linalg.vector_norm(rest, dim=1).max()) / bound
        for rest, bound in (
            (expansion.point_noise, theory.point_noise_bound(s)),
            (expansion.loss_noise, theory.loss_noise_bound(s)),
        )
    )
    share = float(leaning.any(dim=0).double().mean())
    kept = edges(W0, data.train.data, ~data.train.flipped, leaning)
    return {
        "leaning_share": share,
        "leaning": share / theory.leaning_share(C0),
        "least_edge": float(kept.min()) / theory.edge_bound(s.points, C0),
        "point_noise": points,
        "loss_noise": losses,
        "remainder": max(points, losses),
    }


def _vacuous(rows: Rows) -> str:
    bound = rows.of("summary").column("bound").min(initial=inf)
    return f"the explicit bound of the proof is {bound:.3g}: vacuous"


def _claim(
    regime: Under, name: str, source: str, statement: str, field: str, bound: Bound, **other: Any
) -> Claim:
    """The largest over d against an upper bound, the least against a lower bound; one seed refutes."""
    worst = Rows.largest if bound.relation == "<=" else Rows.least

    def value(rows: Rows) -> Values:
        return worst(rows.of("summary"), field)

    return Claim(name, source, statement, value, bound, premises=regime, over="every seed", **other)


_theorem, _lemma = partial(_claim, under("assumption")), partial(_claim, under(*GOOD_RUN))
_RIGHT = "every clean training point is right: clean training points that are wrong, over all d"
_WRONG = "every flipped training point is wrong: flipped training points that are fitted, over all d"
_FRESH = "every clean test point is right, every noisy one wrong: test error under clean labels, over all d"
_LEANING = f"share of neurons that lean to a cluster of their sign ÷ (1 - 1/C₀)², C₀ = {C0:g}"
_CROSSING = "largest |⟨w_j, μ2⟩| of neurons that lean to ±μ1 ÷ 3α/√m, over the steps"
_MARGIN = f"least margin of clean training points ÷ 1/C₃, C₀ = {C0:g}"
_REST = "the first step is centres + ζ1 + ζ2: ‖ζ1‖ and ‖ζ2‖ ÷ their bounds, the larger"
CLAIMS = (
    _theorem("clean-wrong", "Theorem 3.1", _RIGHT, "clean_wrong", at_most(0.0), reported=0.0),
    _theorem("noisy-right", "Theorem 3.1", _WRONG, "noisy_right", at_most(0.0), reported=0.0),
    _theorem("clean-error", "Section 1, Theorem 3.1", _FRESH, "clean_error", at_most(0.005), note=_vacuous),
    _lemma("leaning", "Lemma 4.2", _LEANING, "leaning", at_least(1.0)),
    _lemma("edges", "Lemma 4.4", "least edge over leaning neurons ÷ n/C₂", "least_edge", at_least(1.0)),
    _lemma("crossing", "Condition 4.8, Lemma 4.11", _CROSSING, "crossing", at_most(1.0)),
    _lemma("norm", "Lemma A.1", "‖W^t‖_F ÷ 2αt, largest over the steps", "norm", at_most(1.0)),
    _lemma("margin", "Lemma 4.9", _MARGIN, "least_margin", at_least(1.0)),
    _lemma("remainders", "(28)", _REST, "remainder", at_most(1.0)),
)


def _settings(dims: tuple[int, ...], points: int, width: int) -> list[Setting]:
    return [Setting.on_edge(C, dim=dim, points=points, width=width) for dim in dims]


THEOREM_3_1 = Experiment(
    id="feature-amplification/theorem-3-1",
    source="Frei et al. 2023, Theorem 3.1",
    title="After 1 + 1/(4α) steps: clean points right, flipped points wrong, in any dimension",
    scales={
        "quick": _settings((50, 200, 500), 1000, 400),
        "standard": _settings((50, 200, 500, 2000), 4000, 1000),
        "paper": _settings((50, 200, 500, 2000, 5000), 10000, 2000),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Settings on the edge of the assumptions for C = 16 (the proof's own constant would be 10¹⁰). Conclusions of the theorem and of"
        " the lemmas behind it, with the printed constants where they say something; (A1) fails at these d, and the premises say so."
    ),
)
