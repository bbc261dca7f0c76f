"""Figure 2 (a), (b): what the neurons point at, with two labels and with a label for each cluster."""

from typing import Any

import torch

from featureprism.lab import Claim, Experiment, Rows, above, below, between
from featureprism.lab.context import Context
from featureprism.lab.rows import Row
from featureprism.papers.feature_averaging import theory
from featureprism.papers.feature_averaging.drawing import cosine_matrix, mean_of
from featureprism.papers.feature_averaging.setting import (
    Baseline,
    average_cosines,
    matrix_rows,
    problem,
    summary,
    tested_on,
    train_k_class,
    train_two_class,
)
from featureprism.probes import cosines


def measure(s: Baseline, seed: int, context: Context) -> list[Row]:
    """Cosine matrices of both networks."""
    data = problem(s, seed)
    clusters = data.clusters
    two = train_two_class(s, data.train, seed)
    context.progress(0.5)
    ten = train_k_class(s, data.train, seed).equivalent_weights()
    signs = torch.sign(two.a.detach())
    same, opposite = average_cosines(two.W, signs, clusters)
    own, averaged = signs.unsqueeze(1) == clusters.labels, cosines(two.W.detach(), clusters.mu)
    decoupled = cosines(ten, clusters.mu)
    off_diagonal = decoupled - torch.diag(decoupled.diagonal())
    row = {
        "kind": "summary",
        "same_class": same,
        "opposite": opposite,
        "least_gap": float(averaged[own].min() - averaged[~own].max()),
        "law": theory.cosine_law(s.positive, s.num_clusters, s.points),
        "diagonal": float(decoupled.diagonal().mean()),
        "off_diagonal": float(off_diagonal.abs().max()),
    }
    matrices = matrix_rows(two.W, clusters, network="two-class")
    matrices += matrix_rows(ten, clusters, network="ten-class")
    return [row, *matrices, *(premise.as_row() for premise in theory.premises(s, clusters.mu))]


CLAIMS = (
    Claim(
        "uniform",
        source="Figure 2 (a)",
        says="With two labels, every neuron points more towards every cluster of its class than towards any cluster of the other"
        " class.",
        quantity="least cosine of a neuron with a cluster centre of its class minus the largest with one of the other class",
        bound=above(0.0),
        because="uniformly larger means that no pair is an exception",
        value=summary("least_gap"),
        aggregate="worst",
        headline=True,
    ),
    Claim(
        "same-class",
        source="Figure 2 (a), sharp",
        says="With two labels, the cosine of a neuron with each cluster centre of its class is that of an average of these centres with"
        " memorised noise.",
        quantity="mean cosine of a neuron with the centres of its class minus 1/√(|J|(1+k/n))",
        formula=r"\cos(w_r, \mu_j) = \bigl(|J|\,(1 + k/n)\bigr)^{-1/2}",
        bound=between(-0.015, 0.015),
        because="three percent of the law's value, 0.445",
        value=lambda rows: summary("same_class")(rows) - summary("law")(rows),
        origin="featureprism",
    ),
    Claim(
        "diagonal",
        source="Figure 2 (b)",
        says="With a label for each cluster, every group of neurons points along the centre of its cluster.",
        quantity="mean cosine of the weights of a label with the centre of its cluster",
        bound=above(0.985),
        because="nearly diagonal is read as an angle below ten degrees",
        value=summary("diagonal"),
        headline=True,
    ),
    Claim(
        "off-diagonal",
        source="Figure 2 (b)",
        says="With a label for each cluster, no group of neurons points along the centre of another cluster.",
        quantity="largest absolute cosine of the weights of a label with the centre of another cluster",
        bound=below(0.04),
        because="about twice the cosine of random directions, 1/√d = 0.018",
        value=summary("off_diagonal"),
    ),
)


def draw(rows: Rows) -> Any:
    """The two cosine matrices."""
    from featureprism.lab.style import panels

    figure, axes = panels(2, width=3.2, height=3.1)
    means = rows.of("summary")
    titles = {
        "two-class": f"two labels: own class {mean_of(means, 'same_class'):.3f}",
        "ten-class": f"ten labels: diagonal {mean_of(means, 'diagonal'):.3f}",
    }
    for panel, (name, title) in zip(axes, titles.items(), strict=True):
        cosine_matrix(panel, rows.of("cosine", network=name), title)
    return figure


FIGURE_2 = Experiment(
    id="feature-averaging/figure-2",
    source="Li et al. 2025, Figure 2 (a), (b)",
    title="Two labels average the features, ten decouple them",
    scales=tested_on(100, 1000, 1000),
    measure=measure,
    claims=CLAIMS,
    draw=draw,
    about=(
        "Cosines between the cluster features and the neurons after 100 steps of descent. The law for own-class cosines is"
        " 1/√(|J|(1+k/n)): the signal is averaged over |J| features, the noise of the sample adds k/n."
    ),
)
