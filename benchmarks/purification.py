"""One step of Algorithm 1 against the matrix products it cannot do without."""

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.timing import line, medians
from featureprism import generator_for
from featureprism._threads import one_thread
from featureprism.data import SparseCoding, dictionary, label_weights, sample_sparse, two_level
from featureprism.networks import symmetric_start
from featureprism.networks.gates import Bias
from featureprism.training.symmetric import symmetric_step


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

    def step(bias: Bias = 0.09, smoothing: float = 0.018) -> None:
        symmetric_step(
            W, data.x, data.y, bias=bias, smoothing=smoothing, step_size=1e-3, penalty=5e-4, scratch=scratch
        )

    name = "symmetric network, d = 200, m = 600, batch 1000: step ÷ its products"
    bare, whole = medians(products, step, repeats=201)
    yield line(name, whole / bare, 1.6)
    own = partial(step, torch.linspace(0.09, 0.12, width))
    closed = partial(step, 0.2, 0.0035)  # one in a hundred is near its threshold
    with one_thread():
        bare, whole, each, few = medians(products, step, own, closed, repeats=101)
    yield line(f"{name}, on one thread", whole / bare, 1.6)
    yield line(f"{name}, a bias for each neuron, on one thread", each / bare, 1.6)
    yield line(f"{name}, nearly all gates closed, on one thread", few / bare, 1.2)
