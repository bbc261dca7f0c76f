"""One step of Algorithm 1 against the matrix products it cannot do without."""

from collections.abc import Iterator

import torch

from benchmarks.timing import line, medians
from featureprism import generator_for, sample_sparse
from featureprism.data import SparseCoding, dictionary, label_weights, two_level
from featureprism.networks import symmetric_start
from featureprism.threads import one_thread
from featureprism.training import symmetric_step


def ratios() -> Iterator[str]:
    """d = 200, 600 neurons, 1000 points, float32."""
    dim, width, batch = 200, 600, 1000
    coding = SparseCoding(
        dictionary("identity", dim, generator=generator_for("dictionary", 0)),
        label_weights("signs", dim, generator=generator_for("labels", 0)),
        two_level(dim, 20),
        noise=0.3,
    )
    data = sample_sparse(coding, batch, generator=generator_for("train", 0))
    W = symmetric_start(width, dim, 0.05, 0.09, 0.018, generator=generator_for("start", 0)).W.detach()
    slopes = torch.randn(batch, width, generator=generator_for("slopes", 0))

    scratch = torch.empty(4, batch, width)  # as in training: the same memory for every step

    def products() -> None:
        _ = data.x @ W.T, slopes.T @ data.x

    def step() -> None:
        symmetric_step(
            W, data.x, data.y, bias=0.09, smoothing=0.018, step_size=1e-3, penalty=5e-4, scratch=scratch
        )

    name = "symmetric network, d = 200, m = 600, batch 1000: step ÷ its products"
    bare, whole = medians(products, step, repeats=201)
    yield line(name, whole / bare, 1.6)
    with one_thread():
        bare, whole = medians(products, step, repeats=101)
    yield line(f"{name}, on one thread", whole / bare, 1.6)
