"""Theorem 4.2: one perturbation along u = Σ y_q μ_q breaks the networks that training finds."""

from math import isnan, sqrt
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from featureprism.attacks import flip_rate, flipping_norm
from featureprism.context import Context, part
from featureprism.lab import Claim, Experiment, Rows, Values, at_least, at_most
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    INSIDE,
    Problem,
    TrainingSetting,
    critical_norm,
    direction,
    inside,
    premises,
    problem,
    separation,
    trained,
)
from featureprism.records import Row
from featureprism.training import max_margin_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENOUGH = 1.4  # of ‖u‖/k: the order √(d/(c²k)) is read with a constant of 0.7, as ‖u‖/k = ½ √(d/(c²k)) for equal classes
SHARES = tuple(round(0.5 + 0.05 * i, 2) for i in range(21))  # of ‖u‖/k


def measure(s: TrainingSetting, seed: int, context: Context) -> list[Row]:
    """Flip rates along u = Σ y_q μ_q at the exact KKT point and at a trained network near one."""
    data = problem(s, seed)
    u, critical, apart = direction(data), critical_norm(data), separation(s, data)
    nets = {"exact": max_margin_network(data.train.x, data.train.y).net}
    if s.width:
        nets["trained"] = trained(s, data.train, seed, progress=part(context.progress, 0.2, 0.8))
    rows: list[Row] = []
    for index, (name, net) in enumerate(nets.items()):
        seen, x, along = seen_with(net, data.test.x, u)
        for share in SHARES if s.case in CASE_NAMES else ():
            rate = flip_rate(seen, x, data.test.y, share * critical * along / along.norm())
            rows.append({"kind": "rate", "network": name, "share": share, "rate": rate})
        norm = flipping_norm(seen, x, data.test.y, along)
        measured = {"kind": "critical", "network": name, "norm": norm / critical, "absolute": norm}
        measured |= {"balance": apart.balance, "over_orthogonal": norm / sqrt(s.dim / s.clusters)}
        clusters = cluster_norms(seen, x, along, data, critical) if s.case == "both" else {}
        rows.append(measured | clusters | printed_z(net, data, apart))
        context.progress(0.8 + 0.2 * (index + 1) / len(nets))
    return rows + premises(s, data)


def seen_with(net: TwoLayerNet, x: Tensor, u: Tensor) -> tuple[TwoLayerNet, Tensor, Tensor]:
    """Network, points and a direction in the span of the neurons and the direction: all that moving along it needs."""
    basis = torch.linalg.qr(torch.cat([net.input_directions(), u.unsqueeze(0)]).T).Q
    return net.in_coordinates(basis), x @ basis, u @ basis


def cluster_norms(net: TwoLayerNet, x: Tensor, u: Tensor, data: Problem, critical: float) -> Row:
    """Where half of each cluster flips ÷ (‖u‖/k): the mean over clusters, the least and the largest."""
    members = [data.test.cluster == q for q in range(data.clusters.num_clusters)]
    norms = [flipping_norm(net, x[m], data.test.y[m], u) / critical for m in members if bool(m.any())]
    return {
        "mean_of_clusters": sum(norms) / len(norms),
        "least_of_clusters": min(norms),
        "most_of_clusters": max(norms),
    }


def printed_z(net: TwoLayerNet, data: Problem, s: theory.Separation) -> Row:
    """What the printed z of Theorem 4.2 has for norm and does, where its formula applies."""
    steps = theory.printed_step(s)
    if isnan(sum(steps)):
        return {"printed_applies": False}
    z = sum(steps) * direction(data)
    with torch.no_grad():
        moved = data.test.y * net(data.test.x - data.test.y.unsqueeze(1) * z)
    norm = float(z.norm()) / sqrt(s.dim)
    return {
        "printed_applies": True,
        "printed_norm": norm,
        "printed_is_vacuous": norm >= 1,
        "printed_rate": flip_rate(net, data.test.x, data.test.y, z),
        "printed_least": float(moved.max()),
    }


def _constant_read(rows: Rows) -> str:
    norm = rows.of("critical", case="within").column("printed_norm").max(initial=0.0)
    return f"the z of the proof has a norm of up to {norm:.0f} √d here, longer than the points themselves"


def _deviation(rows: Rows, network: str) -> Values:
    """|norm ÷ (‖u‖/k) - 1|, largest over settings."""
    return abs(rows.of("critical", network=network).farthest("norm", 1.0) - 1)


CLAIMS = (
    Claim(
        "flips",
        source="Theorem 4.2",
        says="A single perturbation along u = Σ y_q μ_q, of norm at most of the order √(d/(c²k)), flips nearly every point of a network"
        " at a KKT point.",
        quantity=f"share of test points flipped by z = {ENOUGH} u/k, least over settings inside Assumption 2.2",
        formula=r"\Pr[\operatorname{sign} \mathcal{N}(x) \ne \operatorname{sign} \mathcal{N}(x - y z)] \ge 1 - \epsilon",
        bound=at_least(0.95),
        because="ε = 0.05 as in the premises of the theorem",
        value=lambda rows: inside(rows.of("rate", network="exact", share=ENOUGH)).least("rate"),
        note=_constant_read,
        premises=INSIDE,
        headline=True,
    ),
    Claim(
        "critical",
        source="Theorem 4.2, sharp",
        says="The KKT point with one neuron for each class breaks along u = Σ y_q μ_q at the norm ‖u‖/k, ten times shorter than the"
        " proof's bound.",
        quantity="|norm along u that flips half of the test points ÷ (‖u‖/k) - 1|, largest over settings",
        formula=r"\lVert z\rVert = \lVert u\rVert/k",
        bound=at_most(0.08),
        because="noise of σ = 1 in d = 1000 dimensions moves the law by up to 8 %",
        value=lambda rows: _deviation(rows, "exact"),
        origin="featureprism",
    ),
    Claim(
        "trained",
        source="Theorem 4.2, sharp",
        says="A network whose margin was maximised breaks along u = Σ y_q μ_q at the norm ‖u‖/k.",
        quantity="|norm along u that flips half of the test points ÷ (‖u‖/k) - 1|, largest over settings",
        formula=r"\lVert z\rVert = \lVert u\rVert/k",
        bound=at_most(0.08),
        because="noise of σ = 1 in d = 1000 dimensions moves the law by up to 8 %",
        value=lambda rows: _deviation(rows, "trained"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Flip rate against the norm of z, exact and trained."""
    from featureprism.lab.style import COLOURS, band, guide, over_seeds, panels

    figure, (axes,) = panels(1, width=4.4, height=3.0)
    for colour, (case, rates) in zip(COLOURS, rows.of("rate").groups("case").items(), strict=False):
        for network, dashed in (("exact", False), ("trained", True)):
            x, low, mean, high = over_seeds(rates.having(network=network), "share", "rate")
            band(axes, x, low, mean, high, colour, f"{CASE_NAMES[case]}, {network}", dashed=dashed)
    guide(axes, 1.0, "‖u‖/k")
    axes.set(xlabel="‖z‖ ÷ (‖u‖/k)", ylabel="test points flipped", ylim=(-0.02, 1.04))
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.02))
    return figure


THEOREM_4_2 = Experiment(
    id="double-edged/theorem-4-2",
    source="Frei et al. 2023, Theorem 4.2",
    title="One perturbation breaks the networks that training finds",
    scales={
        "quick": [TrainingSetting.usual(iterations=80), TrainingSetting.within(iterations=80)],
        "standard": [
            TrainingSetting.usual(),
            TrainingSetting.on_sphere(),
            TrainingSetting.within(),
            TrainingSetting.within(3000, 8),
            TrainingSetting.usual(3072, 10),
        ],
        "paper": [
            TrainingSetting.usual(3072, 10, width=100),
            TrainingSetting.on_sphere(3072, 10, width=100),
            TrainingSetting.within(6000, 16),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about="Test points moved by -y z, z along u = Σ y_q μ_q: flip rate against ‖z‖ for the exact KKT point and a trained network.",
    draw=draw,
)
