"""Training the first layer: Gram matrix against direct loop, one batch against one after another, and the order of a tall product."""

from collections.abc import Iterator

import torch

from benchmarks.timing import line, medians
from featureprism import generator_for
from featureprism.data import orthogonal_clusters, sample
from featureprism.models.one_layer import stack
from featureprism.networks import ReLU, voting_start
from featureprism.training import first_layer_descent

STEPS = 100  # as in the paper


def ratios() -> Iterator[str]:
    """n = 1000, d = 3072, ten neurons, float64."""
    clusters = orthogonal_clusters(3072, 5, 5, 1.0, generator=generator_for("centres", 0))
    data = sample(clusters, 1000, generator=generator_for("train", 0))
    nets = [voting_start(5, 3072, 1e-5, ReLU(), generator=generator_for("start", i)) for i in range(5)]
    rates = torch.tensor([1e-4, 1e-3, 1e-2, 1e-1, 1.0]).double()

    def run(net, rate, representation: str) -> None:
        first_layer_descent(net, data.x, data.y, step_size=rate, steps=STEPS, representation=representation)

    direct, gram = medians(
        lambda: run(nets[0], 1e-3, "direct"), lambda: run(nets[0], 1e-3, "gram"), repeats=5
    )
    yield line("first layer, n = 1000, d = 3072: direct loop ÷ Gram", direct / gram, 2.5, at_most=False)
    one_by_one, together = medians(
        lambda: [run(net, float(rate), "gram") for net, rate in zip(nets, rates, strict=True)],
        lambda: run(stack(nets), rates, "gram"),
        repeats=5,
    )
    name = "five settings of an ablation: one after another ÷ in one batch"
    yield line(name, one_by_one / together, 2.0, at_most=False)
    yield _tall_product()


def _tall_product() -> str:
    """The gradient of ten neurons on n = 10 000 points, float32, as the direct loop takes it and the other way round."""
    x, slopes = torch.randn(10_000, 3072), torch.randn(10_000, 10)
    against, along = medians(lambda: x.T @ slopes, lambda: slopes.T @ x, repeats=5)
    return line(
        "gradient of many points, n = 10000: xᵀ slopes ÷ slopesᵀ x", against / along, 1.5, at_most=False
    )
