"""Both layers trained: the conjecture that Theorem 4.6 proves was made for a second layer that moves."""

from typing import Any

import torch

from featureprism.lab import Claim, Experiment, Rows, at_least, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import TwoLayerNet
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.features import sphere_gap
from featureprism.papers.feature_averaging.setting import (
    Baseline,
    attack_facts,
    average_cosines,
    bracket,
    problem,
    summary,
    train_two_class,
    two_class_start,
)
from featureprism.training import Loss, gradient_descent


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """The same start trained in its first layer alone and in both: cosines, 50 % radius, distance to f_FA, and the votes."""
    data = problem(s, seed)
    start, clusters = two_class_start(s, seed), data.clusters
    run = gradient_descent(
        start,
        data.train.x,
        data.train.y,
        loss=Loss("logistic", "mean"),
        step_size=s.step_size,
        steps=s.steps,
    )
    context.progress(0.7)
    nets: dict[str, TwoLayerNet] = {"first": train_two_class(s, data.train, seed), "both": run.last}
    law, critical = (
        theory.cosine_law(s.positive, s.num_clusters, s.points),
        theory.critical_radius(s.dim, s.num_clusters),
    )
    rows: list[Row] = []
    for name, net in nets.items():
        radii = bracket(net, data.test, gap=0.01)
        votes = net.a.detach()
        rows.append(
            {
                "kind": "summary",
                "layers": name,
                "share": average_cosines(net.W, torch.sign(votes), clusters)[0] / law,
                "radius": radii.half_radius[1] / critical,
                "certified_radius": radii.half_radius[0] / critical,
                "gap": sphere_gap(net, clusters.mu, clusters.labels, s.dim**0.5)[1],
                "votes_moved": float((votes - start.a.detach()).abs().mean() / start.a.detach().abs().mean()),
                **attack_facts(radii),
            }
        )
    return rows


CLAIMS = (
    Claim(
        "moves",
        source="beside Theorem 4.6",
        says="A second layer that starts from ±1/m and is trained at the same step size changes by more than a tenth.",
        quantity="mean |a(T) - a(0)| ÷ |a(0)|",
        bound=at_least(0.1),
        because="otherwise the comparison with a fixed second layer would say nothing",
        value=summary("votes_moved", layers="both"),
        origin="featureprism",
    ),
    Claim(
        "radius",
        source="beside Theorem 4.6",
        says="A network whose second layer is trained too, from ±1/m, breaks at √(d/k) like one whose second layer is fixed.",
        quantity="radius at which an attack breaks half of the test points of the network with both layers trained ÷ √(d/k)",
        bound=between(0.93, 1.05),
        because="seven percent below and five above the radius of the averaging classifier",
        value=summary("radius", layers="both"),
        origin="featureprism",
    ),
    Claim(
        "approach",
        source="beside Theorem 4.6",
        says="Training the second layer too, from ±1/m, leaves the network as near to the averaging classifier as a fixed second"
        " layer.",
        quantity="relative distance from a multiple of the averaging classifier: both layers trained ÷ first layer alone",
        bound=between(0.8, 1.2),
        because="a fifth",
        value=lambda rows: summary("gap", layers="both")(rows) / summary("gap", layers="first")(rows),
        origin="featureprism",
    ),
)


def draw(rows: Rows) -> Any:
    """Cosines, radii and gaps of networks with a second layer that stays and one that moves."""
    from featureprism.lab.style import COLOURS, panels

    figure, (axes,) = panels(1, width=4.2, height=2.6)
    names = {
        "share": "cosine ÷ law",
        "radius": "radius ÷ √(d/k)",
        "gap": "gap to f_FA",
        "votes_moved": "second layer moved",
    }
    for shift, (colour, layers) in enumerate(zip(COLOURS, ("first", "both"), strict=False)):
        own = rows.of("summary", layers=layers)
        values = [own.column(name).mean() for name in names]
        heights = [position + 0.35 * shift for position in range(len(names))]
        axes.barh(heights, values, color=colour, height=0.3, label=layers)
    axes.set_yticks([position + 0.17 for position in range(len(names))], list(names.values()), fontsize=8)
    axes.legend(title="layers trained", fontsize=8)
    return figure


SECOND_LAYER = Experiment(
    id="feature-averaging/second-layer",
    source="Li et al. 2025, beside Theorem 4.6",
    title="Training the second layer too, from ±1/m, changes little",
    scales={
        "quick": [Baseline(dim=1024, points=400, step_size=5e-3, steps=400, test_points=80)],
        "standard": [Baseline(step_size=5e-3, steps=400, test_points=100)],
        "paper": [Baseline(step_size=5e-3, steps=400, test_points=200)],
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Min and Vidal's conjecture has a trainable second layer that starts small and balanced; the paper fixes it at ±1/m for"
        " simplicity. Here both layers move, from ±1/m and at the same"
        " step size, beside a fixed second layer from the same start; both for ηT = 2, where the paper's figures stop at 0.1. The"
        " small balanced start of the conjecture is not measured here."
    ),
)
