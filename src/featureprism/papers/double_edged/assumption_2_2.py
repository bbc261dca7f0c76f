"""Assumption 2.2 with its slack, the events, the lemmas at every KKT point that is found, and the robust network beside them."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, below, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.explored import ExploredSetting, breaking_row, points_of
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    INSIDE,
    Problem,
    critical_norm,
    direction,
    inside,
    problem,
    separation,
)
from featureprism.papers.double_edged.theorem_4_1 import robust_bracket
from featureprism.probes import KKTAudit
from featureprism.probes.kkt import cluster_sums, neuron_activity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROBUST_GAP = 0.1  # of the bracket of the robust network, whose law is √d/2


def measure(s: ExploredSetting, seed: int, context: Context) -> list[Row]:
    """Premises and events of one setting, the lemmas at every KKT point that is found, and where these break beside the robust"
    " network."""
    data = problem(s, seed)
    apart = separation(s, data)
    on_train = theory.on_sample(apart, data.train)
    on_test = theory.on_sample(apart, data.train, data.test)
    points = points_of(s, data, seed)
    context.progress(0.6)
    bracket = robust_bracket(s, data, s.radius_points, ROBUST_GAP)
    robust = bracket.half_radius[0] / critical_norm(data)
    rows: list[Row] = [
        {
            "kind": "audit",
            "crowding": apart.crowding,
            "measured_crowding": on_train.crowding,
            "test_crowding": on_test.crowding,
        }
    ]
    for point in points:
        broken = breaking_row(replace(s, radius_points=0), data, point.net)
        lemmas = _lemmas(point.net, data, on_train, on_test, point.audit)
        ratio = {"over_robust": broken["norm"] / robust}
        rows.append({"kind": "point"} | point.as_row() | broken | lemmas | ratio)
    context.progress(1.0)
    premises = theory.assumption_2_2(apart) + theory.assumption_2_2(on_test)[:1]
    premises += theory.size_conditions(s) + theory.sample_events(apart, data.train)
    return [*rows, *(premise.as_row() for premise in premises)]


@torch.no_grad()
def _lemmas(
    net: TwoLayerNet, data: Problem, s: theory.Separation, on_test: theory.Separation, audit: KKTAudit
) -> Row:
    """Lemmas A.10-A.12, D.2-D.4 with the Δ of the sample: measured ÷ bound.

    A.12 and D.3 speak of test points: their Δ also covers the products of test with training points.
    """
    x, y, cluster = data.train.x, data.train.y, data.train.cluster
    sums = cluster_sums(net, x, y, cluster, audit)
    class_sums = torch.where(data.clusters.labels > 0, sums[:, 0], sums[:, 1])
    weighted = audit.multipliers @ neuron_activity(net, x, audit) * net.a.abs()
    inputs = data.test.x @ net.W.T + (0 if net.b is None else net.b)
    toward = (net.W @ direction(data)) * torch.sign(net.a)
    margins = data.test.y * net(data.test.x)
    return {
        "a10": float(sums.max()) / theory.largest_sum(s),
        "a11": float(class_sums.min()) / theory.least_own_sum(s),
        "class_sum_times_d": float(class_sums.mean()) * (s.dim + 1),
        "a12": float(margins.min()) / theory.least_test_margin(on_test),
        "d2": float(margins.abs().max()),
        "d3": float((inputs / weighted).min()) / -theory.least_input(on_test),
        "d4": float((toward / weighted).min()) / theory.alignment_room(s),
    }


LEMMAS = requires("assumption-2-2", "theorem-3-1", "on-sample", "proposition-a-1", regime="inside")


def _most_clusters(rows: Rows) -> Rows:
    """The setting inside the assumption with the most clusters."""
    points = inside(rows.of("point"))
    return points.having(clusters=max(points.distinct("clusters"), default=0))


def _how_many(rows: Rows) -> str:
    k = max(_most_clusters(rows).distinct("clusters"))
    return f"k = {k}; one neuron for each class breaks at 2/√k of the robust radius of orthogonal means, other groupings later"


CLAIMS = (
    Claim(
        "contrast",
        source="Theorems 4.1, 4.2",
        says="Training ends at a network that is less robust than a network of the same size could be.",
        quantity="norm along u that flips half of the test points of the KKT point ÷ proven median radius of the network of"
        " Theorem 4.1, at"
        " the largest number of clusters inside Assumption 2.2",
        bound=below(1.0),
        because="below 1 the KKT point breaks where the constructed network is proven to hold",
        value=lambda rows: _most_clusters(rows).largest("over_robust"),
        note=_how_many,
        premises=INSIDE,
        headline=True,
    ),
    Claim(
        "a10",
        source="Lemma A.10",
        says="No cluster feeds the neurons of one sign by more than 1/((1 - 2c')(d - Δ + 1)).",
        quantity="largest cluster sum Σ λ_i v_j² φ'_ij over neurons of one sign ÷ the bound, Δ of the sample",
        formula=r"\sum_{i \in I_q} \sum_{j \in J_\pm} \lambda_i v_j^2 \phi'_{ij} \le \frac{1}{(1 - 2c')(d - \Delta + 1)}",
        bound=at_most(1.0),
        because="the ratio of both sides of the lemma",
        value=lambda rows: inside(rows.of("point")).largest("a10"),
        aggregate="worst",
        premises=LEMMAS,
    ),
    Claim(
        "a11",
        source="Lemma A.11",
        says="Every cluster feeds the neurons of its sign by at least (1 - c'/(1 - 2c'))/(3d + Δ + 1).",
        quantity="least cluster sum Σ λ_i v_j² φ'_ij over neurons of the cluster's sign ÷ the bound, Δ of the sample",
        formula=r"\sum_{i \in I_q} \sum_{j \in J_{y_q}} \lambda_i v_j^2 \phi'_{ij} \ge \frac{1 - c'/(1 - 2c')}{3d + \Delta + 1}",
        bound=at_least(1.0),
        because="the ratio of both sides of the lemma",
        value=lambda rows: inside(rows.of("point")).least("a11"),
        aggregate="worst",
        premises=LEMMAS,
    ),
    Claim(
        "a12",
        source="Theorem 3.1, proof of Lemma A.12",
        says="A KKT point classifies every new point that resembles a cluster with a margin that the proof bounds from below.",
        quantity="least y N(x) over test points ÷ the bound, Δ of the sample",
        formula=r"y\,\mathcal{N}(x) \ge \left(1 - \tfrac{c'}{1 - 2c'}\right)\tfrac{d - \Delta + 1}{3d + \Delta + 1} -"
        r" \tfrac{2c'}{1 - 2c'}",
        bound=at_least(1.0),
        because="the ratio of both sides of the lemma",
        value=lambda rows: inside(rows.of("point")).least("a12"),
        aggregate="worst",
        premises=LEMMAS,
    ),
    Claim(
        "d2",
        source="Lemma D.2",
        says="The output of a KKT point is at most 2 in size on new points.",
        quantity="largest |N(x)| over test points",
        formula=r"\lvert\mathcal{N}(x)\rvert \le 2",
        bound=at_most(2.0),
        because="the lemma's bound; its argument gives 3/2",
        value=lambda rows: inside(rows.of("point")).largest("d2"),
        aggregate="worst",
        premises=LEMMAS,
    ),
    Claim(
        "d3",
        source="Lemma D.3",
        says="No neuron of a KKT point is far below its kink on a new point.",
        quantity="least ⟨w_j, x⟩ + b_j over test points and neurons ÷ ((2Δ + p + 1) Σ λ_i |v_j| φ'_ij), Δ of the sample",
        formula=r"\langle w_j, x\rangle + b_j \ge -(2\Delta + p + 1) \sum_i \lambda_i \lvert v_j\rvert \phi'_{ij}",
        bound=at_least(-1.0),
        because="the ratio of both sides of the lemma",
        value=lambda rows: inside(rows.of("point")).least("d3"),
        aggregate="worst",
        premises=LEMMAS,
    ),
    Claim(
        "d4",
        source="Lemma D.4",
        says="Every neuron of a KKT point leans towards u = Σ y_q μ_q with the sign of its vote.",
        quantity="least ±⟨w_j, u⟩ over neurons, the sign that of v_j, ÷ ((d - Δ - k(p + Δ)) Σ λ_i |v_j| φ'_ij), Δ of the sample",
        formula=r"\operatorname{sign}(v_j) \langle w_j, u\rangle \ge (d - \Delta - k(p + \Delta)) \sum_i \lambda_i \lvert"
        r" v_j\rvert \phi'_{ij}",
        bound=at_least(1.0),
        because="the ratio of both sides of the lemma",
        value=lambda rows: inside(rows.of("point")).least("d4"),
        aggregate="worst",
        premises=LEMMAS,
    ),
    Claim(
        "sums",
        source="Lemmas A.10, A.11, sharp",
        says="Under Assumption 2.2 every cluster feeds the neurons of its sign by nearly 1/(d + 1), in the middle of the"
        " lemmas' bounds.",
        quantity="|(d + 1) × mean cluster sum Σ λ_i v_j² φ'_ij over neurons of the cluster's sign - 1|, largest over all KKT"
        " points found inside with orthogonal means",
        bound=at_most(0.05),
        because="1/(d + 1) is the value as σ → 0 with orthogonal means",
        value=lambda rows: abs(rows.of("point", case="within").farthest("class_sum_times_d", 1.0) - 1),
        origin="featureprism",
        premises=INSIDE,
    ),
)


def draw(rows: Rows) -> "Figure":
    """How far inside or outside Assumption 2.2 each setting is: c' with the printed Δ and with that of the sample."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=5.6, height=2.6)
    settings = rows.of("audit").groups("case", "dim", "clusters")
    for height, ((case, dim, k), group) in enumerate(settings.items()):
        for key, marker in (("crowding", "o"), ("measured_crowding", "D")):
            values = group.column(key)
            values = values[np.isfinite(values)]
            if len(values):
                axes.plot(values.mean(), height, marker, color=COLOURS[height % len(COLOURS)])
        axes.text(
            2e-3, height, f"{CASE_NAMES[case]}, d = {dim}, k = {k}", ha="right", va="center", fontsize=8
        )
    guide(axes, 0.1, "Assumption 2.2: at most 1/10")
    axes.set(
        xscale="log",
        xlim=(3e-3, 300),
        yticks=[],
        xlabel="c' (circles: printed Δ,\ndiamonds: Δ of the sample)",
    )
    axes.set_ylim(len(settings) - 0.4, -0.6)
    return figure


ASSUMPTION_2_2 = Experiment(
    id="double-edged/assumption-2-2",
    source="Frei et al. 2023, Assumption 2.2 and Appendices A, D",
    title="The theorems audited: premises, events, lemmas, the robust rival",
    scales={
        "quick": [
            ExploredSetting.within(radius_points=10),
            ExploredSetting.obtuse(starts=1, radius_points=10),
            ExploredSetting.obtuse(20_000, 16, -0.002, patterns=0, starts=0, radius_points=10),
            ExploredSetting.usual(patterns=0, starts=0, radius_points=10),
        ],
        "standard": [
            *(ExploredSetting.within(d, k, radius_points=50) for d, k in ((3000, 4), (3000, 8), (6000, 16))),
            ExploredSetting.obtuse(radius_points=50),
            ExploredSetting.obtuse(20_000, 16, -0.002, patterns=2, starts=0, radius_points=50),
            ExploredSetting.example_1a(patterns=2, starts=1, radius_points=10),
            ExploredSetting.usual(patterns=0, starts=0, radius_points=50),
        ],
        "paper": [
            *(
                ExploredSetting.within(d, k, radius_points=200)
                for d, k in ((3000, 8), (6000, 16), (10_000, 26))
            ),
            ExploredSetting.obtuse(patterns=16, starts=8, radius_points=200),
            ExploredSetting.obtuse(20_000, 16, -0.002, radius_points=200),
            ExploredSetting.example_1a(10**8, 8, patterns=2, starts=1, radius_points=10),
            ExploredSetting.usual(3072, 10, patterns=0, starts=0, radius_points=200),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Assumption 2.2 with the printed Δ and that of the sample, events P1-P6, and Lemmas A.10-A.12, D.2-D.4 at every KKT point"
        " that is"
        " found; beside them the robust network of Theorem 4.1."
    ),
    draw=draw,
)
