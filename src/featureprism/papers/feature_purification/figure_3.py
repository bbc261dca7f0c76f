"""Figure 3: a threshold keeps the signal and drops the noise."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import LinearClassifier
from featureprism.networks.low_complexity import IndicatorClassifier
from featureprism.networks.symmetric import pure_net
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.measures import NEARLY_ALL, O_NEARLY
from featureprism.papers.feature_purification.setting import (
    Battery,
    accuracy,
    attacked,
    coding,
    test_set,
    unseen,
)

THRESHOLD = 0.5  # of the units in 1/√k, Section 3
NOISES = (0.0, 0.25, 0.5, 0.75, 1.0)
CURVE = torch.linspace(-1, 1, 81, dtype=torch.float64)
MODELS = ("linear", "indicator", "soft")
NOISE_POINTS = 500


def soft_threshold(u: Tensor, b: float) -> Tensor:
    """ReLU(u - b) - ReLU(-u - b)."""
    return torch.relu(u - b) - torch.relu(-u - b)


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """What the three units let through, and how the classifiers built from them withstand noise and attack."""
    problem, test = coding(s, seed), test_set(s, seed)
    threshold = THRESHOLD / math.sqrt(s.sparsity)
    units = {
        "linear": CURVE,
        "indicator": CURVE * (CURVE.abs() >= threshold),
        "soft": soft_threshold(CURVE, threshold),
    }
    rows: list[Row] = [
        {"kind": "unit", "model": name, "input": t, "output": v}
        for name, values in units.items()
        for t, v in zip(CURVE.tolist(), values.tolist(), strict=True)
    ]
    nets: dict[str, nn.Module] = {
        "linear": LinearClassifier(problem.dense_direction),
        "indicator": IndicatorClassifier(problem.M, problem.w, threshold),
        "soft": pure_net(problem.M, problem.w, threshold),
    }
    clear = unseen(s, seed, NOISE_POINTS)
    scatter = torch.randn(clear.x.shape, generator=torch.Generator().manual_seed(seed)) / math.sqrt(s.dim)
    for sigma in NOISES:
        for name, net in nets.items():
            right = accuracy(net, clear.x + sigma * scatter, clear.y)
            rows.append({"kind": "noise", "model": name, "sigma": sigma, "accuracy": right})
    context.progress(0.5)
    for name, net in nets.items():
        found = attacked(
            net, test.x, test.y, problem.dense_direction, LpBall(2, s.radius), s.attack_steps, seed
        )
        rows.append(
            {"kind": "model", "model": name, "worst": found.row["worst"], "clean": found.row["clean"]}
        )
    premises = [
        *theory.hidden_vector_premises(problem.hidden, clear.z, problem.w),
        *theory.sparsity_premises(s),
        theory.threshold_premise(s),
    ]
    return rows + [premise.as_row() for premise in premises]


DATA = ("assumption-2-1", "section-2")
CLAIMS = (
    Claim(
        "linear",
        source="Section 3",
        says="The linear classifier ⟨Mw*, x⟩, which is right on every point without noise, is flipped at most points by"
        " a tiny perturbation.",
        quantity="share of points still correct at a radius of 1.5/√d",
        bound=at_most(0.5),
        because="most points are more than half of them",
        value=lambda rows: rows.of("model", model="linear").per_seed("worst"),
        premises=requires(*DATA),
    ),
    Claim(
        "indicator",
        source="Section 3",
        says="A classifier whose units cut off everything below 1/(2√k) withstands perturbations that flip the linear classifier.",
        quantity="share of points still correct at a radius of 1.5/√d = o(1/√k)",
        bound=at_least(NEARLY_ALL),
        because=O_NEARLY,
        value=lambda rows: rows.of("model", model="indicator").per_seed("worst"),
        premises=requires(*DATA, "section-3"),
        note="no perturbation of this length can switch a unit on or off",
    ),
)


def draw(rows: Rows) -> Any:
    """The three units, and the accuracy of their classifiers against noise."""
    from featureprism.lab.style import COLOURS, band, over_seeds, panels

    figure, (left, right) = panels(2, width=3.6, height=2.9)
    for colour, model in zip(COLOURS, MODELS, strict=False):
        x, _, middle, _ = over_seeds(rows.of("unit", model=model), "input", "output")
        left.plot(x, middle, color=colour, label=model)
        band(right, *over_seeds(rows.of("noise", model=model), "sigma", "accuracy"), colour, None)
    left.set(xlabel="⟨M_j, x⟩", ylabel="what the unit passes on", xlim=(-0.3, 0.3), ylim=(-0.3, 0.3))
    right.set(xlabel="noise σ_x", ylabel="accuracy")
    left.legend()
    return figure


def _setting(dim: int, points: int) -> Battery:
    """Nothing is trained, so that d can be large: k = d^0.4, no input noise, τ = 1.5/√d."""
    k = round(dim**0.4)
    return Battery(
        dim=dim,
        sparsity=k,
        width=dim,
        noise=0.0,
        radius=1.5 / math.sqrt(dim),
        test_points=points,
        attack_steps=5,
    )


FIGURE_3 = Experiment(
    id="feature-purification/figure-3",
    source="Allen-Zhu & Li 2020, Figure 3",
    title="A threshold keeps the signal and drops the noise; a linear unit cannot",
    scales={
        "quick": [_setting(2000, 200)],
        "standard": [_setting(4000, 400)],
        "paper": [_setting(10000, 400)],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about="The classifiers of Section 3, built from the dictionary and not trained: accuracy against noise, and under attack.",
)
