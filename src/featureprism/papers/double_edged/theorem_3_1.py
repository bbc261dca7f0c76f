"""Theorem 3.1: every KKT point generalises, whatever the width and the start."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from featureprism._progress import part
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.explored import ExploredSetting, points_of
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    INSIDE,
    direction,
    error_of,
    flow_end,
    inside,
    outside,
    premises_of,
    problem,
    separation,
)
from featureprism.training import flow_limit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = ((6, 0.01), (20, 1.0))
MANY = ((6, 0.1), (20, 0.01), (20, 0.1), (20, 1.0), (100, 0.1))


@dataclass(frozen=True, kw_only=True)
class WidthSetting(ExploredSetting):
    """Beside the KKT points of patterns, the limits of gradient flow from several widths and sizes of the start, in pairs."""

    starts: int = 0
    variants: tuple[tuple[int, float], ...]


def measure(s: WidthSetting, seed: int, context: Context) -> list[Row]:
    """Test error and least margin of every KKT point that is found, and the margin of the linear classifier of Lemma 2.1."""
    data = problem(s, seed)
    nets = {point.origin: point.net for point in points_of(s, data, seed)}
    for index, (width, size) in enumerate(s.variants):
        share = part(context.progress, index / len(s.variants), (index + 1) / len(s.variants))
        end = flow_end(replace(s, width=width, start=size), data.train, seed, progress=share)
        if error_of(end, data.train) == 0:  # of other flows the theorem does not speak
            nets[f"flow, width {width}, start {size:g}"] = flow_limit(end, data.train.x, data.train.y).net
    apart = separation(s, data)
    bound = theory.least_test_margin(theory.on_sample(apart, data.train, data.test))
    rows: list[Row] = []
    for origin, net in nets.items():
        with torch.no_grad():
            least = float((data.test.y * net(data.test.x)).min() / (data.train.y * net(data.train.x)).min())
        measured = {"error": error_of(net, data.test), "least_margin": least, "over_bound": least / bound}
        rows.append({"kind": "point", "origin": origin, "neurons": len(net.a), **measured})
    linear = float((data.test.y * (data.test.x @ direction(data))).min())
    rows.append({"kind": "linear", "least": linear, "over_bound": linear / theory.linear_margin(s.dim)})
    return rows + premises_of(s, apart)


def _margins(rows: Rows) -> str:
    least = inside(rows.of("point")).column("least_margin").min(initial=1.0)
    return f"the least margin of a test point is {least:.2f} times the least of a training point"


CLAIMS = (
    Claim(
        "error",
        source="Theorem 3.1",
        says="Every network at a KKT point of the max-margin problem classifies nearly every new point correctly, however many"
        " neurons it has.",
        quantity="share of test points with y N(x) ≤ 0, largest over all KKT points found inside Assumption 2.2",
        formula=r"\Pr[y \mathcal{N}_\theta(x) \le 0] \le \epsilon",
        bound=at_most(0.05),
        because="ε = 0.05 as in the premises of the theorem",
        value=lambda rows: inside(rows.of("point")).largest("error"),
        aggregate="worst",
        note=_margins,
        premises=INSIDE,
        headline=True,
    ),
    Claim(
        "linear",
        source="Lemma 2.1",
        says="Under Assumption 2.2 the linear classifier along u = Σ y_q μ_q is right on every new point, by a margin of nearly d.",
        quantity="least y ⟨u, x⟩ over test points ÷ ((9d - 1)/10), least over settings inside Assumption 2.2",
        formula=r"y\,\langle u, x\rangle \ge (9d - 1)/10",
        bound=at_least(1.0),
        because="(9d - 1)/10 is the margin in the lemma's proof",
        value=lambda rows: inside(rows.of("linear")).least("over_bound"),
        aggregate="worst",
        premises=requires("assumption-2-2", regime="inside"),
    ),
    Claim(
        "example-1a",
        source="Example 1(a), Theorem 3.1",
        says="With means drawn from the sphere and noise as large as the means, every KKT point generalises with a margin, once the"
        " dimension is large enough for Assumption 2.2.",
        quantity="least margin of a test point ÷ least margin of a training point, least over all KKT points found, σ = 1",
        bound=at_least(0.5),
        because="a generalising network keeps at least half of its margin; noise of σ = 1 that was learned by heart takes 1/(1 +"
        " n/k) off",
        value=lambda rows: rows.of("point", case="example-1a").least("least_margin"),
        origin="featureprism",
        aggregate="worst",
        premises=requires("assumption-2-2", "theorem-3-1", case="example-1a"),
    ),
    Claim(
        "error-outside",
        source="beyond Theorem 3.1",
        says="Every KKT point that was found generalises also where the noise is far larger than Assumption 2.2 allows.",
        quantity="share of test points with y N(x) ≤ 0, largest over all KKT points found outside Assumption 2.2",
        bound=at_most(0.005),
        because="a tenth of the ε = 0.05 that the theorem is asked for inside",
        value=lambda rows: outside(rows.of("point")).largest("error"),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """The least margin of a test point, for every KKT point."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=5.0, height=2.8)
    for height, (case, group) in enumerate(rows.of("point").groups("case").items()):
        values = group.column("least_margin")
        axes.plot(values, [height] * len(values), "o", color=COLOURS[height % len(COLOURS)], alpha=0.6)
        axes.text(-0.42, height, CASE_NAMES[case], ha="right", va="center", fontsize=8)
    guide(axes, 0.0, "wrong")
    axes.set(xlabel="least margin: test point ÷ training point", xlim=(-0.4, 1.1), yticks=[])
    return figure


THEOREM_3_1 = Experiment(
    id="double-edged/theorem-3-1",
    source="Frei et al. 2023, Theorem 3.1",
    title="KKT points generalise",
    scales={
        "quick": [
            WidthSetting.usual(variants=FEW, patterns=2),
            WidthSetting.within(variants=FEW),
            WidthSetting.obtuse(variants=FEW),
            WidthSetting.example_1a(variants=FEW[1:], patterns=1),
        ],
        "standard": [
            *(
                made(variants=MANY, test_points=10000)
                for made in (
                    WidthSetting.usual,
                    WidthSetting.on_sphere,
                    WidthSetting.within,
                    WidthSetting.obtuse,
                )
            ),
            WidthSetting.example_1a(variants=FEW),
        ],
        "paper": [
            WidthSetting.usual(3072, 10, variants=MANY, test_points=20000),
            WidthSetting.within(6000, 16, variants=MANY, test_points=20000),
            WidthSetting.obtuse(variants=MANY, test_points=20000),
            WidthSetting.example_1a(10**8, 8, variants=FEW, patterns=2),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Test error and least margin of KKT points by activation pattern and of the limits of gradient flow for pairs of a width"
        " and a size"
        " of the start, and the margin of the linear classifier of Lemma 2.1."
    ),
    draw=draw,
)
