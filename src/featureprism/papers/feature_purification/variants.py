"""Section 2: purification in the variants that the paper allows."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from featureprism.data import SparseCoding, SparseSample, label_weights, sample_sparse
from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.networks.symmetric import pure_net
from featureprism.papers.feature_purification.measures import (
    LEARNED,
    PROBE_POINTS,
    PURE,
    PURIFIED,
    Bench,
    premise_rows,
)
from featureprism.papers.feature_purification.setting import (
    Battery,
    battery,
    clean_phase,
    extended,
    fast_gradient,
    hidden_vector,
    later_phase,
    robustness,
    start,
)
from featureprism.probes import purification as probes
from featureprism.seeds import generator_for
from featureprism.training import Phase, train_symmetric
from featureprism.training.symmetric import fresh

SPIKE = 0.3  # in units of 1/√k, of variance σ_x²/d as footnote 8 asks
BIAS_DESCENT = 0.1  # from 0.01 to 0.3 biases end alike; as fast as the weights most neurons die


@dataclass(frozen=True, kw_only=True)
class VariantSetting(Battery):
    """One change of the battery at a time; with fewer features than dimensions the columns of M are random unit vectors."""

    variant: str = "base"
    features: int = 64
    labels: str = "signs"
    spike: float = 0.0  # in units of 1/√k
    drawn: bool = False  # ρ drawn for every point, as printed in Algorithm 1
    bias_descent: float = (
        0.0  # step of a neuron's bias ÷ that of its weights; 0: one bias, which grows by a constant
    )


def problem_of(s: VariantSetting, seed: int) -> SparseCoding:
    """The distribution of a variant."""
    M = torch.eye(s.dim)
    if s.features < s.dim:
        M = unit_rows(torch.randn(s.features, s.dim, generator=generator_for("dictionary", seed))).T
    w = label_weights(s.labels, s.features, generator=generator_for("labels", seed))
    hidden = hidden_vector(replace(s, dim=s.features))
    return SparseCoding(M, w, hidden, noise=s.noise, ties=s.ties, spike=s.spike / s.sparsity**0.5)


def _clean_phase(s: VariantSetting) -> Phase:
    """Algorithm 1; biases that are trained grow by nothing else, and nothing caps them."""
    phase = clean_phase(s)
    if not s.bias_descent:
        return phase
    return replace(phase, bias_growth=0.0, bias_cap=math.inf, bias_descent=s.bias_descent)


def measure(s: VariantSetting, seed: int, context: Context) -> list[Row]:
    """Both algorithms on a variant: accuracies, purity, biases."""
    problem = problem_of(s, seed)
    test = sample_sparse(problem, s.test_points, generator=generator_for("test", seed))
    many = sample_sparse(problem, PROBE_POINTS, generator=generator_for("many", seed))
    nets: dict[str, SymmetricNet] = {}
    net = start(s, seed)
    for stage, phase in (("clean", _clean_phase(s)), ("adversarial", later_phase(s, fast_gradient(s)))):
        rho = generator_for(f"rho {stage}", seed) if s.drawn else None
        draw_points = fresh(problem, s.batch, generator=generator_for(f"batches {stage}", seed))
        net = train_symmetric(net, draw_points, [phase], penalty=s.penalty / s.dim, noise=rho).last
        nets[stage] = net
    context.progress(0.7)
    nets["pure"] = pure_net(problem.M, problem.w, s.final_bias, s.smoothing * s.final_bias)
    rows: list[Row] = []
    for stage, net in nets.items():
        found = robustness(net, test, problem, s, seed).row
        purity = probes.weighted_purity(net.W.detach(), problem.M)
        row: Row = {"kind": "network", "stage": stage, "purity": purity}
        rows.append({**row, "clean": found["clean"], "worst": found["worst"], **_biases(net, test, problem)})
    return rows + premise_rows(s, Bench(problem, test, many))


@torch.no_grad()
def _biases(net: SymmetricNet, test: SparseSample, problem: SparseCoding) -> Row:
    """Median bias of neurons that have won a feature, in units of 1/√k; how often they are closed where the feature is absent."""
    W, root_k = net.W.detach(), problem.hidden.sparsity**0.5
    size, feature = (W @ problem.M * problem.w.sign()).max(dim=1)
    won = (size > 0) & (probes.purity(W, problem.M) > PURE) & (probes.firing(net, test.x) > 0)
    if not bool(won.any()):
        return {"won": 0}
    biases = torch.as_tensor(net.thresholds).expand(net.width)[won] * root_k
    absent = test.z[:, feature[won]] == 0
    closed = ((test.x @ W[won].T).abs() * root_k < biases) & absent
    return {
        "won": int(won.sum()),
        "bias": float(biases.median()),
        "closed": float(closed.sum() / absent.sum()),
    }


def _value(variant: str, stage: str, key: str):
    def value(rows: Rows) -> Values:
        return rows.of("network", variant=variant, stage=stage).per_seed(key)

    return value


BASE = replace(battery(64, test_points=200), width=192)
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "base": ("in the main battery at d = 64", {}),
    "three-level": ("when the hidden coordinates have three sizes", {"hidden": "three-level"}),
    "power-law": ("when the sizes of the hidden coordinates follow a power law", {"hidden": "power-law"}),
    "incoherent": ("when 48 features in 64 dimensions are incoherent and not orthogonal", {"features": 48}),
    "labels": ("when the label weights w* lie between 1/2 and 3/2", {"labels": "uniform"}),
    "spikes": ("when the noise has rare spikes of 0.3/√k", {"spike": SPIKE}),
    "drawn": ("when the smoothing noise ρ is drawn for every point", {"drawn": True}),
    "trained-bias": (
        "when every neuron trains its bias under spikes",
        {"spike": SPIKE, "bias_descent": BIAS_DESCENT},
    ),
    "noiseless": ("without input noise", {"noise": 0.0}),
}
SETTINGS = [extended(BASE, VariantSetting, variant=name, **changes) for name, (_, changes) in CHANGES.items()]


def _purifies(name: str) -> Claim:
    words = CHANGES[name][0]
    return Claim(
        f"{name}-purity",
        source="Section 2, Theorem 5.3",
        says=f"Adversarial training makes the neurons purer {words}.",
        quantity="largest |cosine| of a neuron with one feature, weighted by ‖w‖²: after minus before adversarial training",
        bound=above(0.0),
        because="purer is any gain; how much there is to gain depends on the variant",
        value=lambda rows: (
            _value(name, "adversarial", "purity")(rows) - _value(name, "clean", "purity")(rows)
        ),
        premises=requires(*PURIFIED, variant=name),
        note=lambda rows: (
            f"from {_value(name, 'clean', 'purity')(rows).mean():.2f}; robust accuracy"
            f" {_value(name, 'clean', 'worst')(rows).mean():.2f} to"
            f" {_value(name, 'adversarial', 'worst')(rows).mean():.2f}, pure network {_value(name, 'pure', 'worst')(rows).mean():.2f}"
        ),
    )


def _scheduled_gap(rows: Rows) -> Values:
    """The largest difference between trained and scheduled biases of an accuracy or a purity, over both stages."""
    gaps = [
        np.abs(_value("trained-bias", stage, key)(rows) - _value("spikes", stage, key)(rows))
        for stage in ("clean", "adversarial")
        for key in ("clean", "worst", "purity")
    ]
    return np.max(gaps, axis=0)


CLAIMS = (
    *(_purifies(name) for name in CHANGES),
    Claim(
        "noise-purifies",
        source="Section 2",
        says="Input noise makes clean training from a random start find purer features at moderate dimension.",
        quantity="purity after clean training, with σ_x = 1 minus with σ_x = 0",
        bound=at_least(0.2),
        because="a fifth is far more than the spread over seeds",
        value=lambda rows: (
            _value("base", "clean", "purity")(rows) - _value("noiseless", "clean", "purity")(rows)
        ),
        origin="featureprism",
        note=lambda rows: f"{_value('noiseless', 'clean', 'purity')(rows).mean():.2f} without noise",
    ),
    Claim(
        "bias-grows",
        source="Footnote 8",
        says="Under spikes of the noise a bias that is trained grows until it exceeds the spikes.",
        quantity="median bias of neurons that won a feature ÷ size of a spike",
        bound=at_least(1.0),
        because="a bias above the spikes cuts them off",
        value=lambda rows: _value("trained-bias", "clean", "bias")(rows) / SPIKE,
        premises=requires(*LEARNED, variant="trained-bias"),
    ),
    Claim(
        "bias-quiet",
        source="Footnote 8",
        says="Biases that are trained remove the noise as well as the scheduled bias does.",
        quantity="how often winners are closed where their feature is absent, trained ÷ scheduled bias",
        bound=at_least(0.95),
        because="as well, up to a twentieth",
        value=lambda rows: (
            _value("trained-bias", "clean", "closed")(rows) / _value("spikes", "clean", "closed")(rows)
        ),
        premises=requires(*LEARNED, variant="trained-bias"),
    ),
    Claim(
        "bias-scheduled",
        source="Footnote 8",
        says="Training the biases gives the same network as scheduling them.",
        quantity="largest difference of accuracy, robust accuracy or purity between both, over both stages",
        bound=at_most(0.15),
        because="the differences between variants that matter are larger",
        value=_scheduled_gap,
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """Purity before and after adversarial training in every variant."""
    from featureprism.lab.style import panels
    from featureprism.papers.feature_purification.drawing import STAGES, bars, mean

    names = rows.of("network").distinct("variant")
    figure, (axes,) = panels(1, width=7.0, height=4.0)
    values = {
        STAGES[stage]: [mean(rows.of("network", stage=stage, variant=name), "purity") for name in names]
        for stage in ("clean", "adversarial")
    }
    bars(axes, names, values, "purity")
    return figure


VARIANTS = Experiment(
    id="feature-purification/variants",
    source="Allen-Zhu & Li 2020, Sections 2 and 4",
    title="Purification in the variants that the paper allows",
    scales={
        "quick": SETTINGS,
        "standard": [replace(s, test_points=400, attack_steps=20) for s in SETTINGS],
        "paper": [replace(s, test_points=400, attack_steps=20, steps=2800) for s in SETTINGS],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "One change at a time of the main battery at d = 64, k = 4. What is compared is a variant with its base; how"
        " the base changes with d is"
        " the question of `scaling`, so all scales have this size. Other orthogonal dictionaries are equal in law and left out."
    ),
)
