"""The networks of the table of tightness, trained here from fixed seeds, with points nobody trained on."""

import os
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.neural_network import MLPClassifier
from torch import Tensor, nn

from featureprism import PolynomialReLU, PowerReLU, TwoLayerNet, generator_for
from featureprism.commands.common import DATA
from featureprism.data.real import Split, real_data, unit_norm
from featureprism.papers.beyond.networks import mixture_network

Case = tuple[Any, Any, Any]  # a model, points, labels
BATCH_SIZE, STEP_SIZE, EPOCHS, DIGITS = 128, 1e-3, 8, 30_000
ATTACK_STEPS = 5  # of the training against perturbations


@cache
def _real(name: str) -> Split | None:
    folder = os.environ.get(DATA)
    return real_data(name, Path(folder) if folder else None)


@cache
def _mlp() -> MLPClassifier | None:
    split = _real("mnist")
    if split is None:
        return None
    model = MLPClassifier((100,), max_iter=12, random_state=0)
    return model.fit(split.x_train[:DIGITS].astype(float), split.y_train[:DIGITS])


def mnist_mlp(num_points: int) -> list[Case] | None:
    """scikit-learn's MLP with 100 neurons on 30 000 digits of MNIST, 12 passes."""
    model, split = _mlp(), _real("mnist")
    if model is None or split is None:
        return None
    return [(model, split.x_test[:num_points].astype(float), split.y_test[:num_points])]


def _perturbed(net: nn.Module, x: Tensor, y: Tensor, eps: float) -> Tensor:
    """Points that gradient ascent moves by at most eps (ℓ2) inside [0, 1]."""
    moved = x
    for _ in range(ATTACK_STEPS if eps else 0):
        at = moved.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(nn.functional.cross_entropy(net(at), y), at)
        delta = at.detach() - x + eps / 2.5 * nn.functional.normalize(slope)
        length = torch.linalg.vector_norm(delta, dim=1, keepdim=True).clamp_min(1e-12)
        moved = (x + delta * (eps / length).clamp_max(1)).clamp(0, 1)
    return moved.detach()


@cache
def _trained(hidden: Sequence[int], eps: float) -> nn.Sequential | None:
    split = _real("mnist")
    if split is None:
        return None
    x, y = torch.from_numpy(split.x_train[:DIGITS]).float(), torch.from_numpy(split.y_train[:DIGITS]).long()
    with torch.random.fork_rng():
        torch.manual_seed(0)  # layers of torch draw from the global generator
        layers: list[nn.Module] = []
        for a, b in pairwise([x.shape[1], *hidden, 10]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        net = nn.Sequential(*layers[:-1])
        optimiser = torch.optim.Adam(net.parameters(), STEP_SIZE)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(x)).split(BATCH_SIZE):
                loss = nn.functional.cross_entropy(net(_perturbed(net, x[rows], y[rows], eps)), y[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    return net.double().requires_grad_(False)


def mnist_layers(
    hidden: Sequence[int], num_points: int, eps: float = 0.0, standing: float = 0.0
) -> list[Case] | None:
    """ReLU layers on the pixels of 30 000 digits, 8 passes of Adam, plainly or against perturbations of ℓ2 norm eps.

    The first points that a few steps of ascent leave standing at the radius `standing`.
    """
    net, split = _trained(tuple(hidden), eps), _real("mnist")
    if net is None or split is None:
        return None
    x, y = torch.from_numpy(split.x_test).double(), torch.from_numpy(split.y_test).long()
    few = slice(0, 40 * num_points if standing else num_points)
    stands = torch.ones(len(x[few]), dtype=torch.bool)
    if standing:
        stands = net(_perturbed(net, x[few], y[few], standing)).argmax(dim=1) == y[few]
    return [(net, x[few][stands][:num_points].numpy(), y[few][stands][:num_points].numpy())]


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


def random_networks(p: float, num_points: int, shapes: Sequence[tuple[int, int]]) -> list[Case]:
    """Gaussian networks of (neurons, dimensions), half of them with biases, four points each, labelled by the network."""
    cases = []
    for seed in range(max(1, num_points // 4)):
        g = generator_for("powers", seed)
        h, d = shapes[seed % len(shapes)]
        W, a, b = (torch.randn(*shape, generator=g).double() for shape in ((h, d), (h,), (h,)))
        net = TwoLayerNet(W, a, b if seed % 2 else None, activation=PowerReLU(p))
        x = torch.randn(4, d, generator=g).double()
        with torch.no_grad():
            cases.append((net, x, torch.where(net(x) >= 0, 1.0, -1.0)))
    return cases


def directions(dim: int, count: int) -> Tensor:
    """Unit vectors that leave no gap: a circle, or Fibonacci's spiral on the sphere."""
    index = np.arange(count) + 0.5
    if dim == 2:
        angle = 2 * np.pi * index / count
        return torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    height, angle = 1 - 2 * index / count, np.pi * (1 + 5**0.5) * index
    ring = np.sqrt(1 - height**2)
    return torch.from_numpy(np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1))
