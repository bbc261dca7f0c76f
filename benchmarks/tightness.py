"""How tight and how dear brackets are on networks people bring, with one hidden layer: median gap and CPU seconds a point."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.neural_network import MLPClassifier

from featureprism import PolynomialReLU, PowerReLU, RadiusBracket, TwoLayerNet, generator_for, robust_radius
from featureprism.commands.common import DATA
from featureprism.data.real import Split, real_data, unit_norm
from featureprism.heads import DecoupledHead, PReLUHead
from featureprism.papers.beyond.networks import mixture_network
from featureprism.threads import one_thread

POWERS = (1.1, 1.5, 1.9, 2.0, 2.5, 3.0, 4.2, 6.0, 10.0)
Case = tuple[Any, Any, Any]  # a model, points, labels


@dataclass(frozen=True)
class Row:
    """A network, what is asked of its brackets, and the bounds of the median gap and of the CPU seconds a point."""

    name: str
    make: Callable[[], list[Case] | None]
    tight: float
    fast: float
    norm: float = 2
    max_cells: int = 60


def _real(name: str) -> Split | None:
    folder = os.environ.get(DATA)
    return real_data(name, Path(folder) if folder else None)


def mnist_mlp(num_points: int) -> list[Case] | None:
    """scikit-learn's MLP with 100 neurons on 30 000 digits of MNIST, 12 passes."""
    split = _real("mnist")
    if split is None:
        return None
    model = MLPClassifier((100,), max_iter=12, random_state=0)
    model.fit(split.x_train[:30_000].astype(float), split.y_train[:30_000])
    return [(model, split.x_test[:num_points].astype(float), split.y_test[:num_points])]


def head(kind: type, num_points: int) -> list[Case] | None:
    """A ten-class head on the CIFAR-10 embeddings."""
    split = _real("cifar10 embeddings")
    if split is None:
        return None
    model = kind(random_state=0).fit(unit_norm(split.x_train), split.y_train)
    return [(model, unit_norm(split.x_test[:num_points]), split.y_test[:num_points])]


def mixture(num_points: int) -> list[Case]:
    """pReLU p = 3, width 200, D = 2000."""
    trained = mixture_network(PolynomialReLU(3.0), 1e-3, 0.5, 2000, 100, num_points, 0)
    return [(trained.net, trained.test.x, trained.test.y)]


def random_powers(p: float, networks: int = 6) -> list[Case]:
    """Gaussian networks of 8 to 20 neurons in 4 to 10 dimensions, half of them with biases, four points each."""
    cases = []
    for seed in range(networks):
        g = generator_for("powers", seed)
        h, d = ((8, 4), (12, 8), (20, 10))[seed % 3]
        W, a, b = (torch.randn(*shape, generator=g).double() for shape in ((h, d), (h,), (h,)))
        net = TwoLayerNet(W, a, b if seed % 2 else None, activation=PowerReLU(p))
        x = torch.randn(4, d, generator=g).double()
        with torch.no_grad():
            cases.append((net, x, torch.where(net(x) >= 0, 1.0, -1.0)))
    return cases


ROWS = (
    Row("MLP 784-100-10 on MNIST, ℓ2", lambda: mnist_mlp(32), 0.01, 0.25),
    Row("MLP 784-100-10 on MNIST, ℓ∞", lambda: mnist_mlp(32), 0.03, 1.0, inf, 300),
    Row("PReLUHead, ten classes, CIFAR-10 embeddings", lambda: head(PReLUHead, 12), 0.01, 1.0),
    Row("DecoupledHead, ten classes, CIFAR-10 embeddings", lambda: head(DecoupledHead, 12), 0.03, 1.0),
    Row("pReLU p = 3, width 200, D = 2000", lambda: mixture(16), 0.01, 0.25),
    *(Row(f"random networks, p = {p:g}", lambda p=p: random_powers(p), 0.02, 0.5) for p in POWERS),
)


@one_thread()
def measured(row: Row, cases: list[Case]) -> tuple[list[RadiusBracket], float]:
    """The brackets of a row, limited in cells alone, and their CPU seconds a point."""
    began = time.process_time()
    options = {"seconds_per_point": inf, "max_cells": row.max_cells}
    brackets = [
        model.robust_radius(x, y, **options)
        if isinstance(model, PReLUHead | DecoupledHead)
        else robust_radius(model, x, y, norm=row.norm, **options)
        for model, x, y in cases
    ]
    return brackets, (time.process_time() - began) / sum(len(b.attacked) for b in brackets)


def ratios() -> Iterator[str]:
    """One line for each row."""
    for row in ROWS:
        cases = row.make()
        if cases is None:
            yield f"     {row.name}: data not found; name its folder in {DATA}"
            continue
        brackets, seconds = measured(row, cases)
        attacked = torch.cat([b.attacked for b in brackets])
        gap = torch.cat([b.gap for b in brackets])[(attacked > 0) & torch.isfinite(attacked)].numpy()
        good = np.median(gap) <= row.tight and seconds <= row.fast
        yield (
            f"{'ok  ' if good else 'MISS'} {row.name}: median gap {np.median(gap):.2%} (at most {row.tight:.0%}), "
            f"worst {gap.max():.1%}, {seconds:.2f} CPU s a point (at most {row.fast:g}), {len(gap)} points, {row.max_cells} cells"
        )
