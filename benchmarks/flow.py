"""Gradient flow from ε = 1e-80 against 1e-7."""

from collections.abc import Iterator
from math import log

from benchmarks.timing import line, medians
from featureprism import generator_for
from featureprism.data import orthonormal_clusters, sample_balanced
from featureprism.networks import balanced, gaussian_shape, nudge_to_own_class
from featureprism.networks.initial import random_signs
from featureprism.training import Loss, balanced_flow


def ratios() -> Iterator[str]:
    """D = 400, K = 5+5, N = 100, width 60, p = 3; from a random and from a nudged start."""
    clusters = orthonormal_clusters(400, 5, 5, 0.1, generator=generator_for("centres", 0))
    data = sample_balanced(clusters, 100, generator=generator_for("train", 0))
    shape = gaussian_shape(60, 400, generator=generator_for("shape", 0))
    signs = random_signs(60, generator=generator_for("signs", 0))
    nudge = generator_for("nudge", 0)
    nudged = nudge_to_own_class(shape, signs, clusters.mu, clusters.labels, 0.5, generator=nudge)
    loss = Loss("square", "per-cluster", 10)
    for name, start in (("random", shape), ("nudged", nudged)):

        def run(epsilon: float, start=start) -> None:
            weights = balanced(start, signs, log(epsilon))
            balanced_flow(weights, data.x, data.y, p=3.0, loss=loss, t_end=-log(epsilon) + 8)

        far, near = medians(lambda run=run: run(1e-80), lambda run=run: run(1e-7), repeats=3)
        yield line(f"flow from ε = 1e-80 ÷ from 1e-7, {name} start", far / near, 2.0)
