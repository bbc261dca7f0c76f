"""Where feature averaging stops: against the step size and the size of the start."""

from functools import partial
from math import nan

import numpy as np
import torch

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.beyond.curves import largest_gap
from featureprism.papers.feature_averaging import setting as averaging
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.setting import Baseline

AVERAGES = 0.9  # cosines of at least this share of the law count as averaging
SOURCE = "beyond feature-averaging, Figures 6 and 7"
finding = partial(Claim, source=SOURCE, origin="featureprism")


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """Cosines of one two-class network as a share of the law of feature averaging, and its radius."""
    data = averaging.problem(s, seed)
    net = averaging.train_two_class(s, data.train, seed)
    context.progress(0.5)
    same, opposite = averaging.average_cosines(net.W, torch.sign(net.a.detach()), data.clusters)
    radii = averaging.bracket(net, data.test, gap=0.01)
    return [
        {
            "kind": "cell",
            "share": same / theory.cosine_law(s.positive, s.num_clusters, s.points),
            "predicted_share": theory.averaging_share(s, s.steps),
            "in_domain": bool(theory.averaging_share_domain(s, s.steps).holds),
            "opposite": opposite,
            "radius": radii.half_radius[1] / theory.critical_radius(s.dim, s.num_clusters),
            **averaging.attack_facts(radii),
        }
    ]


def _agreement(own: Rows) -> float:
    """The share of cells that average, or do not, as predicted."""
    share, predicted = own.column("share"), own.column("predicted_share")
    if np.isnan(share + predicted).any():
        return nan
    return float(np.mean((share >= AVERAGES) == (predicted >= AVERAGES)))


CLAIMS = (
    finding(
        "boundary",
        says="averaging stops where predicted: share of cells on the predicted side (cosines at least 90 % of the law, or not)",
        value=lambda rows: rows.of("cell").per_seed(_agreement),
        bound=at_least(0.9),
    ),
    finding(
        "law",
        says="and the cosines follow the predicted law where the start is below the margin: largest difference over those"
        " cells, as a share of the averaging law",
        value=lambda rows: largest_gap(rows.having(in_domain=True), "share", "predicted_share"),
        bound=at_most(0.1),
    ),
    finding(
        "radius",
        says="no step size and no start buys robustness: largest 50 % radius ÷ √(d/k)",
        value=lambda rows: rows.of("cell").largest("radius"),
        bound=at_most(1.05),
        aggregate="worst",
    ),
)


def _settings(
    dim: int, points: int, test_points: int, step_sizes: tuple[float, ...], starts: tuple[float, ...]
) -> list[Baseline]:
    return [
        Baseline(dim=dim, points=points, test_points=test_points, step_size=step_size, start=start)
        for start in starts
        for step_size in step_sizes
    ]


QUICK_STEPS = (3e-4, 3e-3, 0.03, 0.3, 1.0, 3.0)
STEPS = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
PHASE_LEARNING_RATE = Experiment(
    id="beyond/phase-learning-rate",
    source=SOURCE,
    title="Where feature averaging stops",
    scales={
        "quick": _settings(1024, 400, 10, QUICK_STEPS, (1e-5, 1e-3, 3e-3, 1e-2)),
        "standard": _settings(3072, 1000, 20, QUICK_STEPS, (1e-5, 1e-3, 3e-3, 1e-2)),
        "paper": _settings(3072, 1000, 50, STEPS, (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Two-class networks of feature-averaging (k = 10, 100 steps) over step size and entry std of the start: mean own-class"
        " cosine as a share of the law 1/√(|J|(1+k/n)). Predicted: a large start is still remembered when training ends, and"
        " with a large step the first one, in which every neuron sees about half of both classes, is never corrected; both enter"
        " one formula."
    ),
)
