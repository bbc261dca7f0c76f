"""Lemmas 5.1, 5.2 and 5.5: every neuron is its start, plus features, plus memorised noise; which neurons are active when."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from featureprism.lab import Claim, Experiment, Rows, at_least, at_most
from featureprism.lab.context import Context
from featureprism.lab.experiment import SCALES
from featureprism.lab.rows import Row
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import table_of
from featureprism.papers.feature_averaging.features import class_shares
from featureprism.papers.feature_averaging.setting import (
    OF_APPENDIX_B,
    Baseline,
    problem,
    summary,
    two_class_start,
)
from featureprism.probes.decomposition import from_updates
from featureprism.training import first_layer_descent


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """λ and σ by the updates of Lemma 5.2, activations at every step, and the premises of Theorem 4.5."""
    data = problem(s, seed)
    train, mu = data.train, data.clusters.mu
    start = two_class_start(s, seed)
    signs = torch.sign(start.a.detach())
    own_pairs = signs == train.y.unsqueeze(1)
    run = first_layer_descent(
        start,
        train.x,
        train.y,
        step_size=s.step_size,
        steps=s.steps,
        representation="gram",
        watch=lambda z: (z[0] >= 0).logical_and(own_pairs).sum() / own_pairs.sum(),
        progress=context.progress,
    )
    tracked = from_updates(run.probes["slopes"][-1][0], train, s.step_size)
    growth, opposite = class_shares(tracked.features, signs, data.clusters.labels)
    own = tracked.features[signs.unsqueeze(1) == data.clusters.labels]
    row = {
        "kind": "summary",
        "lambda": growth,
        "lambda_spread": float(own.std() / own.mean()),
        "lambda_ratio": float(own.max() / own.min()),
        "opposite": opposite,
        "opposite_law": theory.opposite_share(s.positive, s.num_clusters, s.points, s.dim),
        **_activation(torch.stack(run.probes["watched"])),
    }
    features = [
        {"kind": "feature", "neuron": r, "cluster": j, "coefficient": value}
        for r, neuron in enumerate(tracked.features.tolist())
        for j, value in enumerate(neuron)
    ]
    premises = theory.premises(s, mu) + theory.training_time(s, s.steps)
    return [row, *features, *(premise.as_row() for premise in premises)]


def _activation(shares: Tensor) -> Row:
    """Of the shares of own pairs (point, neuron) active at t = 0, 1, …: at t = 1, the least from then on, and since when all."""
    partly = (shares < 1).nonzero()
    return {
        "own_active_first": float(shares[1]),
        "own_active_least": float(shares[1:].min()),
        "all_active_from": int(partly.max()) + 1 if len(partly) else 0,
    }


CLAIMS = (
    Claim(
        "active",
        source="Lemma 5.5 (Lemma B.7 (7))",
        says="From the first step on, every training point activates all neurons of its class.",
        quantity="least share of the pairs of a point and a neuron of its class that are active, over all steps from the first",
        formula=r"S_{y_i,i}^{(t)} = [m] \text{ for all } t \ge 1",
        bound=at_least(1.0),
        because="no pair may be an exception",
        value=summary("own_active_least"),
        aggregate="worst",
        premises=OF_APPENDIX_B,
    ),
    Claim(
        "active-from",
        source="Lemma 5.5, sharp",
        says="Within a few steps every training point activates all neurons of its class, for good.",
        quantity="step from which all pairs of a point and a neuron of its class are active until the end of training",
        bound=at_most(5),
        because="five of a thousand steps",
        value=summary("all_active_from"),
        origin="featureprism",
    ),
    Claim(
        "spread",
        source="Section 5.3, step 1 (Lemma B.24)",
        says="The coefficients of any two features in the neurons of a class have a ratio of 1 ± o(1).",
        quantity="largest ratio of two coefficients λ of features of the neuron's class, minus 1",
        formula=r"\lambda_{s,r,j} / \lambda_{s,r',j'} = 1 \pm o(1)",
        bound=at_most(0.2),
        because="o(1) is read as a fifth: below 1 would say nothing about a ratio",
        value=lambda rows: summary("lambda_ratio")(rows) - 1,
        premises=OF_APPENDIX_B,
        note=lambda rows: (
            f"standard deviation ÷ mean {rows.of('summary').column('lambda_spread').mean():.3f}"
        ),
    ),
)


def draw(rows: Rows) -> Any:
    """λ of every neuron and cluster, first seed."""
    from featureprism.lab.style import panels

    figure, (axes,) = panels(1, width=3.9, height=3.1)
    table = table_of(rows.of("feature", seed=rows.seeds[0]), "coefficient")
    top = np.abs(table).max()
    image = axes.imshow(table, cmap="RdBu_r", vmin=-top, vmax=top)
    figure.colorbar(image, ax=axes, label="λ")
    axes.set(xlabel="neuron", ylabel="cluster", title="coefficients of the features")
    return figure


DECOMPOSITION = Experiment(
    id="feature-averaging/decomposition",
    source="Li et al. 2025, Lemmas 5.1, 5.2 and 5.5",
    title="Every neuron is its start, plus features, plus memorised noise",
    scales={scale: [Baseline(steps=1000)] for scale in SCALES},
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "λ and σ tracked by the update rule during training in the Gram representation, exact to rounding. The paper's eq. (4)"
        " prints the inverse of the ratio of Corollary B.4."
    ),
)
