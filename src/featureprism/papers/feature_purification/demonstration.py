"""A network one can train in a minute: fragile after clean training, robust and pure after adversarial training.

It starts from neurons that have won their features, as Section 6.2 allows, in batches large enough that their noise does not hide the
mixtures. Beside it stand the population dynamics of the same setting and a proof of its robustness.

Two numbers describe the whole network as long as differences between its neurons shrink. With the mixture β/α = k/d a neuron receives
βS of size √2 αk/d from the other features of a point, beside the threshold b. Where βS reaches b, a neuron that holds more of the
mixture opens first and gains more: differences grow at a rate that the second variation of the loss gives
(`population_dynamics.spread_rates`). At k = d^0.3999 it is positive up to b√k = 0.3 at d = 100 and up to 0.25 at d = 400, negative from
d = 10⁴ on along the path of `population`. The comparison is therefore made at b√k = 0.4; the demonstration, whose large mixtures open
all neurons, stands beside its two numbers without a claim.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.networks.symmetric import pure_net, reachable, unsmoothed
from featureprism.papers.feature_purification import population_dynamics as population
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.measures import Bench, bench, ceiling_row, shape_row
from featureprism.papers.feature_purification.setting import (
    Battery,
    attacked,
    certified_share,
    fast_gradient,
    in_double,
    later_phase,
    robustness,
    train,
)
from featureprism.probes import purification as probes
from featureprism.seeds import generator_for

START = 0.75  # coefficient of the feature that a neuron has won


@dataclass(frozen=True, kw_only=True)
class DemonstrationSetting(Battery):
    """Inside Section 2 and Theorems 5.1, C.2 and E.1 (corrected), outside F.1: k^2.5 exceeds d at every size that can be trained."""

    proven_points: int = 200  # 0 where a proof would take longer than the training
    max_cells: int = 8
    population_points: int = 8000
    is_compared: bool = (
        False  # with the population dynamics: neurons are closed where their feature is absent
    )


def measure(s: DemonstrationSetting, seed: int, context: Context) -> list[Row]:
    """The trained network and the population dynamics after both trainings."""
    on = bench(s, seed)
    nets = _trained(s, on, seed, context)
    rows: list[Row] = []
    for stage, net in nets.items():
        tested = robustness(net, on.test, on.problem, s, seed).row
        rows.append({"kind": "network", "stage": stage, **tested, **shape_row(net, on.many.x, on.problem)})
    drift = probes.drift(nets["adversarial"].W.detach(), nets["clean"].W.detach())
    rows.append({"kind": "movement", "drift": drift})
    rows += [ceiling_row(on, s, seed), *_population(s, seed)]
    if s.proven_points:
        rows.append(_proven(s, on, nets["adversarial"], seed))
    premises = [
        *theory.hidden_vector_premises(on.problem.hidden, on.many.z, on.problem.w),
        *theory.sparsity_premises(replace(s, width=s.dim + 1)),
        *theory.adversarial_premises(s, s.adversarial_time),
    ]
    return rows + [premise.as_row() for premise in premises]


def _trained(s: DemonstrationSetting, on: Bench, seed: int, context: Context) -> dict[str, SymmetricNet]:
    """Clean training from won features, then FGM; the bias stays where it is."""
    bias = s.final_bias
    first = pure_net(on.problem.M, on.problem.w, bias, s.smoothing * bias, scale=START)
    clean = replace(later_phase(s), steps=s.steps)
    before = train(s, first, [clean], seed, "demonstration clean", watch=0).last
    context.progress(0.6)
    adversarial = later_phase(s, fast_gradient(s))
    after = train(s, before, [adversarial], seed, "demonstration adversarial", watch=0).last
    return {"clean": before, "adversarial": after}


def _proven(s: DemonstrationSetting, on: Bench, net: SymmetricNet, seed: int) -> Row:
    """Attacked and proven accuracy at τ of the network without smoothing, on a few points."""
    x, y = on.test.x[: s.proven_points].double(), on.test.y[: s.proven_points].double()
    ball, plain = LpBall(2, s.radius), in_double(net, 0.0)
    found = attacked(plain, x, y, on.problem.dense_direction, ball, s.attack_steps, seed)
    within = unsmoothed(reachable(plain, x, ball))
    certified = certified_share(within, x, y, s.radius, s.max_cells)
    return {"kind": "proof", "attacked": found.row["worst"], "certified": certified}


def _population(s: DemonstrationSetting, seed: int) -> list[Row]:
    """The same trainings in the two numbers of the population dynamics."""
    bias, dim = s.final_bias, float(s.dim)
    model = population.PopulationModel(
        dim, s.sparsity, bias, s.smoothing * bias, s.penalty / dim, s.width / dim
    )
    entropy = torch.randint(2**62, (), generator=generator_for("population", seed))
    same: dict[str, Any] = {
        "generator": np.random.default_rng(int(entropy)),
        "num_points": s.population_points,
    }
    clean = population.descend(model, population.Neuron(START, 0.0), [s.step_size] * s.steps, **same)[-1]
    times = [s.step_size] * s.adversarial_steps
    after = population.descend(model, clean, times, radius=s.radius, **same)[-1]
    test = population.draw_counts(model, s.population_points, same["generator"])
    return [
        {
            "kind": "population",
            "stage": stage,
            "purity": neuron.purity(dim),
            "mixture": neuron.beta / neuron.alpha * dim / s.sparsity,
            **population.accuracies(model, neuron, test, s.radius)._asdict(),
        }
        for stage, neuron in (("clean", clean), ("adversarial", after))
    ]


def _of(kind: str, stage: str, key: str, **fields: Any):
    def value(rows: Rows) -> Values:
        return rows.of(kind, stage=stage, **fields).per_seed(key)

    return value


def _shown(rows: Rows) -> Rows:
    """The demonstration at its largest d."""
    part = rows.having(is_compared=False)
    return part.having(dim=max(part.of("network").distinct("dim"), default=0))


def _at_largest(kind: str, stage: str, key: str):
    return lambda rows: _of(kind, stage, key)(_shown(rows))


def _farthest(key: str):
    """The largest difference between network and population dynamics over sizes and stages."""

    def value(rows: Rows) -> Values:
        part = rows.having(is_compared=True)
        gaps = [
            np.abs(_of("network", stage, key, dim=dim)(part) - _of("population", stage, key, dim=dim)(part))
            for dim in part.of("network").distinct("dim")
            for stage in ("clean", "adversarial")
        ]
        return np.max(gaps, axis=0) if gaps else np.full(len(rows.seeds), math.nan)

    return value


def _pairs_note(key: str):
    def note(rows: Rows) -> str:
        words = []
        for (dim, stage), part in rows.of("network", is_compared=True).groups("dim", "stage").items():
            predicted = rows.of("population", is_compared=True, dim=dim, stage=stage).column(key).mean()
            words.append(f"d = {dim}, {stage}: {part.column(key).mean():.2f} beside {predicted:.2f}")
        return "; ".join(words)

    return note


def _proven_gain(rows: Rows) -> Values:
    part = rows.having(is_compared=False, dim=min(rows.of("proof").distinct("dim"), default=0))
    return part.of("proof").per_seed("certified") - _of("network", "clean", "worst")(part)


def _gain_note(rows: Rows) -> str:
    part = _shown(rows)
    clean, after = (
        part.of("network", stage=stage).column("worst").mean() for stage in ("clean", "adversarial")
    )
    best, drift = part.of("ceiling").column("worst").mean(), part.of("movement").column("drift").mean()
    return f"{clean:.2f} before, {after:.2f} after, {best:.2f} for the best pure network; drift {drift:.2f}"


PREMISES = ("assumption-2-1", "section-2", "theorem-c-2", "theorem-e-1", "theorem-5-3", "theorem-f-1")
CLAIMS = (
    Claim(
        "accuracy",
        source="Theorems 5.1(b) and 5.3(b)",
        says="A network that holds every feature classifies nearly every point correctly, after clean and after adversarial training.",
        quantity="share of test points classified correctly, the lower of both trainings, at the largest d",
        bound=at_least(0.97),
        because="without input noise and ties nothing but the network limits the accuracy",
        value=lambda rows: np.minimum(
            _at_largest("network", "clean", "clean")(rows),
            _at_largest("network", "adversarial", "clean")(rows),
        ),
        premises=requires(*PREMISES, "theorem-5-1"),
    ),
    Claim(
        "gain",
        source="Corollary F.3",
        says="Adversarial training makes a fragile network robust.",
        quantity="robust accuracy at τ, after adversarial minus after clean training, at the largest d",
        bound=at_least(0.5),
        because="half of the points is an effect that one sees without statistics",
        value=lambda rows: (
            _at_largest("network", "adversarial", "worst")(rows)
            - _at_largest("network", "clean", "worst")(rows)
        ),
        premises=requires(*PREMISES),
        note=_gain_note,
    ),
    Claim(
        "purity",
        source="Section 3",
        says="Adversarial training turns neurons that clean training had drowned in a dense mixture back into features.",
        quantity="largest |cosine| of a neuron with one feature after adversarial training, at the largest d",
        bound=at_least(0.9),
        because="1 - o(1) is read as nine tenths in every claim of this paper",
        value=_at_largest("network", "adversarial", "purity"),
        premises=requires(*PREMISES),
        note=lambda rows: (
            f"{_at_largest('network', 'clean', 'purity')(rows).mean():.2f} after clean training"
        ),
    ),
    Claim(
        "proven",
        source="Theorem 5.3(b)",
        says="More points are proven robust after adversarial training than an attack leaves standing after clean training.",
        quantity="accuracy proven after adversarial training minus accuracy attacked after clean training, at the smallest d",
        bound=at_least(0.2),
        because="a fifth of the points, between a proven and an attacked number",
        value=_proven_gain,
        premises=requires(*PREMISES),
        note=lambda rows: (
            f"proven {rows.of('proof').column('certified').mean():.3f}, attacked {rows.of('proof').column('attacked').mean():.3f}"
        ),
    ),
    Claim(
        "population-robust",
        source="Theorems 5.1 and 5.3",
        says="Two numbers, the weight of a neuron along its feature and along all others, predict the robust accuracy of the"
        " whole network, before and after adversarial training.",
        quantity="largest |robust accuracy of the network - of the population dynamics|, after clean and adversarial training",
        bound=at_most(0.1),
        because="what the noise of the batches may add, which the two numbers leave out",
        value=_farthest("worst"),
        origin="featureprism",
        note=_pairs_note("worst"),
    ),
    Claim(
        "population-purity",
        source="Theorems 5.1 and 5.3",
        says="Two numbers, the weight of a neuron along its feature and along all others, predict how pure the neurons of the"
        " whole network are, before and after adversarial training.",
        quantity="largest |purity of the network - of the population dynamics|, after clean and adversarial training",
        bound=at_most(0.1),
        because="what the noise of the batches may add, which the two numbers leave out",
        value=_farthest("purity"),
        origin="featureprism",
        note=_pairs_note("purity"),
    ),
)


def draw(rows: Rows) -> Any:
    """Robust accuracy and purity of the network beside the population dynamics; on top the sizes that are compared."""
    from featureprism.lab.style import panels
    from featureprism.papers.feature_purification.drawing import STAGES, bars, mean

    figure, axes = panels(2, width=5.2, height=4.2)
    cases = [
        (dim, compared, stage)
        for compared in (True, False)
        for dim in sorted(rows.of("network", is_compared=compared).distinct("dim"))
        for stage in ("clean", "adversarial")
    ]
    names = [
        f"d = {dim}, b√k = {0.4 if compared else 0.15}, {STAGES[stage]}" for dim, compared, stage in cases
    ]
    for panel, key, text in zip(axes, ("worst", "purity"), ("robust accuracy at τ", "purity"), strict=True):
        groups = {
            label: [mean(rows.of(kind, dim=d, is_compared=c, stage=stage), key) for d, c, stage in cases]
            for label, kind in (("network", "network"), ("two numbers", "population"))
        }
        bars(panel, names if key == "worst" else [""] * len(names), groups, text)
    axes[0].legend().remove()  # one legend serves both panels
    return figure


def won_features(dim: int, sparsity: float, scaled_radius: float, **more: Any) -> DemonstrationSetting:
    """Sizes at which clean training drowns won features in a mixture, and adversarial training brings them back."""
    values: dict[str, Any] = {
        "dim": dim,
        "sparsity": sparsity,
        "width": dim,
        "noise": 0.0,
        "penalty": 0.07,
        "bias_cap": 0.15,
        "radius": round(scaled_radius / math.sqrt(sparsity), 4),
        "step_size": 0.03 * dim,
        "steps": 400,
        "adversarial_steps": 160,
        "batch": 2500,
        "test_points": 200,
    }
    return DemonstrationSetting(**(values | more))


SHORT_STEPS: dict[str, Any] = {"step_size": 1.0, "steps": 1000, "adversarial_steps": 200}
SMALLER = won_features(100, 9, 0.3, batch=5000, **SHORT_STEPS)
IN_REGIME: dict[str, Any] = {"bias_cap": 0.4, "is_compared": True, "proven_points": 0}
COMPARED = [
    won_features(100, 100**0.3999, 0.3, **SHORT_STEPS, **IN_REGIME),
    won_features(400, 400**0.3999, 0.3, **IN_REGIME),
]
DEMONSTRATION = Experiment(
    id="feature-purification/demonstration",
    source="Allen-Zhu & Li 2020, Theorems 5.1, 5.3, Section 6.2",
    title="A network one can train: what clean and adversarial training make of it",
    scales={
        "quick": [SMALLER, won_features(400, 16, 0.4, proven_points=0), *COMPARED],
        "standard": [
            SMALLER,
            won_features(400, 16, 0.4, batch=5000, test_points=400, proven_points=0),
            *(replace(s, test_points=400) for s in COMPARED),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "σ_x = 0, ties dropped, m = d, b√k = 0.15, from 0.75 w*_j M_j. The price of a large effect at a trainable size"
        " is a large mixture:"
        " k²/d is 0.6, and the drift is not small here. Small drift together with everything else needs d ≥ 10⁷, where the population"
        " dynamics has it. Two numbers predict a network at b√k = 0.4 and k = d^0.3999, where differences between neurons shrink; at"
        " b√k = 0.15 they grow, by a factor of e¹³ at d = 400."
    ),
)
