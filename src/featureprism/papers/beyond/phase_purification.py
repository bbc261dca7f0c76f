"""Sparse coding: robust accuracy after clean and after adversarial training against the sparsity and the dimension."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from featureprism.lab import Claim, Experiment, Rows, Values, above, at_most, below
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.networks import LinearClassifier
from featureprism.papers.beyond.curves import ends, largest_gap
from featureprism.papers.feature_purification import setting as purification
from featureprism.papers.feature_purification import theory
from featureprism.papers.feature_purification.setting import Battery

SOURCE = "beyond feature-purification, Theorems 5.1 and 5.3"
# a bias that grows half as fast as a winner, and few steps: a cell of the map costs as little as it can
QUICK = Battery(
    bias_growth=0.15, step_per_bias=0.2, penalty=0.07, steps=700, adversarial_steps=200, ties="positive"
)
finding = partial(Claim, source=SOURCE, origin="featureprism")


def measure(s: Battery, seed: int, context: Context) -> list[Row]:
    """The two networks between the pure network (ceiling) and the linear classifier Mw* (floor, measured and predicted)."""
    problem, test = purification.coding(s, seed), purification.test_set(s, seed)

    def robust(net: Any) -> float:
        return purification.robustness(net, test, problem, s, seed).row["worst"]

    clean = robust(purification.trained(s, seed, "clean"))
    context.progress(0.5)
    hardened, ceiling = (
        robust(purification.trained(s, seed, "adversarial")),
        robust(purification.pure_start(s, seed)),
    )
    linear = LinearClassifier(problem.dense_direction.double()).exact_radius(test.x.double(), test.y.double())
    return [
        {
            "kind": "cell",
            "clean_robust": clean,
            "adversarial_robust": hardened,
            "gain": hardened - clean,
            "ceiling": ceiling,
            "over_ceiling": hardened - ceiling,
            "floor": float((linear > s.radius).double().mean()),
            "predicted_floor": theory.linear_robust_accuracy(
                test.z @ problem.w, problem.w, s.noise, s.radius
            ),
        }
    ]


def _change(own: Rows) -> float:
    """How the gain changes from the smallest k to the largest, largest over d."""
    lines = [ends(line, "sparsity") for line in own.groups("dim").values()]
    return np.max([dense.mean("gain") - sparse.mean("gain") for sparse, dense in lines])


def _with_dimension(rows: Rows) -> Values:
    """Clean robust accuracy at the largest d minus that at the smallest, means over k."""
    small, large = ends(rows.of("cell"), "dim")
    return large.mean("clean_robust") - small.mean("clean_robust")


CLAIMS = (
    finding(
        "gain",
        says="sparse data (the smallest k): what adversarial training adds to robust accuracy, least over d",
        value=lambda rows: ends(rows.of("cell"), "sparsity")[0].least("gain"),
        bound=above(0.3),
    ),
    finding(
        "dense",
        says="the gain shrinks as k grows: at the largest k minus the smallest, largest over d",
        value=lambda rows: rows.of("cell").per_seed(_change),
        bound=below(0.0),
        note="phrased after a first run: at d = 100, k = 30 little is gained",
    ),
    finding(
        "ceiling",
        says="and never beyond the pure network: robust accuracy minus that of the ceiling, largest over cells",
        value=lambda rows: rows.of("cell").largest("over_ceiling"),
        bound=at_most(0.1),
        aggregate="worst",
    ),
    finding(
        "floor",
        says="the linear floor is where predicted: largest |measured - predicted| robust accuracy over cells",
        value=lambda rows: largest_gap(rows, "floor", "predicted_floor"),
        bound=at_most(0.08),
    ),
    finding(
        "dimension",
        says="clean networks get worse with d: robust accuracy at the largest d minus the smallest, mean over k",
        value=_with_dimension,
        bound=below(0.0),
    ),
)


def _settings(base: Battery, dims: tuple[int, ...], sparsities: tuple[int, ...]) -> list[Battery]:
    return [replace(base, dim=d, width=3 * d, sparsity=k) for d in dims for k in sparsities]


PHASE_PURIFICATION = Experiment(
    id="beyond/phase-purification",
    source=SOURCE,
    title="Where clean training breaks and adversarial training holds",
    scales={
        "quick": _settings(replace(QUICK, test_points=200), (100, 200), (10, 20, 30)),
        # the same training at all scales: a cell costs as d²
        "standard": _settings(replace(QUICK, test_points=500), (100, 200), (10, 20, 30, 40)),
        "paper": _settings(replace(QUICK, test_points=500), (100, 200, 400), (10, 20, 30, 40)),
    },
    measure=measure,
    claims=CLAIMS,
    about=(
        "Worst-case accuracy at the radius τ of networks after clean and after adversarial training, over the number k of active"
        " features and the dimension d, between the pure network (ceiling, dashed) and the linear classifier along Mw* (floor)."
    ),
)
