"""What a receiver pays: the check of proofs against the search that found them, CPU time of both in one run."""

import math
import time
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

import numpy as np
import torch

from benchmarks.timing import Ratio, line
from featureprism import Budget, robust_radius
from featureprism.checker.proofs import read_proofs
from featureprism.checker.stated import Stated, checked
from featureprism.models import read_model
from featureprism.models.scores import LayeredScores, ScoreNet
from featureprism.networks import ReLU

CHEAPER = 7  # times, at least
CLASSES, DIM, POINTS, BRANCHES = 4, 16, 3, 60
WIDTHS = {"one hidden layer of 64": (64,), "one hidden layer of 128": (128,), "two of 24": (24, 24)}


def network(widths: tuple[int, ...]) -> torch.nn.Module:
    """Gaussian weights that keep the size of what passes."""
    generator = torch.Generator().manual_seed(0)

    def draw(out: int, into: int) -> torch.Tensor:
        return torch.randn(out, into, generator=generator, dtype=torch.float64) * (2 / into) ** 0.5

    sizes = (DIM, *widths, CLASSES)
    weights = [draw(b, a) for a, b in pairwise(sizes)]
    offsets = [0.1 * torch.ones(b).double() for b in sizes[1:]]
    if len(widths) == 1:
        return ScoreNet(weights[0], weights[1].T.contiguous(), *offsets, activation=ReLU())
    return LayeredScores(weights, offsets, ReLU())


def cost(net: torch.nn.Module, norm: float) -> tuple[float, float]:
    """CPU seconds of the search, and of the check of the file that it leaves."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(POINTS, DIM, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        y = net(x).argmax(dim=1)
    began = time.process_time()
    bracket = robust_radius(net, x, y, norm=norm, budget=Budget(branches=BRANCHES))
    searched = time.process_time() - began
    content, model, points = bracket.content(), read_model(net).checkable(), x.numpy()
    began = time.process_time()
    result = checked(read_proofs(content), model, points, np.asarray(y), Stated(norm))
    took = time.process_time() - began
    if not result or not result.proven.all():
        raise AssertionError(f"Refused: {result}")
    return searched, took


def ratios() -> Iterator[Ratio]:
    """Search over check, for each network and norm, and their median."""
    found = []
    for name, widths in WIDTHS.items():
        for norm in (2, math.inf):
            searched, took = cost(network(widths), norm)
            found.append(searched / took)
            yield line(
                f"search over check of proofs, {name}, {'ℓ2' if norm == 2 else 'ℓ∞'}",
                found[-1],
                CHEAPER,
                at_most=False,
            )
    yield line("search over check of proofs, median", median(found), CHEAPER, at_most=False)
