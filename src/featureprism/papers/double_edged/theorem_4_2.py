"""Theorem 4.2: one perturbation along u = Σ y_q μ_q breaks every KKT point."""

from typing import TYPE_CHECKING

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, above, at_least, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row, Values
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.explored import ExploredSetting, breaking_row, flow_row, points_of
from featureprism.papers.double_edged.setting import CASE_NAMES, INSIDE, inside, outside, premises, problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GROUP_OF = {"one neuron a cluster": 1, "groups of 2": 2}


def measure(s: ExploredSetting, seed: int, context: Context) -> list[Row]:
    """Every KKT point that is found and where it breaks, and where the flow itself breaks on its way to one."""
    data = problem(s, seed)
    points = points_of(s, data, seed)
    context.progress(0.6)
    rows: list[Row] = []
    for index, point in enumerate(points):
        share = {"kind": "point", "margin_share": point.margin / points[0].margin}
        rows.append(share | point.as_row() | breaking_row(s, data, point.net) | _law(s, point.origin))
        context.progress(0.6 + 0.3 * (index + 1) / len(points))
    rows.append({"kind": "flow", **flow_row(s, data, seed)})
    return rows + premises(s, data)


def _law(s: ExploredSetting, origin: str) -> Row:
    """Where the KKT point of equal groups breaks with means at equal angles, ÷ (‖u‖/k)."""
    group = s.clusters // 2 if origin == "one neuron a class" else GROUP_OF.get(origin)
    if s.case != "obtuse" or group is None:
        return {}
    return {"group": group, "law": theory.group_norm(s, s.cosine, group)}


def _over_law(rows: Rows) -> Values:
    """|norm ÷ law - 1|, largest over groupings."""
    grouped = rows.of("point").where(lambda row: "law" in row)
    return grouped.per_seed(lambda part: abs(part.column("norm") / part.column("law") - 1).max())


def _how_many(rows: Rows) -> str:
    parts = inside(rows.of("point")).groups("case", "clusters", "seed")
    words = [
        f"{CASE_NAMES[case]}, k = {k}: {len(part)} points that break from {part.column('norm').min():.2f} to"
        f" {part.column('norm').max():.2f} of ‖u‖/k, margins down to {part.column('margin_share').min():.2f} of the largest"
        for (case, k, seed), part in parts.items()
        if seed == rows.seeds[0]
    ]
    return "; ".join(words)


def _residual(rows: Rows) -> str:
    return f"largest residual of a KKT point: {rows.of('point').column('residual').max(initial=0.0):.0e}"


CLAIMS = (
    Claim(
        "flips",
        source="Theorem 4.2",
        says="A single perturbation along u = Σ y_q μ_q, of norm at most of the order √(d/(c²k)), flips nearly every point of"
        " every network"
        " at a KKT point.",
        quantity="share of test points flipped by z along u of norm √(d/(c²k)), least over all KKT points found inside Assumption 2.2",
        formula=r"\Pr[\operatorname{sign} \mathcal{N}(x) \ne \operatorname{sign} \mathcal{N}(x - y z)] \ge 1 - \epsilon",
        bound=at_least(0.95),
        because="ε = 0.05 as in the premises of the theorem; the order is read with the constant 1, the proof has 9 to 13",
        value=lambda rows: inside(rows.of("point")).least("flipped"),
        aggregate="worst",
        note=_how_many,
        premises=INSIDE,
        headline=True,
    ),
    Claim(
        "groups",
        source="Theorem 4.2, sharp",
        says="With means at slightly obtuse angles there are KKT points in which any number m of clusters of a class share a"
        " neuron, and"
        " they break along u = Σ y_q μ_q at about k/(k/2 + m) times ‖u‖/k.",
        quantity="|norm along u that flips half of the test points ÷ (k/(k/2 + m) ‖u‖/k) - 1|, largest over group sizes",
        formula=r"\lVert z\rVert = \frac{k}{k/2 + m}\,\frac{\lVert u\rVert}{k}",
        bound=at_most(0.0025),
        because="the law is exact without noise; noise of σ√d = 1 moves each of k = 8 responses by about 3 of d = 10⁴",
        value=_over_law,
        origin="featureprism",
        note=_residual,
        premises=INSIDE,
    ),
    Claim(
        "twice",
        source="Theorem 4.2, sharp",
        says="No KKT point that our search reaches withstands perturbations along u = Σ y_q μ_q longer than 2 ‖u‖/k.",
        quantity="norm along u that flips half of the test points ÷ (2 ‖u‖/k), largest over all KKT points found inside Assumption 2.2",
        bound=at_most(1.0),
        because="k/(k/2 + m) is below 2 for every group size m",
        value=lambda rows: inside(rows.of("point")).largest("norm") / 2,
        origin="featureprism",
        aggregate="worst",
        premises=INSIDE,
    ),
    Claim(
        "outside",
        source="beyond Theorem 4.2",
        says="Where the noise is far larger than Assumption 2.2 allows, every KKT point that was found breaks along u = Σ y_q μ_q"
        " near the"
        " norm ‖u‖/k.",
        quantity="|norm along u that flips half of the test points ÷ (‖u‖/k) - 1|, largest over all KKT points found",
        bound=at_most(0.06),
        because="noise of σ = 1 opens every neuron to all clusters of its class; it changes inner products by 1/√d = 3 % of d",
        value=lambda rows: abs(outside(rows.of("point")).farthest("norm", 1.0) - 1),
        origin="featureprism",
    ),
    Claim(
        "flow",
        source="beyond Theorem 2.1",
        says="At a loss that can be reached gradient flow has not arrived: with obtuse means its network withstands more along u than"
        " the KKT point with one neuron for each class.",
        quantity="norm along u that flips half of the test points of the flow's network ÷ (‖u‖/k), obtuse means, least over sizes",
        bound=above(1.0),
        because="above 1 the flow still uses neurons that see a part of their class",
        value=lambda rows: rows.of("flow", case="obtuse").least("norm"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Margin and breaking norm of every KKT point: a panel for each setting with obtuse means, and one for all other settings."""
    from featureprism.lab.style import COLOURS, guide, panels

    settings = rows.of("point").groups("case", "clusters")
    obtuse = {key: part for key, part in settings.items() if key[0] == "obtuse"}
    figure, axes = panels(len(obtuse) + 1, width=3.8, height=3.2)
    for panel, ((case, k), part) in zip(axes, obtuse.items(), strict=False):
        is_flow = np.array([row["origin"].startswith("flow") for row in part])
        for mask, marker, name in ((~is_flow, "o", "of a pattern"), (is_flow, "D", "limit of the flow")):
            points = part.column("margin_share")[mask], part.column("norm")[mask]
            panel.plot(*points, marker, color=COLOURS[int(mask is is_flow)], alpha=0.6, label=name)
        flow = rows.of("flow", case=case, clusters=k).column("norm")
        guide(panel, float(flow.mean()), "the flow itself", along="y")
        panel.set(title=f"{CASE_NAMES[case]}, k = {k}")
    others = [item for item in settings.items() if item[0] not in obtuse]
    for colour, ((case, k), part) in zip(COLOURS, others, strict=False):
        points = part.column("margin_share"), part.column("norm")
        axes[-1].plot(*points, "o", color=colour, alpha=0.6, label=f"{CASE_NAMES[case]}, k = {k}")
    axes[-1].set(title="other means: all break near ‖u‖/k")
    for panel in axes:
        guide(panel, 2.0, "√(d/(c²k))", along="y")
        panel.set(xlabel="margin ÷ largest margin", xlim=(0.2, 1.05), ylim=(0.9, 2.1))
        panel.legend(loc="upper right", bbox_to_anchor=(1.0, 0.88))
    axes[0].set(ylabel="norm along u that flips half ÷ (‖u‖/k)")
    return figure


THEOREM_4_2 = Experiment(
    id="double-edged/theorem-4-2",
    source="Frei et al. 2023, Theorem 4.2",
    title="One perturbation breaks every KKT point",
    scales={
        "quick": [
            ExploredSetting.obtuse(starts=2, radius_points=2),
            ExploredSetting.within(),
            ExploredSetting.example_1a(patterns=2, starts=1),
            ExploredSetting.usual(patterns=2, starts=2),
        ],
        "standard": [
            ExploredSetting.obtuse(patterns=16, starts=8, radius_points=5),
            ExploredSetting.obtuse(20_000, 16, -0.002),
            ExploredSetting.within(3000, 8),
            ExploredSetting.example_1a(),
            ExploredSetting.usual(),
            ExploredSetting.on_sphere(),
        ],
        "paper": [
            ExploredSetting.obtuse(patterns=32, starts=16, radius_points=20),
            ExploredSetting.obtuse(20_000, 16, -0.002, patterns=16, starts=8),
            ExploredSetting.within(6000, 16),
            ExploredSetting.example_1a(10**8, 8),
            ExploredSetting.usual(3072, 10, width=100),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "KKT points of one training set, by activation pattern (one neuron for each class, for pairs, for each cluster, random"
        " groupings)"
        " and from starts of gradient flow that is followed to its limit: margin, residual, test error, and the norm along u = Σ"
        " y_q μ_q"
        " that flips half of the test points."
    ),
    draw=draw,
)
