"""Beside the XOR network: the same network trained lazily, in its tangent space, and one of three layers."""

from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.context import Context
from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most, between, requires
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_amplification.setting import (
    DIMS,
    C,
    Problem,
    Setting,
    clean_error,
    problem,
    start,
    trained,
)
from featureprism.seeds import generator_for
from featureprism.theory import feature_amplification as theory

BEYOND = "beyond the paper"
WIDE_NOISE = 4.0  # σ√d, 64 times what (A3) allows for C = 16
LONG, LONG_RATE = 30, 1.0  # steps where clusters are wide


@dataclass(frozen=True, kw_only=True)
class Beside(Setting):
    """`clusters` is "tight" inside the assumptions, or "wide"."""

    clusters: str


def measure(s: Beside, seed: int, context: Context) -> list[Row]:
    """Clean test errors of the network, its lazy twin and the deeper one; correlations of the deeper one along its steps."""
    data = problem(s, seed)
    errors = {
        "network": clean_error(trained(s, data.train, seed).last, data.test),
        "lazy": _error(lazy_outputs(start(s, seed), data, s.step_size, s.steps), data),
    }
    context.progress(0.5)
    deep = ThreeLayers.random(s, seed)
    rows: list[Row] = []
    for time in range(s.steps + 1):
        cosines = (unit_rows(deep.W) @ data.train.data.centres.T).amax(dim=1)
        rows.append({"kind": "step", "time": time, "correlation": float(cosines.median())})
        if time < s.steps:
            deep = deep.stepped(data.train.data.x, data.train.data.y, s.step_size)
    errors["depth 3"] = _error(deep.outputs(data.test.data.x), data)
    context.progress(1.0)
    rows += [{"kind": "error", "name": name, "error": error} for name, error in errors.items()]
    return rows + [premise.as_row() for premise in theory.assumptions(s, s.constant)]


def _error(outputs: Float[Tensor, " n"], data: Problem) -> float:
    return float((data.test.clean * outputs <= 0).double().mean())


def lazy_outputs(net: TwoLayerNet, data: Problem, step_size: float, steps: int) -> Float[Tensor, " t"]:
    """Test outputs of f(x; W⁰) + ⟨∇f(x; W⁰), W - W⁰⟩ after descent on W: gates stay those of the start.

    In function space: f ← f + (α/n) K (y/(1+e^{yf})), K(x, x') = ⟨x, x'⟩ Σ_j a_j² 1{⟨w_j⁰, x⟩ > 0} 1{⟨w_j⁰, x'⟩ > 0}.
    """
    W, a = net.W.detach(), net.a.detach()
    x, y, fresh = data.train.data.x, data.train.data.y, data.test.data.x
    gates, fresh_gates = ((points @ W.T > 0).to(x.dtype) * a.abs() for points in (x, fresh))
    kernel, across = ((points @ x.T) * (own @ gates.T) for points, own in ((x, gates), (fresh, fresh_gates)))
    f, outputs = net(x).detach(), net(fresh).detach()
    for _ in range(steps):
        slopes = step_size / len(y) * y * torch.sigmoid(-y * f)
        f, outputs = f + kernel @ slopes, outputs + across @ slopes
    return outputs


@dataclass(frozen=True)
class ThreeLayers:
    """f(x) = Σ_k a_k φ(Σ_j V_kj φ(⟨w_j, x⟩)); only W moves, as in the paper only the first layer does."""

    W: Float[Tensor, "h d"]
    V: Float[Tensor, "h h"]
    a: Float[Tensor, " h"]

    @classmethod
    def random(cls, s: Setting, seed: int) -> "ThreeLayers":
        """W and a as in the paper, V with entries N(0, 2/m): a neuron weighs of order 1/√m in the output, as in two layers."""
        net = start(s, seed)
        V = torch.randn(s.width, s.width, generator=generator_for("second layer", seed), dtype=torch.float64)
        return cls(net.W.detach(), sqrt(2 / s.width) * V, net.a.detach())

    def outputs(self, x: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """f of every point."""
        return torch.relu(torch.relu(x @ self.W.T) @ self.V.T) @ self.a

    def stepped(self, x: Float[Tensor, "n d"], y: Float[Tensor, " n"], step_size: float) -> "ThreeLayers":
        """One step of descent on W, mean logistic loss."""
        z = x @ self.W.T
        second = torch.relu(z) @ self.V.T
        f = torch.relu(second) @ self.a
        slopes = y * torch.sigmoid(-y * f) / len(y)
        back = (((second > 0) * self.a * slopes.unsqueeze(1)) @ self.V) * (z > 0)
        return ThreeLayers(self.W + step_size * back.T @ x, self.V, self.a)


def _at(rows: Rows, clusters: str, name: str) -> Values:
    return rows.of("error", clusters=clusters, name=name).per_seed("error")


def _correlation(rows: Rows, time: int) -> Values:
    return rows.of("step", clusters="tight", time=time).per_seed("correlation")


_OUTSIDE = f"wide clusters, σ√d = {WIDE_NOISE:g}, {LONG} steps of size {LONG_RATE:g}"
CLAIMS = (
    Claim(
        "lazy",
        BEYOND,
        "inside the assumptions the lazy twin learns as well, features fixed: its clean test error after the theorem's steps",
        lambda rows: _at(rows, "tight", "lazy"),
        at_most(0.005),
        origin="featureprism",
        premises=requires("assumption", clusters="tight"),
        note="in so tight clusters the gates of the start know the clusters: the theorem itself does not need features to move",
    ),
    Claim(
        "features",
        BEYOND,
        f"{_OUTSIDE}: clean test error of the lazy twin minus that of the network",
        lambda rows: _at(rows, "wide", "lazy") - _at(rows, "wide", "network"),
        above(0.1),
        origin="featureprism",
    ),
    Claim(
        "depth-3",
        "Section 5, an open question",
        "three layers, inside the assumptions: clean test error after the theorem's steps",
        lambda rows: _at(rows, "tight", "depth 3"),
        at_most(0.005),
        origin="featureprism",
        premises=requires("assumption", clusters="tight"),
    ),
    Claim(
        "depth-3-gain",
        "Section 5, an open question",
        "three layers amplify too: median correlation of first-layer neurons with their nearest centre at t = 1",
        lambda rows: _correlation(rows, 1),
        between(0.72, 0.92),
        origin="featureprism",
        premises=requires("assumption", clusters="tight"),
        note=lambda rows: (
            f"at t = 0 it was {_correlation(rows, 0).mean():.3f}; neurons that vote differently on different clusters"
            " are drawn to one of them, so it passes 1/√2"
        ),
    ),
    Claim(
        "depth-3-wide",
        BEYOND,
        f"{_OUTSIDE}: clean test error of three layers minus that of two",
        lambda rows: _at(rows, "wide", "depth 3") - _at(rows, "wide", "network"),
        between(-0.1, 0.1),
        origin="featureprism",
    ),
)


def _settings(scale: str, points: int, width: int) -> list[Beside]:
    common = {"width": width, "test_points": 1000}
    wide = {"sigma": WIDE_NOISE / sqrt(200), "steps": LONG, "step_size": LONG_RATE, "points": 2 * points}
    return [
        Beside.on_edge(C, dim=DIMS[scale][0], points=points, clusters="tight", **common),
        Beside.on_edge(C, dim=200, clusters="wide", **common, **wide),
    ]


BASELINES = Experiment(
    id="feature-amplification/baselines",
    source="Frei et al. 2023, Sections 3 and 5",
    title="Lazy training and a third layer beside the XOR network",
    scales={
        "quick": _settings("quick", 400, 200),
        "standard": _settings("standard", 800, 400),
        "paper": _settings("paper", 2000, 500),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "The same start, data and steps: the network, the network linearised at its start, and one with a fixed random layer in"
        " between; in tight clusters inside (A1)-(A7) for C = 16, and in wide ones far outside."
    ),
)
