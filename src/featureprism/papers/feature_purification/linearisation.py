"""Adversarial training and its objective: Theorems D.1 and F.1, and why one gradient step is close to the worst case."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from featureprism.geometry import LpBall, row_norms
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.networks import SymmetricNet
from featureprism.papers.feature_purification.measures import (
    FEW,
    LEARNED,
    NEARLY_ALL,
    O_SMALL,
    PURIFIED,
    SMALL,
    bench,
    premise_rows,
)
from featureprism.papers.feature_purification.setting import (
    FAMILY,
    Battery,
    coding,
    in_double,
    scales,
    trained,
    unseen,
)
from featureprism.probes.purification import linearisation_gap, own_features


@dataclass(frozen=True, kw_only=True)
class LinearisationSetting(Battery):
    """How many points the gap is averaged over."""

    points: int = 1000


def _fast_gradient(net: SymmetricNet, x: Tensor, y: Tensor, radius: float) -> Tensor:
    """The perturbation of FGM."""
    return -LpBall(2, radius).steepest(y.unsqueeze(1) * net.input_gradient(x)[1])


@torch.no_grad()
def measure(s: LinearisationSetting, seed: int, context: Context) -> list[Row]:
    """The gap of the linearisation at τ, both objectives, and what is left of neurons beside their features."""
    test = unseen(s, seed, s.points)
    x, y, net = test.x.double(), test.y.double(), in_double(trained(s, seed, "adversarial"))
    context.progress(0.5)
    delta = _fast_gradient(net, x, y, s.radius)
    gap = linearisation_gap(net, x, delta)
    row: Row = {
        "kind": "at tau",
        "gap": float(gap.mean()),
        "within": float((gap <= 1 / math.log(s.dim)).double().mean()),
        "fall": float((net(x) - net(x + delta)).abs().mean()),
    }
    rows = [row, _beside_features(s, seed), _objectives(s, seed, x, y)]
    rows += [
        {"kind": "gap", "value": float(v)} for v in torch.quantile(gap, torch.linspace(0, 1, 21).double())
    ]
    return rows + premise_rows(s, bench(s, seed))


def _beside_features(s: LinearisationSetting, seed: int) -> Row:
    """Coefficients beside the features of a neuron, and the penalty of the features alone: Proposition F.8, Claim F.17."""
    M, before = coding(s, seed).M.double(), trained(s, seed, "clean").W.detach().double()
    A = before @ M
    chosen = own_features(A, FEW)
    features, rest = (A * chosen) @ M.T, A * ~chosen
    alive = row_norms(before) > s.final_bias
    k, d = s.sparsity, s.dim
    return {
        "kind": "beside",
        "rest": float(rest[alive].abs().amax(dim=1).mean()) / (k / d),
        "penalty": abs(_penalty(before) - _penalty(features)) / (s.width * k / math.sqrt(d)),
    }


def _penalty(W: Tensor) -> float:
    """Σ_i (‖w_i‖²/2 + ‖w_i‖³/3)."""
    return float((row_norms(W) ** 2 / 2 + row_norms(W) ** 3 / 3).sum())


def _objectives(s: LinearisationSetting, seed: int, x: Tensor, y: Tensor) -> Row:
    """Loss and penalty of both networks, at the points and under FGM at τ: Obj and RobObj of Theorems D.1 and F.1."""
    row: Row = {"kind": "objective"}
    for stage in ("clean", "adversarial"):
        net = in_double(trained(s, seed, stage))
        held = s.penalty / s.dim * _penalty(net.W.detach())
        for name, points in (("obj", x), ("robust", x + _fast_gradient(net, x, y, s.radius))):
            row[f"{name}_{stage}"] = float(torch.nn.functional.softplus(-y * net(points)).mean()) + held
    return row


def _of(kind: str, key: str):
    def value(rows: Rows) -> Values:
        return rows.of(kind).per_seed(key)

    return value


def _objective_note(rows: Rows) -> str:
    clean, before, after = (
        _of("objective", key)(rows).mean() for key in ("obj_clean", "robust_clean", "robust_adversarial")
    )
    return f"Obj {clean:.2f} and RobObj {before:.2f} before, RobObj {after:.2f} after"


CLAIMS = (
    Claim(
        "clean-objective",
        source="Theorem D.1",
        says="Clean training brings the sum of loss and penalty down to nearly zero.",
        quantity="logistic loss plus penalty after clean training; f = 0 has ln 2",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=_of("objective", "obj_clean"),
        premises=requires(*LEARNED),
    ),
    Claim(
        "objective",
        source="Theorem F.1",
        says="Adversarial training brings the objective under attack down to that of clean training without attack.",
        quantity="loss under FGM plus penalty after adversarial training, minus loss plus penalty after clean training",
        bound=at_most(SMALL),
        because=O_SMALL,
        value=lambda rows: _of("objective", "robust_adversarial")(rows) - _of("objective", "obj_clean")(rows),
        note=_objective_note,
        premises=requires(*PURIFIED),
    ),
    Claim(
        "at-tau",
        source="(F.17)",
        says="Within the radius of training the network is close to linear around most points, so that one gradient"
        " step is close to the worst case.",
        quantity="share of points with |f(x + δ) - f(x) - ⟨∇f, δ⟩| ≤ 1/ln d under FGM at τ",
        bound=at_least(NEARLY_ALL),
        because="most is read as nine tenths, O(1/log d) with a constant of 1",
        value=_of("at tau", "within"),
        premises=requires(*PURIFIED),
        note=lambda rows: (
            f"the gap is {(_of('at tau', 'gap')(rows) / _of('at tau', 'fall')(rows)).mean():.2f} of the change of f"
        ),
    ),
    Claim(
        "rest",
        source="Proposition F.8",
        says="Beside its features a neuron after clean training has coefficients of at most O(k/d).",
        quantity=f"largest coefficient beside the {FEW} largest of a neuron in units of k/d, mean over neurons",
        bound=at_most(1.0),
        because="the order with every constant and Ξ₂ set to 1",
        value=_of("beside", "rest"),
        premises=requires(*PURIFIED),
    ),
    Claim(
        "penalty",
        source="Claim F.17, corrected",
        says="The penalty of the features alone is that of the whole network up to O(m k/√d).",
        quantity="difference of both penalties in units of m k/√d",
        bound=at_most(1.0),
        because="the order of the proof with every constant and Ξ₂ set to 1; printed is k√d, which is the same for m ≈ d",
        value=_of("beside", "penalty"),
        premises=requires(*PURIFIED),
    ),
)


def draw(rows: Rows) -> Any:
    """How large the linearisation gap is, over the points."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=4.6, height=2.9)
    for one in rows.of("gap").by_seed():
        values = one.column("value")
        axes.plot(values, [i / max(1, len(values) - 1) for i in range(len(values))], color=COLOURS[0])
    guide(axes, 1 / math.log(float(rows.column("dim")[0])), "1/ln d")
    axes.set(xlabel="linearisation gap under FGM at τ", ylabel="share of points below")
    return figure


LINEARISATION = Experiment(
    id="feature-purification/linearisation",
    source="Allen-Zhu & Li 2020, Theorems D.1, F.1, (F.17)",
    title="The objectives of both trainings, and how linear the network is within the radius of training",
    scales=scales(LinearisationSetting),
    measure=measure,
    claims=CLAIMS,
    family=FAMILY,
    draw=draw,
    about=(
        "The robust coupling freezes the activations of a point and moves the point. What that misses is measured on the network after"
        " adversarial training, under FGM at the τ of training."
    ),
)
