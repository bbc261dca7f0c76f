"""Where feature averaging stops: against the step size and the size of the start."""

from math import nan
from typing import TYPE_CHECKING

import numpy as np
import torch

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.beyond.phases import draw_phase, largest_gap
from featureprism.papers.feature_averaging import setting as averaging
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.setting import Baseline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AVERAGES = 0.9  # cosines of at least this share of the law count as averaging
SOURCE = "beyond feature-averaging, Figures 6 and 7"


def measure(s: Baseline, seed: int, _context: Context) -> list[Row]:
    """Cosines of one two-class network as a share of the law of feature averaging."""
    data = averaging.problem(s, seed)
    net = averaging.train_two_class(s, data.train, seed)
    same, _ = averaging.average_cosines(net.W, torch.sign(net.a.detach()), data.clusters)
    return [
        {
            "kind": "cell",
            "share": same / theory.cosine_law(s.positive, s.num_clusters, s.points),
            "predicted_share": theory.averaging_share(s, s.steps),
            "in_domain": bool(theory.averaging_share_domain(s, s.steps).holds),
        }
    ]


def _agreement(run: Rows) -> float:
    """The share of cells that average, or do not, as predicted."""
    share, predicted = run.column("share"), run.column("predicted_share")
    if np.isnan(share + predicted).any():
        return nan
    return float(np.mean((share >= AVERAGES) == (predicted >= AVERAGES)))


CLAIMS = (
    Claim(
        "boundary",
        source=SOURCE,
        says="A network stops averaging its features at the step sizes and starts that one formula predicts.",
        quantity="share of settings that average, or do not, as predicted",
        bound=at_least(0.9),
        because="a network averages when its cosines are at least 90 % of the law; settings beside the border may fall on either side",
        value=lambda rows: rows.of("cell").per_seed(_agreement),
        origin="featureprism",
    ),
    Claim(
        "law",
        source=SOURCE,
        says="Where the start is below the margin, step size and start decide how much the features are averaged.",
        quantity="|measured - predicted cosine with the centres of the class|, as a share of the averaging law, largest over settings",
        bound=at_most(0.1),
        because="a tenth of the cosine that full averaging has",
        value=lambda rows: largest_gap(rows.of("cell", in_domain=True), "share", "predicted_share"),
        origin="featureprism",
        headline=True,
    ),
)


def draw(rows: Rows) -> "Figure":
    """The share of the averaging law over step size and start, with the prediction's contours."""
    cells = rows.of("cell")
    return draw_phase(cells, "step_size", "start", "share", theory="predicted_share", levels=(0.3, 0.6, 0.9))


def _settings(
    dim: int, points: int, step_sizes: tuple[float, ...], starts: tuple[float, ...]
) -> list[Baseline]:
    return [
        Baseline(dim=dim, points=points, test_points=1, step_size=step_size, start=start)
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
        "quick": _settings(1024, 400, QUICK_STEPS, (1e-5, 1e-3, 3e-3, 1e-2)),
        "standard": _settings(3072, 1000, QUICK_STEPS, (1e-5, 1e-3, 3e-3, 1e-2)),
        "paper": _settings(3072, 1000, STEPS, (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)),
    },
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Two-class networks of feature-averaging (k = 10, 100 steps) over step size and entry std of the start: the mean cosine of a"
        " neuron with the centres of its class, as a share of the law 1/√(|J|(1+k/n)). Predicted: a large start is still remembered"
        " when training ends, and with a large step the first one, in which every neuron sees about half of both classes, is never"
        " corrected; both enter one formula."
    ),
)
