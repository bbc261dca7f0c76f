"""Theorem 4.1: a robust network of the same size exists."""

from math import sqrt
from typing import TYPE_CHECKING

import torch

from featureprism._progress import Progress, no_progress
from featureprism.brackets import RadiusBracket
from featureprism.lab import Claim, Experiment, Rows, at_least, at_most, requires
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import robust_margin_classifier
from featureprism.papers.double_edged import theory
from featureprism.papers.double_edged.setting import (
    CASE_NAMES,
    MixtureSetting,
    Problem,
    RadiusSetting,
    inside,
    premises,
    problem,
)
from featureprism.probes.self_test import self_test
from featureprism.verify import Budget, robust_radius

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = 8  # cells a point; counted, not timed, so that rows repeat exactly


def robust_bracket(
    s: MixtureSetting, data: Problem, num_points: int, gap: float, progress: Progress = no_progress
) -> RadiusBracket:
    """Radii of the first test points for the network that Theorem 4.1 constructs."""
    net = robust_margin_classifier(data.clusters.mu, data.clusters.labels, s.dim)
    x, y = data.test.x[:num_points], data.test.y[:num_points]
    return robust_radius(net, x, y, gap=gap, budget=Budget(branches=CELLS), progress=progress)


def proven_at_promise(bracket: RadiusBracket, dim: int) -> float:
    """Share of points proven robust at √d/8."""
    return float(bracket.accuracy(torch.tensor([theory.PROMISED_ROBUST * sqrt(dim)]).double())[0][0])


def measure(s: RadiusSetting, seed: int, context: Context) -> list[Row]:
    """Margins and bracketed radii of the constructed network on test points."""
    data = problem(s, seed)
    net = robust_margin_classifier(data.clusters.mu, data.clusters.labels, s.dim)
    bracket = robust_bracket(s, data, s.radius_points, 0.005, context.progress)
    with torch.no_grad():
        margins = data.test.y * net(data.test.x)
    measured = {
        "kind": "radius",
        "half_radius": bracket.half_radius[1] / sqrt(s.dim),
        "certified_half_radius": bracket.half_radius[0] / sqrt(s.dim),
        "proven_at_promise": proven_at_promise(bracket, s.dim),
        "margin_at_least_one": float((margins >= 1).double().mean()),
        "zero_gradient_share": bracket.zero_gradient_share,
        "blind_share": bracket.blind_share,
        "self_test_passed": self_test().passed,
    }
    return [measured, *premises(s, data)]


CLAIMS = (
    Claim(
        "promise",
        source="Theorem 4.1",
        says="A two-layer ReLU network with one neuron for each cluster classifies new points correctly and stays correct under every"
        " perturbation of norm √d/8.",
        quantity="proven median radius of test points ÷ (√d/8), least over settings inside Assumption 2.2",
        formula=r"\mathcal{N}(x) = \sum_q y^{(q)} \left[\tfrac{4}{d}\langle\mu^{(q)}, x\rangle - 2\right]_+ ,\quad R \ge \sqrt d/8",
        bound=at_least(1.0),
        because="√d/8 is the radius that the theorem promises",
        value=lambda rows: inside(rows.of("radius")).least("certified_half_radius") / theory.PROMISED_ROBUST,
        premises=requires("assumption-2-2", regime="inside"),
        headline=True,
    ),
    Claim(
        "certified",
        source="Theorem 4.1, sharp",
        says="With orthogonal means the network of Theorem 4.1 is robust up to √d/2, four times the promised radius, and no farther.",
        quantity="|proven median radius of test points ÷ √d - ½|, largest over settings",
        formula=r"R = \sqrt d/2",
        bound=at_most(0.05),
        because="along the mean of its cluster the output falls to 0 at √d/2; a tenth of that is left for noise and the gap of"
        " the bracket",
        value=lambda rows: abs(
            rows.of("radius").farthest("certified_half_radius", theory.SHARP_ROBUST) - theory.SHARP_ROBUST
        ),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> "Figure":
    """Certified and attacked median radius of the constructed network."""
    from featureprism.lab.style import COLOURS, guide, panels

    figure, (axes,) = panels(1, width=4.8, height=2.2)
    cases = rows.of("radius").groups("case")
    for height, (case, group) in enumerate(cases.items()):
        ends = [group.column(end).mean() for end in ("certified_half_radius", "half_radius")]
        axes.plot(ends, [height, height], color=COLOURS[height], linewidth=6)
        axes.plot(ends[1], height, "|", color="black", markersize=12)
        axes.text(-0.01, height, CASE_NAMES[case], ha="right", va="center", fontsize=8)
    guide(axes, theory.PROMISED_ROBUST, "promised √d/8")
    guide(axes, theory.SHARP_ROBUST, "√d/2")
    axes.set(xlabel="median radius ÷ √d: proven to attacked", xlim=(0, 0.7), yticks=[])
    axes.set_ylim(len(cases) - 0.4, -0.6)
    return figure


THEOREM_4_1 = Experiment(
    id="double-edged/theorem-4-1",
    source="Frei et al. 2023, Theorem 4.1",
    title="A robust network of the same size exists",
    scales={
        "quick": [made(radius_points=20) for made in (RadiusSetting.usual, RadiusSetting.within)],
        "standard": [made(radius_points=200) for made in (RadiusSetting.usual, RadiusSetting.within)],
        "paper": [
            RadiusSetting.usual(3072, 10, radius_points=500),
            RadiusSetting.within(6000, 16, radius_points=500),
        ],
    },
    measure=measure,
    claims=CLAIMS,
    about="One neuron for each cluster, w = 4μ/d, b = -2: bracketed radii on test points against the promised √d/8 and the sharp √d/2.",
    draw=draw,
)
