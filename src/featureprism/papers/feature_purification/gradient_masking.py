"""Algorithm 2 from scratch at the full radius: a collapsed network that FGM and PGD call robust."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from featureprism.geometry import LpBall
from featureprism.lab import Claim, Experiment, Rows, above
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import bench
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    accuracy,
    clean_phase,
    fast_gradient,
    robustness,
    scales,
    start,
    train,
)
from featureprism.probes import purification as probes

USUAL_GUARD = 1e-12  # what attack libraries put under a gradient's norm before they divide by it
COLLAPSED_SMOOTHING = 0.1  # σ_ρ/b: gradients of a dead network are near Φ(-10) = 10⁻²³
COLLAPSE: dict[str, Any] = {"steps": 350, "bias_growth": 0.15}


@torch.no_grad()
def guarded_pgd(net: SymmetricNet, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    """PGD from zero as libraries run it: the gradient is divided by max(‖g‖, 10⁻¹²), so that a tiny one moves nothing."""
    delta = torch.zeros_like(x)
    for _ in range(steps):
        gradient = y.unsqueeze(1) * net.input_gradient(x + delta)[1]
        size = torch.linalg.vector_norm(gradient, dim=1, keepdim=True).clamp_min(USUAL_GUARD)
        delta = LpBall(2, eps).project(delta - 2.5 * eps / steps * gradient / size)
    return delta


def collapsed(s: Battery, seed: int) -> SymmetricNet:
    """Adversarial training from scratch at the full radius: every neuron dies."""
    phase = replace(clean_phase(s), smoothing=COLLAPSED_SMOOTHING, perturb=fast_gradient(s))
    return train(s, start(s, seed), [phase], seed, "collapse").last


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """The collapsed network under attacks that stop at tiny gradients and under those that do not."""
    on, net = bench(s, seed), collapsed(s, seed)
    context.progress(0.7)
    x, y = on.test.x.double(), on.test.y.double()
    double = net.with_weights(net.W.double())
    plain = guarded_pgd(double, x, y, s.radius, s.attack_steps)
    one_step, _ = fast_gradient(s)(double, x, y)
    gradient = torch.linalg.vector_norm(double.input_gradient(x)[1], dim=1)
    return [
        {
            "kind": "masking",
            **robustness(net, on.test, on.problem, s, seed).row,
            "guarded_pgd": accuracy(double, x + plain, y),
            "guarded_fgm": accuracy(double, one_step, y),
            "log10_gradient": float(gradient.clamp_min(1e-300).log10().median()),
            "alive": int((probes.firing(net, on.many.x) > 0).sum()),
        }
    ]


def _masked(attack: str):
    """What an attack calls robust and is not."""

    def value(rows: Rows) -> Values:
        return rows.of("masking").per_seed(attack) - rows.of("masking").per_seed("worst")

    return value


def _gradient_note(rows: Rows) -> str:
    part = rows.of("masking")
    return (
        f"{part.column('alive').mean():.0f} neurons fire; gradients are near"
        f" 10^{part.column('log10_gradient').mean():.0f}, and PGD with the"
        f" usual guard of {USUAL_GUARD:g} under its division does not move"
    )


FAR = "a fifth of the points is far more than the noise of the test set"
CLAIMS = (
    Claim(
        "gap",
        source="Algorithm 2",
        says="On a network whose neurons have all died, PGD with the usual guard against division by zero reports"
        " robustness that is not there.",
        quantity="accuracy under guarded PGD minus accuracy under the strongest attack",
        bound=above(0.2),
        because=FAR,
        value=_masked("guarded_pgd"),
        origin="featureprism",
        note=_gradient_note,
    ),
    Claim(
        "fgm",
        source="Algorithm 2",
        says="On a network whose neurons have all died, the paper's FGM, which does nothing at tiny gradients, reports"
        " robustness that is not there.",
        quantity="accuracy under the FGM of Algorithm 2 minus accuracy under the strongest attack",
        bound=above(0.2),
        because=FAR,
        value=_masked("guarded_fgm"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """What attacks say of the collapsed network."""
    from featureprism.lab.style import guide, panels
    from featureprism.papers.feature_purification.drawing import bars, mean

    figure, (axes,) = panels(1, width=5.6, height=2.8)
    names = {
        "clean": "no attack",
        "guarded_fgm": "FGM, zero for tiny gradients",
        "guarded_pgd": "PGD, guarded division",
        "universal": "universal direction",
        "fgm": "FGM",
        "pgd": "PGD, many starts",
        "worst": "all attacks",
    }
    values = [mean(rows.of("masking"), key) for key in names]
    bars(axes, list(names.values()), {"": values}, "accuracy at τ")
    guide(axes, 0.5, "chance")
    return figure


GRADIENT_MASKING = Experiment(
    id="feature-purification/gradient-masking",
    source="Allen-Zhu & Li 2020, Algorithm 2",
    title="A collapsed network that FGM and PGD call robust",
    scales=scales(Battery, test_points=150, **COLLAPSE),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "Adversarial training from scratch at the full radius, which the paper avoids by a warm-up, kills all neurons. What is left has"
        " gradients too small for attacks that guard their division; directions are still there, and attacks that use"
        " them find the truth."
    ),
)
