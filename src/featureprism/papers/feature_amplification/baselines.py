"""Beside the XOR network: the same network with features that do not move, and one of three layers."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from featureprism.geometry import unit_rows
from featureprism.lab import Claim, Experiment, Rows, above, at_most, between, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.feature_amplification import theory
from featureprism.papers.feature_amplification.lazy import lazy_outputs
from featureprism.papers.feature_amplification.setting import (
    DIMS,
    C,
    NoisyXor,
    clean_error,
    problem,
    start,
    trained,
)
from featureprism.seeds import generator_for

TIGHT = "tight"  # clusters inside the assumptions
WIDTHS = {"wide 1": 1.0, "wide 2": 2.0, "wide 3": 3.0, "wide": 4.0, "wide 6": 6.0}  # σ√d; (A3) allows 1/16
LONG, LONG_RATE = 30, 1.0  # steps where clusters are wide


@dataclass(frozen=True, kw_only=True)
class Beside(NoisyXor):
    """`clusters` is "tight" inside the assumptions, or names one of the widths."""

    clusters: str


def measure(s: Beside, seed: int, context: Context) -> list[Row]:
    """Clean test errors of the network and its lazy twin; in tight clusters, cosines of a network of three layers along its steps."""
    data = problem(s, seed)
    train, test = data.train.data, data.test
    lazy = lazy_outputs(start(s, seed), train, test.data.x, step_size=s.step_size, steps=s.steps)
    errors = {
        "network": clean_error(trained(s, data.train, seed).last, test),
        "lazy": float((test.clean * lazy <= 0).double().mean()),
    }
    context.progress(0.5)
    rows: list[Row] = [
        {"kind": "error", "name": name, "error": error, "cluster_width": s.sigma * sqrt(s.dim)}
        for name, error in errors.items()
    ]
    if s.clusters == TIGHT:
        deep = ThreeLayers.random(s, seed)
        for time in range(s.steps + 1):
            cosines = (unit_rows(deep.W) @ train.centres.T).amax(dim=1)
            rows.append({"kind": "step", "time": time, "correlation": float(cosines.median())})
            deep = deep.stepped(train.x, train.y, s.step_size)
    context.progress(1.0)
    return rows + [premise.as_row() for premise in theory.assumptions(s, s.constant)]


@dataclass(frozen=True)
class ThreeLayers:
    """f(x) = Σ_k a_k φ(Σ_j V_kj φ(⟨w_j, x⟩)); only W moves, as in the paper only the first layer does."""

    W: Float[Tensor, "h d"]
    V: Float[Tensor, "h h"]
    a: Float[Tensor, " h"]

    @classmethod
    def random(cls, s: NoisyXor, seed: int) -> "ThreeLayers":
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


def _error(rows: Rows, clusters: str, name: str) -> Values:
    return rows.of("error", clusters=clusters, name=name).per_seed("error")


def _cosine(rows: Rows, time: int) -> Values:
    return rows.of("step", time=time).per_seed("correlation")


def _widths_note(rows: Rows) -> str:
    parts = rows.of("error").where(lambda row: row["clusters"] != TIGHT).groups("cluster_width").items()
    errors = [
        f"{part.having(name='network').column('error').mean():.2f} and {part.having(name='lazy').column('error').mean():.2f}"
        f" at σ√d = {width:.3g}"
        for width, part in parts
    ]
    return f"errors of the network and of its lazy twin: {', '.join(errors)}"


CLAIMS = (
    Claim(
        "lazy",
        source="beyond Theorem 3.1",
        says="Inside the assumptions of Theorem 3.1 a network whose features stay those of the start learns XOR as well: the theorem"
        " does not separate feature learning from the tangent kernel.",
        quantity="clean test error of the network linearised at its start, after the theorem's steps",
        formula=r"f(x; W^{(0)}) + \langle\nabla f(x; W^{(0)}), W - W^{(0)}\rangle",
        bound=at_most(0.005),
        because="the theorem's network has none; half a percent counts as none",
        value=lambda rows: _error(rows, TIGHT, "lazy"),
        origin="featureprism",
        premises=requires("assumption", clusters=TIGHT),
        headline=True,
        note="clusters so tight differ in the neurons that are active at the start; critical-c.lazy compares how large C must be",
    ),
    Claim(
        "features",
        source="beyond the paper",
        says="In clusters 64 times as wide as the assumptions allow, features that move pay off: the network errs far less than the"
        " same network with fixed features.",
        quantity=f"clean test error of the lazy twin minus that of the network, σ√d = 4, {LONG} steps of size {LONG_RATE:g}",
        bound=above(0.1),
        because="a tenth of all points",
        value=lambda rows: _error(rows, "wide", "lazy") - _error(rows, "wide", "network"),
        origin="featureprism",
        note=_widths_note,
    ),
    Claim(
        "depth-3",
        source="Section 5, an open question",
        says="Random features are amplified in a network of three layers as well, whose second layer is random and fixed.",
        quantity="median over first-layer neurons of the cosine with the nearest centre, after one step",
        bound=between(0.72, 0.92),
        because="more than the 1/√2 that two layers reach in one step: neurons with several votes are drawn to one centre",
        value=lambda rows: _cosine(rows, 1),
        origin="featureprism",
        premises=requires("assumption", clusters=TIGHT),
        note=lambda rows: f"at t = 0 it was {_cosine(rows, 0).mean():.3f}",
    ),
)


def draw(rows: Rows) -> Any:
    """Errors of the network and its lazy twin against the width of the clusters, and how three layers amplify."""
    from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels, plain_ticks

    figure, (left, right) = panels(2, width=3.8, height=2.8)
    words = {"network": "network", "lazy": "lazy twin: features fixed"}
    for colour, (name, text) in zip(COLOURS, words.items(), strict=False):
        band(left, *over_seeds(rows.of("error", name=name), "cluster_width", "error"), colour, text)
    guide(left, 1 / C, "(A3)")
    left.set(xscale="log", xlabel="width of the clusters σ√d", ylabel="clean test error", ylim=(-0.02, 0.52))
    plain_ticks(left, (0.06, 1, 2, 4, 6))
    left.legend()
    band(right, *over_seeds(rows.of("step"), "time", "correlation"), COLOURS[2], None)
    right.set(xlabel="steps", ylabel="three layers: cosine with a centre", ylim=(0, 1))
    return figure


def _settings(scale: str, points: int, width: int) -> list[Beside]:
    common = {"width": width, "test_points": 1000}
    wide = {"dim": 200, "steps": LONG, "step_size": LONG_RATE, "points": 2 * points, **common}
    return [
        Beside.on_edge(C, dim=DIMS[scale][0], points=points, clusters=TIGHT, **common),
        *(
            Beside.on_edge(C, clusters=name, sigma=value / sqrt(200), **wide)
            for name, value in WIDTHS.items()
        ),
    ]


BASELINES = Experiment(
    id="feature-amplification/baselines",
    source="Frei et al. 2023, Sections 3 and 5",
    title="Does the theorem need features that move?",
    scales={
        "quick": _settings("quick", 400, 200),
        "standard": _settings("standard", 800, 400),
        "paper": _settings("paper", 2000, 500),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "The same start, data and steps for the network, for the network linearised at its start (features fixed), and, inside the"
        " assumptions, for one with a fixed random layer in between. Clusters are tight, inside (A1)-(A7) for C = 16, or up to 100"
        " times as wide, trained longer."
    ),
)
